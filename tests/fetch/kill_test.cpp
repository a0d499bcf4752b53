// Real processes that are killed while they fetch: what is on the disk at any moment must be of use.
#include <boost/test/unit_test.hpp>
#include <charconv>
#include <csignal>
#include <fstream>
#include <random>
#include <set>

#include "net/fetch/part_file.hpp"
#include "tests/e2e/tandem_process.hpp"
#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_kill)

using tandem::test::TandemProcess;
constexpr std::uint64_t segment_bytes = 16 << 10;
constexpr auto patience = std::chrono::seconds(30);

struct Victim {
  std::string whole = make_content(200'000, 4);
  Contents files{
      {"a.safetensors", make_content(300'000, 1)}, {"b.safetensors", make_content(90'001, 2)}, {"config.json", "{}"}};
  FaultyServer server;
  Target target{server.url("/model")};

  std::vector<std::string> arguments() const {
    return {"fetch",         "--from", server.url("/model"), "--out", target.folder.path().string(),
            "--segment-kib", "16",     "--connections",      "2",     "--json"};
  }
  // Nothing under a final name that is not whole.
  void check_no_half_file() const {
    for (const auto& [name, content] : files)
      if (target.has(name)) BOOST_TEST((target.read(name) == content), name);
  }
  // The segments that the journals call finished, as "path segment".
  std::set<std::pair<std::string, std::uint64_t>> journalled() const {
    std::set<std::pair<std::string, std::uint64_t>> finished;
    for (const auto& [name, content] : files) {
      std::ifstream journal(part_path(target.path(name)).string() + ".journal");
      std::string line;
      for (int head = 0; head < 3; ++head) std::getline(journal, line);  // whose, segments, version
      while (std::getline(journal, line) && !journal.eof()) finished.emplace("/model/" + name, std::stoull(line));
    }
    return finished;
  }
};

BOOST_FIXTURE_TEST_CASE(kills_at_random_points_cost_no_finished_segment_and_leave_no_half_file, Victim) {
  publish(server, files);
  const unsigned seed = std::random_device{}();
  BOOST_TEST_MESSAGE("seed " << seed);
  std::minstd_rand random(seed);
  for (int kill = 0; kill < 10; ++kill) {
    const auto finished = journalled();
    server.forget_asked();
    server.allow(2'000 + random() % 60'000);
    {
      TandemProcess process(arguments());
      // It may be done before its allowance is spent.
      if (server.wait_until_spent()) process.send(SIGKILL);
      BOOST_REQUIRE(process.wait_for_exit(patience));
    }
    check_no_half_file();
    for (const Ask& ask : server.asked()) {
      if (!ask.range) continue;
      const bool is_finished = finished.contains({ask.path, ask.range->first / segment_bytes});
      BOOST_TEST(!is_finished, ask.path << " is asked for byte " << ask.range->first << " again, seed " << seed);
    }
  }
  server.allow(10'000'000);
  TandemProcess process(arguments());
  BOOST_REQUIRE(process.wait_for_exit(patience) == 0);
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(a_kill_while_parts_are_joined_leaves_the_parts_or_the_shard, Victim) {
  files = {{"x", whole}, {"x.part00", whole.substr(0, 120'000)}, {"x.part01", whole.substr(120'000)}};
  publish(server, files);
  std::minstd_rand random(std::random_device{}());
  for (int kill = 0; kill < 5; ++kill) {
    TandemProcess process(arguments());
    process.wait_for_line("x: joining 2 parts", patience);
    for (unsigned spin = random() % 200'000; spin > 0; --spin) std::atomic_signal_fence(std::memory_order_seq_cst);
    process.send(SIGKILL);
    BOOST_REQUIRE(process.wait_for_exit(patience));
    check_no_half_file();
    BOOST_TEST((target.has("x") || (target.has("x.part00") && target.has("x.part01"))));
  }
  TandemProcess process(arguments());
  BOOST_REQUIRE(process.wait_for_exit(patience) == 0);
  target.check_holds({{"x", whole}});
  BOOST_TEST(!target.has("x.part00"));
}

BOOST_FIXTURE_TEST_CASE(an_interrupt_ends_it_with_130_and_the_next_run_goes_on, Victim) {
  publish(server, files);
  server.allow(100'000);
  {
    TandemProcess process(arguments());
    BOOST_REQUIRE(server.wait_until_spent());
    process.send(SIGINT);
    BOOST_TEST((process.wait_for_exit(patience) == 130));
    BOOST_TEST(process.output().find("the same command goes on") != std::string::npos);
  }
  check_no_half_file();
  server.allow(10'000'000);
  TandemProcess process(arguments());
  BOOST_TEST((process.wait_for_exit(patience) == 0));
  BOOST_TEST(process.output().find(R"("phase":"done","revision":"r1")") != std::string::npos);
  target.check_holds(files);
}

BOOST_FIXTURE_TEST_CASE(exit_codes_tell_usage_from_failure, Victim) {
  const auto code = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "fetch");
    TandemProcess process(std::move(arguments));
    return process.wait_for_exit(patience).value_or(-1);
  };
  const std::string out = target.folder.path().string();
  BOOST_TEST(code({}) == 2);
  BOOST_TEST(code({"--out", out}) == 2);
  BOOST_TEST(code({"--from", "ftp://x/y", "--out", out}) == 2);
  BOOST_TEST(code({"--from", server.url("/nothing"), "--out", out}) == 1);
}

BOOST_FIXTURE_TEST_CASE(a_token_comes_from_a_private_file_and_into_no_output, Victim) {
  publish(server, files);
  target.write("secret/token", "t0ken\n");
  const auto file = target.path("secret/token");
  auto with_token = arguments();
  with_token.insert(with_token.end(), {"--token-file", file.string()});
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  {
    TandemProcess process(with_token);
    BOOST_TEST((process.wait_for_exit(patience) == 2));
  }
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  server.behave([](const Ask& ask) {
    Act act;
    if (ask.authorization != "Bearer t0ken") act.status = 401;
    if (ask.nth == 1 && ask.path.ends_with("safetensors")) act.status = 500;  // something to report
    return act;
  });
  TandemProcess process(with_token);
  BOOST_TEST((process.wait_for_exit(patience) == 0), process.output());
  BOOST_TEST(process.output().find("500") != std::string::npos);
  BOOST_TEST(process.output().find("t0ken") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
