// The folder as a whole: who may fill it, with which revision, and whether it has room.
#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "net/fetch/disk_space.hpp"
#include "net/fetch/listing.hpp"
#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_folder)

struct Published {
  Contents files{{"a.safetensors", make_content(50'000, 1)}, {"config.json", "{}"}};
  FaultyServer server;
  Target target{server.url("/model")};
  Published() { publish(server, files); }
};

BOOST_FIXTURE_TEST_CASE(a_second_fetch_into_the_folder_is_refused, Published) {
  server.allow(20'000);
  std::thread second([&] {
    BOOST_CHECK(server.wait_until_spent());
    Target other(server.url("/model"));
    other.options.folder = target.folder.path();
    const Error error = other.fetch_fails();
    BOOST_CHECK(error.code == ErrorCode::unavailable);
    BOOST_CHECK(error.message().find("another fetch") != std::string::npos);
    server.allow(1'000'000);
  });
  target.options.limits.read = std::chrono::milliseconds(5000);
  target.fetch_all();
  second.join();
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(a_stopped_fetch_says_so_and_goes_on_later, Published) {
  server.allow(30'000);
  std::stop_source stop;
  target.options.stop = stop.get_token();
  std::thread stopper([&] {
    BOOST_CHECK(server.wait_until_spent());
    stop.request_stop();
  });
  BOOST_TEST((target.fetch_fails().code == ErrorCode::cancelled));
  stopper.join();
  BOOST_TEST(!target.has("a.safetensors"));
  server.allow(1'000'000);
  target.options.stop = {};
  target.fetch_all();
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(another_revision_than_wanted_is_refused_before_the_first_file, Published) {
  target.options.revision = "r2";
  BOOST_TEST((target.fetch_fails().code == ErrorCode::mismatch));
  BOOST_TEST(server.asked().size() == 1U);
}

BOOST_FIXTURE_TEST_CASE(a_folder_without_a_manifest_is_no_model, Published) {
  target.options.from = server.url("/other");
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::not_found));
  BOOST_TEST(error.message().find("tandem-manifest.json") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_manifest_that_leaves_the_folder_is_refused, Published) {
  server.put("/model/tandem-manifest.json",
             R"({"format": 1, "revision": "r", "files": [{"path": "../x", "bytes": 1, "sha256": ""}]})");
  BOOST_TEST((target.fetch_fails().code == ErrorCode::bad_format));
}

BOOST_FIXTURE_TEST_CASE(an_address_with_a_password_and_a_token_in_the_clear_are_refused, Published) {
  target.options.from = "http://me:secret@127.0.0.1/model";
  const Error password = target.fetch_fails();
  BOOST_TEST((password.code == ErrorCode::bad_config));
  BOOST_TEST(password.message().find("secret") == std::string::npos);
  target.options.access.token = "t0ken";
  for (const char* from : {"http://example.org/model", "http://127.example.org/model"}) {
    target.options.from = from;
    const Error token = target.fetch_fails();
    BOOST_TEST((token.code == ErrorCode::bad_config), from);
    BOOST_TEST(token.message().find("t0ken") == std::string::npos);
  }
}

// Without a hash two versions of the same size look the same: a flag or a number of a configuration.
BOOST_FIXTURE_TEST_CASE(a_file_without_a_hash_is_fetched_again_for_another_revision, Published) {
  for (const std::string revision : {"a", "b"}) {
    const std::string content = "{\"v\": \"" + revision + "\"}";
    server.put("/model/config.json", content, '"' + revision + '"');
    server.put("/model/tandem-manifest.json", gpu::to_json({revision, {{"config.json", content.size(), ""}}}));
    BOOST_TEST(target.fetch_all().files_fetched == 1U, revision);
    BOOST_TEST(target.read("config.json") == content);
    BOOST_TEST(target.fetch_all().files_present == 1U, revision);
  }
}

BOOST_FIXTURE_TEST_CASE(what_a_refused_fetch_wanted_is_not_what_the_folder_holds, Published) {
  target.fetch_all();
  const std::uint64_t too_much = gpu::manifest_file_bytes_max;
  server.put("/model/tandem-manifest.json", gpu::to_json({"huge", {{"b.safetensors", too_much, ""}}}));
  BOOST_TEST((target.fetch_fails().code == ErrorCode::resource));
  BOOST_TEST((*gpu::read_manifest(target.folder.path()) == manifest_of(files)));
}

BOOST_FIXTURE_TEST_CASE(a_list_that_trickles_is_given_up, Published) {
  server.behave([](const Ask&) {
    Act act;
    act.trickles = true;
    return act;
  });
  target.options.limits.attempts = 1;
  BOOST_TEST((target.fetch_fails().code == ErrorCode::timeout));
}

// A hub answers a branch with the commit that it is, and big files with a redirection that tells size and hash.
struct Hub {
  const std::string commit = std::string(39, 'a') + "1";
  const std::string index =
      R"({"metadata": {}, "weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "c": "m-1.safetensors"}})";
  Contents files{{"m-1.safetensors", make_content(40'000, 1)},
                 {"m-2.safetensors", make_content(3'000, 2)},
                 {"model.safetensors.index.json", index},
                 {"config.json", "{}"},
                 {"tokenizer.json", "{ }"}};
  FaultyServer server, store;
  bool knows_commit = true;

  Hub() {
    for (const auto& [path, content] : files) {
      for (const std::string& revision : {std::string("main"), commit})
        server.put("/o/n/resolve/" + revision + "/" + path, content, "\"git-" + path + "\"");
      store.put("/" + path, content);
    }
    server.behave([this](const Ask& ask) { return answer(ask); });
  }

  Act answer(const Ask& ask) const {
    Act act;
    if (knows_commit) act.fields = {{"X-Repo-Commit", commit}};
    const std::string name = ask.path.substr(ask.path.rfind('/') + 1);
    if (!name.starts_with("m-") || !files.contains(name)) return act;
    act.status = 302;
    act.fields.emplace_back("Location", store.url("/" + name));
    act.fields.emplace_back("X-Linked-Size", std::to_string(files.at(name).size()));
    act.fields.emplace_back("X-Linked-Etag", '"' + manifest_of({{"x", files.at(name)}}).files.front().sha256 + '"');
    return act;
  }
};

BOOST_FIXTURE_TEST_CASE(a_hubs_branch_is_resolved_once_and_recorded, Hub) {
  Target target(server.url("/o/n/resolve/main"));
  const auto report = target.fetch_all();
  BOOST_TEST(report.revision == commit);
  target.check_holds(files);
  for (const Ask& ask : server.asked()) {
    const bool is_first_question = ask.path.find("/main/tandem-manifest.json") != std::string::npos ||
                                   ask.path.find("/main/model.safetensors.index.json") != std::string::npos;
    BOOST_TEST((is_first_question || ask.path.find(commit) != std::string::npos), ask.path);
  }
  server.forget_asked();
  target.fetch_all();
  for (const Ask& ask : server.asked()) BOOST_TEST(ask.path.find("/main/") == std::string::npos, ask.path);
}

BOOST_FIXTURE_TEST_CASE(a_branch_that_may_move_is_refused, Hub) {
  knows_commit = false;
  Target target(server.url("/o/n/resolve/main"));
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::bad_config));
  BOOST_TEST(error.message().find("full commit hash") != std::string::npos);
  Target pinned(server.url("/o/n/resolve/" + commit));
  BOOST_TEST(pinned.fetch_all().revision == commit);
}

BOOST_FIXTURE_TEST_CASE(a_hubs_hash_is_checked, Hub) {
  store.put("/m-2.safetensors", make_content(3'000, 3));
  Target target(server.url("/o/n/resolve/" + commit));
  BOOST_TEST((target.fetch_fails().code == ErrorCode::mismatch));
  BOOST_TEST(!target.has("m-2.safetensors"));
}

BOOST_AUTO_TEST_CASE(an_index_that_is_none_or_leaves_the_folder_is_refused) {
  for (const char* wrong : {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})",
                            R"({"weight_map": {"a": "../x"}})", R"({"weight_map": {"a": "x"})"})
    BOOST_TEST(!shards_of_index(wrong, "index"), wrong);
  BOOST_TEST(shards_of_index(R"({"weight_map": {"a": "y", "b": "x", "c": "y"}})", "index")->size() == 2U);
}

BOOST_AUTO_TEST_CASE(room_is_needed_for_what_is_missing_and_for_the_largest_join) {
  const engram::test::TemporaryFolder folder;
  const std::string ten(10, 'x');
  folder.write("there", std::as_bytes(std::span(ten)));
  const std::vector<gpu::ManifestEntry> missing{{"there", 10, ""}, {"a", 100, ""}, {"b", 7, ""}};
  const std::vector<Join> joins{{{"x", 50, ""}, {}}, {{"y", 60, ""}, {}}};
  BOOST_TEST(space_need(folder.path(), missing, joins, false).fetching == 107U);
  BOOST_TEST(space_need(folder.path(), missing, joins, false).joining == 60U);
  BOOST_TEST(space_need(folder.path(), missing, joins, true).joining == 110U);
}

BOOST_AUTO_TEST_CASE(room_that_is_just_enough_gets_a_warning_and_less_is_refused) {
  BOOST_TEST(judge_space({900, 100}, 2000).warning.empty());
  BOOST_TEST(judge_space({900, 100}, 1000).fits);
  BOOST_TEST(!judge_space({900, 100}, 1000).warning.empty());
  BOOST_TEST(!judge_space({900, 100}, 999).fits);
  BOOST_TEST(judge_space({0, 0}, 0).fits);
}

BOOST_FIXTURE_TEST_CASE(a_model_beyond_the_disk_is_refused_before_the_first_byte, Published) {
  auto manifest = manifest_of(files);
  manifest.files.push_back({"huge", std::uint64_t{1} << 50, ""});
  server.put("/model/tandem-manifest.json", gpu::to_json(manifest));
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::resource));
  BOOST_TEST(error.message().find("--force") != std::string::npos);
  BOOST_TEST(server.asked().size() == 1U);
}

// As on a full disk: a file cannot grow beyond the limit.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

BOOST_FIXTURE_TEST_CASE(a_disk_that_becomes_full_ends_the_fetch_and_keeps_what_is_there, Published) {
  {
    const FileSizeLimit full(30'000);
    BOOST_TEST((target.fetch_fails().code == ErrorCode::resource));
  }
  BOOST_TEST(!target.has("a.safetensors"));
  target.fetch_all();
  target.check_holds(files);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
