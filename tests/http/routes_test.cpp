// The other routes, keys, CORS and the key file.
#include "net/http/auth.hpp"
#include "net/http/key_file.hpp"
#include "tests/http/server_fixture.hpp"

#include <sys/stat.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <fstream>

namespace tandem::net::http::test {
namespace {

struct LockedServer : ServerFixture {
  LockedServer() : ServerFixture(locked_options()) {}
  static ServerOptions locked_options() {
    ServerOptions options = default_options();
    options.keys = {"first-key", "second-key"};
    options.cors_origins = {"https://app.example"};
    return options;
  }
};

struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem-keys-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(routes)

BOOST_FIXTURE_TEST_CASE(models_lists_each_served_name_once, ServerFixture) {
  for (const char* path : {"/v1/models", "/models", "/v1/models/", "/v1/models?x=1"}) {
    const text::Json json = json_of(get(path).body);
    BOOST_TEST(at(json, "data").if_array()->size() == 2U);
    BOOST_TEST(string_at(json, "data.1.id") == "alias/one");
    BOOST_TEST(number_at(json, "data.0.max_model_len") == "4096");
  }
  BOOST_TEST(string_at(json_of(get("/v1/models/alias%2Fone").body), "id") == "alias/one");
  BOOST_TEST(string_at(json_of(get("/v1/models/alias/one").body), "id") == "alias/one");
}

BOOST_FIXTURE_TEST_CASE(health_follows_the_node_and_livez_does_not, ServerFixture) {
  BOOST_TEST(get("/health").body == R"({"status":"ok"})");
  door.state.state = actors::NodeState::loading;
  const Answer answer = get("/health");
  BOOST_TEST(answer.status == 503);
  BOOST_TEST(answer.body == R"({"status":"loading","phase":"loading"})");
  BOOST_TEST(get("/ping").status == 503);
  BOOST_TEST(get("/livez").status == 200);
}

BOOST_FIXTURE_TEST_CASE(metrics_has_every_series_from_the_start, ServerFixture) {
  door.state.running = 3;
  door.state.counters.aborted = 5;
  door.state.counters.engram = {7, 3, 0.25};
  door.state.step_seconds[static_cast<std::size_t>(actors::StepPart::compute)] = 1.5;
  door.state.inference_time = actors::SnapshotBoard{}.read().inference_time;
  const std::string page = get("/metrics").body;
  for (const char* line :
       {"vllm:num_requests_running{engine=\"0\",model_name=\"tandem\"} 3\n",
        "vllm:num_requests_waiting{",
        "vllm:kv_cache_usage_perc{",
        "vllm:prompt_tokens_total{",
        "vllm:generation_tokens_total{",
        "finished_reason=\"stop\"} 0\n",
        "finished_reason=\"length\"} 0\n",
        "finished_reason=\"error\"} 0\n",
        "vllm:prefix_cache_queries_total{",
        "vllm:prefix_cache_hits_total{",
        "vllm:num_preemptions_total{",
        "vllm:spec_decode_num_drafts_total{",
        "vllm:spec_decode_num_draft_tokens_total{",
        "vllm:spec_decode_num_accepted_tokens_total{",
        "position=\"0\"}",
        "vllm:time_to_first_token_seconds_count{",
        "vllm:inter_token_latency_seconds_count{",
        "vllm:e2e_request_latency_seconds_count{",
        "vllm:request_queue_time_seconds_count{",
        "vllm:request_prefill_time_seconds_count{",
        "vllm:request_decode_time_seconds_count{",
        "vllm:request_inference_time_seconds_count{",
        "vllm:request_inference_time_seconds_bucket{engine=\"0\",model_name=\"tandem\",le=\"0.25\"} 0\n",
        "tandem:rank_losses_total{",
        "tandem:recoveries_total{",
        "tandem:step_seconds_total{engine=\"0\",model_name=\"tandem\",part=\"compute\"} 1.5\n",
        "part=\"deliver\"} 0\n",
        "tandem:engram_rows_total{engine=\"0\",model_name=\"tandem\"} 7\n",
        "tandem:engram_cache_hits_total{engine=\"0\",model_name=\"tandem\"} 3\n",
        "tandem:engram_wait_seconds_total{engine=\"0\",model_name=\"tandem\"} 0.25\n",
        "vllm:request_prompt_tokens_count{",
        "vllm:request_generation_tokens_count{",
        "vllm:request_params_max_tokens_count{",
        "vllm:request_params_n_count{",
        "vllm:iteration_tokens_total_count{",
        "vllm:cache_config_info{",
        "tandem:request_aborted_total{engine=\"0\",model_name=\"tandem\"} 5\n"})
    BOOST_TEST(page.find(line) != std::string::npos, line);
  BOOST_TEST(page.back() == '\n');
}

BOOST_FIXTURE_TEST_CASE(status_is_json_with_ranks, ServerFixture) {
  const text::Json json = json_of(get("/status").body);
  BOOST_TEST(string_at(json, "state") == "ready");
  BOOST_TEST(at(json, "ranks").if_array()->size() == 2U);
}

BOOST_FIXTURE_TEST_CASE(tokenize_and_detokenize_are_inverse, ServerFixture) {
  HttpClient client = connect();
  const text::Json json = json_of(
      client.post("/v1/tokenize", R"({"prompt":"Huế 17*19","add_special_tokens":false,"return_token_strs":true})")
          .body);
  std::string list;
  const text::Json tokens = at(json, "tokens");
  for (const text::Json& id : *tokens.if_array()) list += (list.empty() ? "" : ",") + id.if_number()->text;
  BOOST_TEST(number_at(json, "count") == std::to_string(tokens.if_array()->size()));
  BOOST_TEST(at(json, "token_strs").if_array()->size() == tokens.if_array()->size());
  BOOST_TEST(string_at(json_of(client.post("/detokenize", "{\"tokens\":[" + list + "]}").body), "prompt") ==
             "Huế 17*19");
  BOOST_TEST(client.post("/detokenize", R"({"tokens":[99999999]})").status == 400);
  BOOST_TEST(client.post("/detokenize", R"({"tokens":[1.5]})").status == 400);
  BOOST_TEST(client.post("/detokenize", R"({})").status == 400);
  BOOST_TEST(client.post("/tokenize", R"({})").status == 400);
}

BOOST_FIXTURE_TEST_CASE(tokenize_of_messages_counts_what_chat_is_charged, ServerFixture) {
  door.script = answer_script({"</think>", "ok"});
  const text::Json counted = json_of(connect().post("/tokenize", chat_body()).body);
  const text::Json answered = json_of(chat(chat_body()).body);
  BOOST_TEST(number_at(counted, "count") == number_at(answered, "usage.prompt_tokens"));
}

BOOST_FIXTURE_TEST_CASE(posts_are_found_without_the_prefix, ServerFixture) {
  door.script = answer_script({"</think>", "ok"});
  BOOST_TEST(connect().post("/chat/completions/", chat_body()).status == 200);
}

BOOST_FIXTURE_TEST_CASE(a_key_opens_every_door_and_none_is_shown, LockedServer) {
  door.script = answer_script({"</think>", "ok"});
  for (const char* path : {"/v1/models", "/metrics", "/status", "/version", "/ping"}) {
    const Answer refused = get(path);
    BOOST_TEST(refused.status == 401);
    BOOST_TEST(refused.headers.at("www-authenticate") == "Bearer");
    BOOST_TEST(string_at(json_of(refused.body), "error.code") == "invalid_api_key");
    BOOST_TEST(get(path, "Authorization: bearer  second-key\r\n").status == 200);
    BOOST_TEST(get(path, "x-api-key: first-key\r\n").status == 200);
    BOOST_TEST(get(path, "Authorization: Bearer first-ke\r\n").status == 401);
    BOOST_TEST(get(path, "Authorization: Basic first-key\r\n").status == 401);
  }
  for (const char* path : {"/health", "/livez", "/"}) BOOST_TEST(get(path).status == 200);
  BOOST_TEST(chat(chat_body()).status == 401);
  BOOST_TEST(chat(chat_body(), "Authorization: Bearer first-key\r\n").status == 200);
}

BOOST_FIXTURE_TEST_CASE(a_missing_key_is_refused_before_the_body_arrives, LockedServer) {
  HttpClient client = connect();
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
  BOOST_TEST(client.read_answer().status == 401);
  BOOST_TEST(client.is_closed_by_server());
}

BOOST_FIXTURE_TEST_CASE(cors_answers_the_listed_origin_only, LockedServer) {
  HttpClient client = connect();
  client.send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: t\r\nOrigin: "
      "https://app.example\r\nAccess-Control-Request-Headers: "
      "x-a\r\n\r\n");
  const Answer allowed = client.read_answer();
  BOOST_TEST(allowed.status == 204);
  BOOST_TEST(allowed.headers.at("access-control-allow-origin") == "https://app.example");
  BOOST_TEST(allowed.headers.at("access-control-allow-headers") == "x-a");
  client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: t\r\nOrigin: https://evil.example\r\n\r\n");
  BOOST_TEST(!client.read_answer().headers.contains("access-control-allow-origin"));
}

BOOST_AUTO_TEST_CASE(the_bearer_scheme_is_read_strictly) {
  BOOST_TEST(bearer_key("Bearer abc") == "abc");
  BOOST_TEST(bearer_key("BEARER   abc ") == "abc");
  BOOST_TEST(bearer_key("Bearerabc") == "");
  BOOST_TEST(bearer_key("Bearer") == "");
  BOOST_TEST(bearer_key("Bearer  ") == "");
  BOOST_TEST(bearer_key("") == "");
}

BOOST_AUTO_TEST_CASE(a_key_file_is_made_once_for_its_owner_only) {
  const TemporaryFolder folder;
  const auto file = folder.path / "state" / "keys";
  const auto first = load_or_create_keys(file);
  BOOST_REQUIRE(first.has_value());
  BOOST_TEST(first->front().size() >= 40U);
  struct stat status {};
  ::stat(file.c_str(), &status);
  BOOST_TEST((status.st_mode & 0777) == 0600U);
  const auto second = load_or_create_keys(file);
  BOOST_TEST(second->front() == first->front());
  BOOST_TEST(std::distance(std::filesystem::directory_iterator{file.parent_path()},
                           std::filesystem::directory_iterator{}) == 1);
}

BOOST_AUTO_TEST_CASE(a_key_file_that_others_can_read_or_without_a_key_is_refused) {
  const TemporaryFolder folder;
  const auto file = folder.path / "keys";
  std::ofstream{file} << "# only a comment\n\n";
  ::chmod(file.c_str(), 0644);
  BOOST_TEST((load_keys(file).error().code == ErrorCode::bad_config));
  ::chmod(file.c_str(), 0600);
  BOOST_TEST((load_keys(file).error().code == ErrorCode::bad_config));
  std::ofstream{file} << "  one \n# no\ntwo\r\n";
  BOOST_TEST((load_keys(file).value() == std::vector<std::string>{"one", "two"}));
  BOOST_TEST((load_keys(folder.path / "none").error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::http::test
