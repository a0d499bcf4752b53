// What a configuration file may say to `tandem fetch`, and that the command line comes first.
#include <boost/test/unit_test.hpp>

#include "tests/e2e/tandem_process.hpp"
#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_settings)

struct Configured {
  std::string whole = make_content(200, 4);
  Contents files{{"x", whole}, {"x.part00", whole.substr(0, 120)}, {"x.part01", whole.substr(120)}};
  FaultyServer server;
  Target target{server.url("/model")};

  Configured() { publish(server, files); }
  // Runs with a file of these lines; returns the exit code.
  int fetch_with(const std::string& lines, std::vector<std::string> more) const {
    target.write("fetch.conf", "model.dir=" + target.path("model").string() + "\n" + lines);
    std::vector<std::string> arguments{"fetch", "--from", server.url("/model"), "--config", target.path("fetch.conf")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    tandem::test::TandemProcess process(std::move(arguments));
    return process.wait_for_exit(std::chrono::seconds(30)).value_or(-1);
  }
};

BOOST_FIXTURE_TEST_CASE(folder_revision_and_parts_come_from_the_file, Configured) {
  BOOST_TEST(fetch_with("weights.revision=r2\n", {}) == 1);
  BOOST_TEST(!target.has("model/x"));
  BOOST_TEST(fetch_with("weights.revision=r1\nweights.keep_parts=1\n", {}) == 0);
  BOOST_TEST((target.read("model/x") == whole));
  BOOST_TEST(target.has("model/x.part00"));
}

BOOST_FIXTURE_TEST_CASE(the_command_line_comes_first, Configured) {
  BOOST_TEST(fetch_with("weights.revision=r2\n", {"--revision", "r1", "--out", target.path("other").string()}) == 0);
  BOOST_TEST((target.read("other/x") == whole));
  BOOST_TEST(!target.has("other/x.part00"));
  BOOST_TEST(!target.has("model"));
}

BOOST_FIXTURE_TEST_CASE(a_setting_that_is_none_is_wrong_usage, Configured) {
  BOOST_TEST(fetch_with("weights.keep_parts=yes\n", {}) == 2);
  BOOST_TEST(fetch_with("weights.revison=r1\n", {}) == 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
