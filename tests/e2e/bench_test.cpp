// `tandem bench` as a user runs it: what its figures are must be true of each other, whatever the machine.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "tests/e2e/tandem_process.hpp"

namespace json = boost::json;
using namespace tandem::test;

namespace {

std::vector<json::object> rows_of(const std::string& output, std::string_view what) {
  std::vector<json::object> rows;
  std::istringstream lines{output};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('{')) continue;
    const auto row = json::parse(line).as_object();
    if (row.at("what").as_string() == what) rows.push_back(row);
  }
  return rows;
}

double number(const json::object& row, std::string_view key) {
  return row.at(key).to_number<double>();
}

using Kind = std::pair<std::int64_t, std::int64_t>;

std::set<Kind> kinds_of(const std::vector<json::object>& rows) {
  std::set<Kind> kinds;
  for (const auto& row : rows) kinds.emplace(row.at("lanes").as_int64(), row.at("drafts").as_int64());
  return kinds;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bench)

BOOST_AUTO_TEST_CASE(the_parts_of_a_served_step_are_shares_of_it_for_every_kind_of_step) {
  TandemProcess process{{"bench", "--model", tiny_model(), "--ranks", "2", "--prompt", "40", "--decode", "16",
                         "--lanes", "3", "--drafts", "2", "--steps", "16", "--warm-steps", "4", "--json"}};
  BOOST_REQUIRE(process.wait_for_exit(std::chrono::minutes(is_sanitized ? 15 : 5)) == 0);
  const std::set<Kind> kinds{{1, 0}, {1, 2}, {3, 0}, {3, 2}};
  const std::string output = process.output();
  BOOST_TEST((kinds_of(rows_of(output, "bare")) == kinds));
  const auto served = rows_of(output, "served");
  BOOST_TEST((kinds_of(served) == kinds));
  for (const auto& row : served) {
    BOOST_TEST_CONTEXT(json::serialize(row)) {
      BOOST_TEST(number(row, "steps") >= 16.0);
      BOOST_TEST(number(row, "outside_share") > 0.0);
      BOOST_TEST(number(row, "outside_share") < 1.0);
      BOOST_TEST(number(row, "step_ms_p50") <= number(row, "step_ms_p90"));
      BOOST_TEST(number(row, "compute_ms_p50") > 0.0);
      BOOST_TEST(number(row, "bare_ms_p50") > 0.0);
      BOOST_TEST(number(row, "tokens_per_step") >= 1.0);
      BOOST_TEST(number(row, "tokens_per_step") <= 1.0 + number(row, "drafts"));
    }
  }
}

BOOST_AUTO_TEST_CASE(bare_ranks_alone_serve_nothing) {
  TandemProcess process{{"bench", "--model", tiny_model(), "--prompt", "8", "--decode", "16", "--lanes", "1",
                         "--drafts", "0", "--bare", "--json"}};
  BOOST_REQUIRE(process.wait_for_exit(std::chrono::minutes(is_sanitized ? 10 : 2)) == 0);
  BOOST_TEST((kinds_of(rows_of(process.output(), "bare")) == std::set<Kind>{{1, 0}}));
  BOOST_TEST(rows_of(process.output(), "served").empty());
}

BOOST_AUTO_TEST_CASE(a_bench_without_a_model_is_a_usage_error_and_a_missing_model_a_load_error) {
  TandemProcess without{{"bench"}};
  BOOST_TEST((without.wait_for_exit(std::chrono::seconds(60)) == 2));
  TandemProcess missing{{"bench", "--model", make_folder()}};
  BOOST_TEST((missing.wait_for_exit(std::chrono::seconds(60)) == 14));
}

BOOST_AUTO_TEST_SUITE_END()
