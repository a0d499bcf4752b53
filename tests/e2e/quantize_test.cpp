// `tandem quantize` as a user runs it, on a few matrices of one layer: killed, interrupted and out of disk, it loses
// nothing and the pack is the one that an undisturbed run makes.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>

#include "tests/e2e/file_size_limit.hpp"
#include "tests/e2e/folder_contents.hpp"
#include "tests/e2e/tandem_process.hpp"

using namespace tandem::test;

BOOST_AUTO_TEST_SUITE(quantize)

namespace {

constexpr auto limit = std::chrono::minutes(5);

std::vector<std::string> one_layer(const std::string& out) {
  return {"quantize", "--model", tiny_model(), "--only", "layers.3.attn.wk", "--out", out, "--rows",
          "1",        "--cols",  "32",         "--json"};
}

std::optional<int> run_to_end(const std::string& out, std::string* output = nullptr) {
  TandemProcess process(one_layer(out));
  const auto code = process.wait_for_exit(limit);
  if (output != nullptr) *output = process.output();
  return code;
}

const std::string& undisturbed() {
  static const std::string folder = [] {
    std::string made = make_folder();
    BOOST_REQUIRE(run_to_end(made) == 0);
    return made;
  }();
  return folder;
}

// What stands in a finished pack and in no unfinished one.
bool looks_finished(const std::string& folder) {
  return std::filesystem::exists(std::filesystem::path(folder) / "model.safetensors.index.json");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_is_killed_in_every_step_is_gone_on_with_to_the_same_bytes) {
  const std::string folder = make_folder();
  for (const char* step : {R"("step":"measuring")", R"("step":"packing")"}) {
    TandemProcess process(one_layer(folder));
    BOOST_REQUIRE(process.wait_for_line(step, limit).has_value());
    process.send(SIGKILL);
    BOOST_TEST(process.wait_for_exit(limit).value_or(-1) == 128 + SIGKILL);
    BOOST_TEST(!looks_finished(folder));
  }
  BOOST_TEST(run_to_end(folder).value_or(-1) == 0);
  BOOST_TEST((folder_contents(folder) == folder_contents(undisturbed())));
}

BOOST_AUTO_TEST_CASE(an_interrupted_run_says_so_and_leaves_what_is_done) {
  const std::string folder = make_folder();
  {
    TandemProcess process(one_layer(folder));
    BOOST_REQUIRE(process.wait_for_line(R"("step":"measuring")", limit).has_value());
    process.send(SIGINT);
    BOOST_TEST(process.wait_for_exit(limit).value_or(-1) == 130);
  }
  BOOST_TEST(!looks_finished(folder));
  BOOST_TEST(run_to_end(folder).value_or(-1) == 0);
  BOOST_TEST((folder_contents(folder) == folder_contents(undisturbed())));
}

BOOST_AUTO_TEST_CASE(a_disk_that_fills_up_is_named_and_the_pack_is_finished_when_there_is_room) {
  const std::string folder = make_folder();
  {
    const FileSizeLimit full{8'000};  // the packed matrix needs 12 kB
    TandemProcess process(one_layer(folder));
    BOOST_TEST(process.wait_for_exit(limit).value_or(-1) == 1);
    BOOST_TEST(process.output().find(folder) != std::string::npos, process.output());
  }
  BOOST_TEST(!looks_finished(folder));
  BOOST_TEST(run_to_end(folder).value_or(-1) == 0);
  BOOST_TEST((folder_contents(folder) == folder_contents(undisturbed())));
}

BOOST_AUTO_TEST_CASE(wrong_usage_ends_with_2_a_missing_model_with_14_and_a_strange_folder_is_left_alone) {
  const std::string folder = make_folder();
  const auto code_of = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "quantize");
    return TandemProcess(std::move(arguments)).wait_for_exit(limit).value_or(-1);
  };
  BOOST_TEST(code_of({"--model", tiny_model()}) == 2);
  BOOST_TEST(code_of({"--model", tiny_model(), "--out", folder, "--bits", "9"}) == 2);
  BOOST_TEST(code_of({"--model", folder + "/none", "--out", folder}) == 14);
  std::ofstream{folder + "/letters.txt"} << "mine";
  BOOST_TEST(code_of({"--model", tiny_model(), "--out", folder, "--only", "layers.3.attn.wk"}) != 0);
  BOOST_TEST(folder_contents(folder).size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
