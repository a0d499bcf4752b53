// A server's misdeeds, one by one: either the right bytes arrive all the same, or the fetch ends with the reason and
// without a wrong file.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "tests/e2e/tandem_process.hpp"
#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_faults)

// One large file of several segments, one that fits in one, an empty one.
Contents model() {
  return {{"big.safetensors", make_content(100'000, 1)}, {"config.json", "{}"}, {"sub/empty", ""}};
}
constexpr const char* big_path = "/model/big.safetensors";

struct Case {
  FaultyServer server;
  Contents files = model();
  Target target{server.url("/model")};
  Case() { publish(server, files); }

  // Misbehaves on the first `times` requests for the large file.
  void misbehave(const Act& act, int times) {
    server.behave([=](const Ask& ask) { return ask.path == big_path && ask.nth <= times ? act : Act{}; });
  }
};

BOOST_FIXTURE_TEST_CASE(a_model_arrives_whole, Case) {
  const auto report = target.fetch_all();
  BOOST_TEST(report.files == 3U);
  BOOST_TEST(report.files_fetched == 3U);
  BOOST_TEST(report.revision == "r1");
  BOOST_TEST(report.bytes_received == 100'002U);
  target.check_holds(files);
  const auto manifest = gpu::read_manifest(target.folder.path());
  BOOST_REQUIRE(manifest);
  BOOST_TEST((*manifest == manifest_of(files)));
}

BOOST_FIXTURE_TEST_CASE(what_is_there_and_right_is_not_asked_for, Case) {
  target.write("big.safetensors", files.at("big.safetensors"));
  const auto report = target.fetch_all();
  BOOST_TEST(report.files_present == 1U);
  for (const Ask& ask : server.asked()) BOOST_TEST(ask.path != big_path);
  server.forget_asked();
  BOOST_TEST(target.fetch_all().files_present == 3U);
  BOOST_TEST(server.asked().size() == 1U);  // the manifest
}

BOOST_FIXTURE_TEST_CASE(what_is_there_and_wrong_is_replaced, Case) {
  target.write("big.safetensors", make_content(100'000, 2));  // the right size
  target.write("config.json", "{ }");
  target.fetch_all();
  target.check_holds(files);
}

BOOST_AUTO_TEST_CASE(faults_that_pass_are_survived) {
  Act drops, stalls, short_length, long_length, limits_rate, is_away, has_no_such_range, other_range, says_too_much,
      forgets_ranges, chunks, chunks_too_much, drops_before, trickles;
  drops.cut_after = 7000;
  drops_before.cut_after = 0;
  stalls.cut_after = 5000;
  stalls.stalls = true;
  trickles.trickles = true;
  short_length.length = 9000;
  long_length.length = 200'000;
  limits_rate.status = 429;
  limits_rate.fields = {{"Retry-After", "0"}};
  is_away.status = 503;
  has_no_such_range.status = 416;
  has_no_such_range.content_range = "bytes */100000";
  other_range.content_range = "bytes 1-16384/100000";
  says_too_much.excess = 100;
  forgets_ranges.ignores_range = true;
  chunks.is_chunked = true;
  chunks_too_much.is_chunked = true;
  chunks_too_much.excess = 5000;
  const struct {
    const char* name;
    Act act;
    int times;
  } cases[] = {{"drops", drops, 20},
               {"drops before the first byte", drops_before, 3},
               {"stalls", stalls, 2},
               {"trickles", trickles, 2},
               {"announces less than it sends", short_length, 3},
               {"announces more than it sends", long_length, 3},
               {"429", limits_rate, 3},
               {"503", is_away, 3},
               {"416 for a range that exists", has_no_such_range, 3},
               {"another range", other_range, 3},
               {"more than the range", says_too_much, 3},
               {"whole files only", forgets_ranges, 1000},
               {"whole files for a while", forgets_ranges, 1},
               {"chunked", chunks, 1000},
               {"chunked and more than the range", chunks_too_much, 3}};
  for (const auto& c : cases) {
    BOOST_TEST_CONTEXT(c.name) {
      Case fault;
      fault.misbehave(c.act, c.times);
      fault.target.fetch_all();
      fault.target.check_holds(fault.files);
    }
  }
}

BOOST_AUTO_TEST_CASE(faults_that_stay_end_the_fetch_with_the_reason) {
  Act drops, stalls, is_gone, is_forbidden, is_away, other_size, compresses, asks_for_days;
  drops.cut_after = 0;
  stalls.cut_after = 0;
  stalls.stalls = true;
  is_gone.status = 404;
  is_forbidden.status = 403;
  is_away.status = 503;
  other_size.content_range = "bytes 0-16383/100001";
  compresses.fields = {{"Content-Encoding", "gzip"}};
  asks_for_days.status = 429;
  asks_for_days.fields = {{"Retry-After", "86400"}};
  const struct {
    const char* name;
    Act act;
    ErrorCode code;
    const char* text;
  } cases[] = {{"drops", drops, ErrorCode::unavailable, "4 attempts"},
               {"stalls", stalls, ErrorCode::timeout, "no answer within the limit"},
               {"404", is_gone, ErrorCode::not_found, "404"},
               {"403", is_forbidden, ErrorCode::bad_config, "--token-file"},
               {"503", is_away, ErrorCode::unavailable, "503"},
               {"another size", other_size, ErrorCode::mismatch, "100001 bytes on the server"},
               {"compressed", compresses, ErrorCode::mismatch, "gzip"},
               {"wait for a day", asks_for_days, ErrorCode::unavailable, "429"}};
  for (const auto& c : cases) {
    BOOST_TEST_CONTEXT(c.name) {
      Case fault;
      fault.target.options.limits.read = std::chrono::milliseconds(tandem::test::is_sanitized ? 1000 : 100);
      fault.misbehave(c.act, 1000);
      const Error error = fault.target.fetch_fails();
      BOOST_TEST((error.code == c.code), error.message());
      BOOST_TEST(error.message().find(c.text) != std::string::npos, error.message());
      BOOST_TEST(!fault.target.has("big.safetensors"));
      fault.server.behave({});
      fault.target.options.limits.read = std::chrono::seconds(10);  // a busy machine is no fault
      fault.target.fetch_all();
      fault.target.check_holds(fault.files);
    }
  }
}

// A proxy that forgets a range once: the segments that are there stay, and the file goes on in parts.
BOOST_FIXTURE_TEST_CASE(a_whole_file_instead_of_a_part_once_costs_no_finished_segment, Case) {
  target.options.limits.connections = 1;
  server.behave([](const Ask& ask) {
    Act act;
    act.ignores_range = ask.path == big_path && ask.nth == 4;
    return act;
  });
  const auto report = target.fetch_all();
  target.check_holds(files);
  BOOST_TEST(report.bytes_received == 100'002U);
  int asked = 0;
  for (const Ask& ask : server.asked()) {
    asked += ask.path == big_path ? 1 : 0;
    BOOST_TEST((ask.path != big_path || ask.range.has_value()));
  }
  BOOST_TEST(asked == 8);  // seven segments, one of them twice
}

BOOST_FIXTURE_TEST_CASE(a_server_that_no_longer_sends_parts_is_believed_in_the_end, Case) {
  target.options.limits.connections = 1;
  server.behave([](const Ask& ask) {
    Act act;
    act.ignores_range = ask.path == big_path && ask.nth >= 4;
    return act;
  });
  target.fetch_all();
  target.check_holds(files);
  int asked = 0;
  for (const Ask& ask : server.asked()) asked += ask.path == big_path && ask.range && ask.range->first == 3 * 16384;
  BOOST_TEST(asked == target.options.limits.attempts);
}

BOOST_FIXTURE_TEST_CASE(frames_without_a_byte_of_the_body_are_silence, Case) {
  server.behave([](const Ask& ask) {
    Act act;
    act.is_chunked = ask.path == "/model/config.json";
    act.chunk_comment = act.is_chunked ? 1000 : 0;
    return act;
  });
  target.options.limits.attempts = 1;
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::timeout));
  BOOST_TEST(error.message().find("no answer within the limit") != std::string::npos, error.message());
}

// The caller tells it; nobody wants to read it twice.
BOOST_FIXTURE_TEST_CASE(the_error_that_ends_a_fetch_is_not_announced_as_well, Case) {
  Act is_gone;
  is_gone.status = 404;
  server.behave([=](const Ask& ask) { return ask.path == big_path ? is_gone : Act{}; });
  publish(server, {{"big.safetensors", files.at("big.safetensors")}});
  BOOST_TEST((target.fetch_fails().code == ErrorCode::not_found));
  BOOST_TEST(target.announced.find("404") == std::string::npos, target.announced);
}

BOOST_FIXTURE_TEST_CASE(one_missing_file_does_not_keep_the_others_away, Case) {
  Act is_gone;
  is_gone.status = 404;
  server.behave([=](const Ask& ask) { return ask.path == "/model/config.json" ? is_gone : Act{}; });
  BOOST_TEST((target.fetch_fails().code == ErrorCode::not_found));
  BOOST_TEST((target.read("big.safetensors") == files.at("big.safetensors")));
}

BOOST_FIXTURE_TEST_CASE(what_a_failed_fetch_finished_is_not_fetched_again, Case) {
  target.options.limits.connections = 1;
  // The last segment never comes.
  server.behave([](const Ask& ask) {
    Act act;
    if (ask.path == big_path && ask.range && ask.range->second == 99'999) act.cut_after = 0;
    return act;
  });
  target.fetch_fails();
  server.behave({});
  server.forget_asked();
  target.options.limits.segment_bytes = 50'000;  // for files that are begun now; this one keeps its own
  const auto report = target.fetch_all();
  BOOST_TEST(report.bytes_resumed == 6U * 16384);
  BOOST_TEST(report.bytes_received == 100'000U - 6 * 16384);
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(a_drop_inside_a_segment_costs_no_byte_that_was_received, Case) {
  Act drops;
  drops.cut_after = 7000;
  misbehave(drops, 5);
  const auto report = target.fetch_all();
  BOOST_TEST(report.bytes_received == 100'002U);
  BOOST_TEST(report.retries >= 4);  // the last segment is shorter than the cut
}

BOOST_FIXTURE_TEST_CASE(bytes_of_two_versions_never_meet, Case) {
  // Half of the first version, then another one of the same size.
  server.allow(60'000);
  const std::string changed = make_content(100'000, 9);
  bool was_spent = false;
  std::thread publisher([&] {
    was_spent = server.wait_until_spent();
    server.put(big_path, changed, "\"2\"");
    server.allow(10'000'000);
  });
  target.options.limits.connections = 2;
  const auto manifest = target.path("list.json");
  target.write("list.json",
               gpu::to_json({"r1", {{"big.safetensors", 100'000, ""}}}));  // no hash: only the tag can tell
  target.options.manifest_file = manifest;
  target.fetch_all();
  publisher.join();
  BOOST_TEST(was_spent);
  BOOST_TEST((target.read("big.safetensors") == changed));
  BOOST_TEST(target.announced.find("changed on the server") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_version_that_changed_between_two_runs_starts_over, Case) {
  server.behave([](const Ask& ask) {
    Act act;
    if (ask.path == big_path && ask.range && ask.range->second == 99'999) act.cut_after = 0;
    return act;
  });
  target.fetch_fails();
  server.behave({});
  files["big.safetensors"] = make_content(100'000, 5);
  publish(server, files);
  server.put(big_path, files["big.safetensors"], "\"2\"");
  target.fetch_all();
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(a_file_that_never_stops_changing_is_given_up, Case) {
  server.behave([](const Ask& ask) {
    Act act;
    act.fields = {{"ETag", fmt::format("\"{}\"", ask.nth)}};
    return act;
  });
  server.put(big_path, files["big.safetensors"], "");
  BOOST_TEST((target.fetch_fails().code == ErrorCode::mismatch));
  BOOST_TEST(!target.has("big.safetensors"));
}

BOOST_FIXTURE_TEST_CASE(a_wrong_hash_is_fetched_again_and_then_refused, Case) {
  server.put(big_path, make_content(100'000, 3));
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::mismatch));
  BOOST_TEST(error.message().find("sha256") != std::string::npos);
  BOOST_TEST(!target.has("big.safetensors"));
  int whole = 0;
  for (const Ask& ask : server.asked()) whole += ask.path == big_path && ask.range->first == 0 ? 1 : 0;
  BOOST_TEST(whole == 3);
}

BOOST_FIXTURE_TEST_CASE(redirections_are_followed_and_the_target_is_remembered, Case) {
  FaultyServer store;
  store.put("/signed", files["big.safetensors"]);
  Act redirects;
  redirects.status = 302;
  redirects.fields = {{"Location", store.url("/signed?key=1")}};
  store.put("/signed?key=1", files["big.safetensors"]);
  misbehave(redirects, 1000);
  target.options.limits.connections = 1;
  target.options.access.token = "hub-token";
  target.fetch_all();
  target.check_holds(files);
  int asked_hub = 0;
  for (const Ask& ask : server.asked()) {
    BOOST_TEST(ask.authorization == "Bearer hub-token");
    asked_hub += ask.path == big_path ? 1 : 0;
  }
  BOOST_TEST(asked_hub == 1);
  for (const Ask& ask : store.asked()) BOOST_TEST(ask.authorization.empty());
}

BOOST_FIXTURE_TEST_CASE(an_address_that_expired_is_asked_for_again, Case) {
  FaultyServer store;
  store.put("/signed", files["big.safetensors"]);
  store.behave([](const Ask& ask) {
    Act act;
    if (ask.nth % 3 == 0) act.status = 403;
    return act;
  });
  Act redirects;
  redirects.status = 302;
  redirects.fields = {{"Location", store.url("/signed")}};
  misbehave(redirects, 1000);
  target.options.limits.connections = 1;
  target.fetch_all();
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(a_circle_of_redirections_ends, Case) {
  Act redirects;
  redirects.status = 307;
  redirects.fields = {{"Location", big_path}};
  misbehave(redirects, 1000);
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::mismatch));
  BOOST_TEST(error.message().find("more than 5 redirections") != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_server_that_is_not_there_is_tried_and_named, Case) {
  std::string nobody;
  {
    const FaultyServer gone;
    nobody = gone.url("/model");
  }
  target.options.from = nobody;
  const Error error = target.fetch_fails();
  BOOST_TEST((error.code == ErrorCode::unavailable));
  BOOST_TEST(error.message().find("connecting") != std::string::npos);
  BOOST_TEST(target.announced.find("trying again") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
