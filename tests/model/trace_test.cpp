// The trace function: its file, its modes and its refusals.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "gpu/config.hpp"
#include "tests/model/golden_fixture.hpp"
#include "tests/model/trace_fixture.hpp"

namespace tandem::gpu::test {

BOOST_AUTO_TEST_SUITE(trace)

BOOST_AUTO_TEST_CASE(fp32_logits_and_decode_equal_the_reference) {
  const TraceFolder folder;
  TraceOptions options = trace_of_p41(folder);
  options.numerics = "fp32";
  options.ids = tokens_of("p97");
  options.then = tokens_of("continuation");
  options.chunk = 41;
  const SafetensorsFile file = run_and_open(options);
  BOOST_TEST(file.find("logits")->shape == (std::vector<std::int64_t>{97, 256}), boost::test_tools::per_element());
  BOOST_TEST(relative_l2(floats_of(file, "decode"), golden("decode", "fp32.p97").values) < 1e-5);
}

BOOST_AUTO_TEST_CASE(bursts_of_drafts_and_ranks_change_no_bit) {
  const TraceFolder folder;
  TraceOptions options = trace_of_p41(folder);
  options.then = tokens_of("continuation");
  const SafetensorsFile plain = run_and_open(options);
  options.out = folder.path / "spec.safetensors";
  options.spec = 4;
  options.chunk = 7;
  options.ranks = 2;
  const SafetensorsFile spec = run_and_open(options);
  BOOST_TEST((floats_of(spec, "logits") == floats_of(plain, "logits")));
  BOOST_TEST((floats_of(spec, "decode") == floats_of(plain, "decode")));
  BOOST_TEST(spec.find("draft")->shape.back() == 4);
  BOOST_TEST(spec.find("accepted")->shape.front() == spec.find("draft")->shape.front());
}

BOOST_AUTO_TEST_CASE(wrong_options_are_refused_before_anything_is_loaded) {
  const TraceFolder folder;
  const auto refused = [&](auto change, const char* option) {
    TraceOptions options = trace_of_p41(folder);
    change(options);
    const auto result = run_trace(options);
    BOOST_REQUIRE(!result.has_value());
    BOOST_TEST((result.error().stage == TraceStage::options), result.error().message());
    BOOST_TEST(result.error().message().find(option) != std::string::npos, result.error().message());
    BOOST_TEST(!std::filesystem::exists(options.out));
  };
  refused([](TraceOptions& options) { options.ids.clear(); }, "ids");
  refused([](TraceOptions& options) { options.ids.push_back(256); }, "256");
  refused([](TraceOptions& options) { options.ids.push_back(-1); }, "ids");
  refused([](TraceOptions& options) { options.then = {-1}; }, "then");
  refused([](TraceOptions& options) { options.numerics = "fp64"; }, "fp64");
  refused([](TraceOptions& options) { options.chunk = -1; }, "chunk");
  refused([](TraceOptions& options) { options.threads = -1; }, "threads");
  refused([](TraceOptions& options) { options.ranks = 0; }, "ranks");
  refused([](TraceOptions& options) { options.ranks = 3; }, "3 ranks");
  refused([](TraceOptions& options) { options.spec = 6; }, "spec");
  refused([](TraceOptions& options) { options.spec = -1; }, "spec");
}

BOOST_AUTO_TEST_CASE(a_prompt_beyond_the_context_is_refused_with_both_numbers) {
  const TraceFolder folder;
  TraceOptions options = trace_of_p41(folder);
  const auto config = ModelConfig::load(options.model);
  BOOST_REQUIRE(config.has_value());
  options.ids.assign(static_cast<std::size_t>(config->max_positions), 3);
  options.then = {3};
  const auto result = run_trace(options);
  BOOST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().stage == TraceStage::options));
  for (const std::int64_t number : {config->max_positions, config->max_positions + 1}) {
    BOOST_TEST(result.error().message().find(std::to_string(number)) != std::string::npos, result.error().message());
  }
}

BOOST_AUTO_TEST_CASE(a_place_that_cannot_be_written_is_found_first_and_nothing_is_left_there) {
  const TraceFolder folder;
  TraceOptions options = trace_of_p41(folder);
  for (const auto& out : {folder.path / "none" / "x.safetensors", folder.path}) {
    options.out = out;
    const auto result = run_trace(options);
    BOOST_REQUIRE(!result.has_value());
    BOOST_TEST((result.error().stage == TraceStage::write), result.error().message());
    BOOST_TEST(result.error().message().find(out.string()) != std::string::npos, result.error().message());
  }
  BOOST_TEST(std::filesystem::is_empty(folder.path));
}

BOOST_AUTO_TEST_CASE(a_folder_without_a_model_is_a_load_error) {
  const TraceFolder folder;
  TraceOptions options = trace_of_p41(folder);
  options.model = folder.path;
  const auto result = run_trace(options);
  BOOST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().stage == TraceStage::load), result.error().message());
}

BOOST_AUTO_TEST_CASE(token_files_hold_ids_and_white_space_only) {
  const TraceFolder folder;
  const auto read = [&](const char* text) {
    std::ofstream(folder.path / "ids") << text;
    return read_token_ids(folder.path / "ids");
  };
  BOOST_TEST(*read(" 1\n22\t3 ") == (std::vector<std::int32_t>{1, 22, 3}), boost::test_tools::per_element());
  BOOST_TEST(read("")->empty());
  for (const char* text : {"1,2", "-1", "x", "4294967296", "1.5"}) {
    BOOST_TEST((read(text).error().code == ErrorCode::bad_format), text);
  }
  BOOST_TEST((read_token_ids(folder.path / "none").error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
