// `tandem plan` as a user runs it: what it prints adds up, and its exit code says whether the deployment can start.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/e2e/tandem_process.hpp"

namespace json = boost::json;
using namespace tandem::test;

BOOST_AUTO_TEST_SUITE(plan)

namespace {

struct Ended {
  int code = -1;
  std::string output;
  json::object report;  // the line of JSON, if there is one
};

Ended run_plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  TandemProcess process(std::move(arguments));
  Ended ended;
  ended.code = process.wait_for_exit(std::chrono::minutes(1)).value_or(-1);
  ended.output = process.output();
  std::istringstream lines{ended.output};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('{')) ended.report = json::parse(line).as_object();
  }
  return ended;
}

std::int64_t number(const json::object& object, std::string_view key) {
  return object.at(key).to_number<std::int64_t>();
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_report_adds_up_to_what_is_compared_with_the_memory) {
  const Ended ended = run_plan({"--model", tiny_model(), "--ranks", "2", "--context", "1024", "--kv-tokens", "4096",
                                "--lanes", "2", "--mem-available", "8GiB", "--json"});
  BOOST_REQUIRE_EQUAL(ended.code, 0);
  const json::object& report = ended.report;
  std::int64_t together = 0;
  for (const auto& [name, part] : report.at("parts").as_object()) {
    std::int64_t lines = 0;
    for (const auto& [line, bytes] : part.as_object().at("lines").as_object()) lines += bytes.to_number<std::int64_t>();
    BOOST_TEST(lines == number(part.as_object(), "total"));
    together += lines;
  }
  BOOST_TEST(together == number(report, "rank_bytes"));
  BOOST_TEST(number(report, "machine_bytes") == together);
  BOOST_TEST(number(report, "available_bytes") == std::int64_t{8} << 30);
  BOOST_TEST(number(report, "left_bytes") == (std::int64_t{8} << 30) - together - number(report, "margin_bytes"));
  BOOST_TEST(number(report, "context") == 1024);
  BOOST_TEST(number(report.at("kv").as_object(), "tokens") == 4096);
  BOOST_TEST(number(report.at("kv").as_object(), "bytes") ==
             4096 * number(report.at("kv").as_object(), "bytes_per_token"));
  BOOST_TEST(report.at("fits").as_bool());
  std::int64_t file_bytes = 0;
  for (const auto& file : report.at("files").as_array()) {
    BOOST_TEST(std::filesystem::file_size(std::string(file.at("path").as_string())) ==
               static_cast<std::uintmax_t>(number(file.as_object(), "bytes")));
    file_bytes += number(file.as_object(), "bytes");
  }
  BOOST_TEST(file_bytes > number(report.at("parts").at("weights").as_object(), "total") / 2);
}

BOOST_AUTO_TEST_CASE(a_length_that_cannot_be_prefilled_ends_with_2_and_names_the_longest_that_can) {
  const auto with_context = [](const char* context) {
    return run_plan({"--model", tiny_model(), "--kv-tokens", "1024", "--context", context, "--mem-available", "8GiB"});
  };
  const Ended at_limit = with_context("1024");
  BOOST_TEST(at_limit.code == 0);
  BOOST_TEST(at_limit.output.find("routed_experts") != std::string::npos);
  const Ended past_limit = with_context("1025");
  BOOST_TEST(past_limit.code == 2);
  BOOST_TEST(past_limit.output.find("the largest context is 1024") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_plan_larger_than_this_machine_ends_with_2) {
  const Ended ended = run_plan({"--model", tiny_model(), "--mem-available", "20MiB", "--json"});
  BOOST_TEST(ended.code == 2);
  BOOST_TEST(!ended.report.at("fits").as_bool());
  BOOST_TEST(ended.output.find("no context fits") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(wrong_usage_ends_with_2_and_wrong_files_with_14) {
  BOOST_TEST(run_plan({"--context", "64"}).code == 2);
  BOOST_TEST(run_plan({"--model", tiny_model(), "--ranks", "3"}).code == 2);
  BOOST_TEST(run_plan({"--model", tiny_model(), "--mem-available", "much"}).code == 2);
  BOOST_TEST(run_plan({"--model", tiny_model(), "--kv-tokens", "1024", "--kv-bytes", "1000000"}).code == 2);
  BOOST_TEST(run_plan({"--model", tiny_model(), "--kv-bytes", "9223372036854775808"}).code == 2);
  const std::string folder = make_folder();
  BOOST_TEST(run_plan({"--model", folder}).code == 14);
  std::filesystem::copy_file(tiny_model() + "/config.json", folder + "/config.json");
  std::ofstream(folder + "/model.safetensors") << "not a header at all";
  const Ended broken = run_plan({"--model", folder});
  BOOST_TEST(broken.code == 14);
  BOOST_TEST(broken.output.find("model.safetensors") != std::string::npos);
  std::filesystem::remove_all(folder);
}

BOOST_AUTO_TEST_SUITE_END()
