// The memory plan: equal to what loading really takes, right about the published deployments, and strict at the limit.
#include "gpu/plan/memory_plan.hpp"

#include <boost/test/unit_test.hpp>

#include "gpu/checkpoint/loader.hpp"
#include "gpu/comm/communicator.hpp"
#include "gpu/model/random_model.hpp"
#include "gpu/plan/plan_report.hpp"
#include "tests/build_paths.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"
#include "tests/gpu/headers_only_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;

BOOST_AUTO_TEST_SUITE(memory_plan)

namespace {

std::filesystem::path shipped_model(const char* name) {
  return source_folder() / "configs" / name;
}

PlanRequest request_for(const std::filesystem::path& model, int ranks = 1) {
  PlanRequest request;
  request.model = model;
  request.ranks = ranks;
  request.step = {512, 2, 64, 128, 3};
  request.available_bytes = std::uint64_t{1} << 50;
  return request;
}

MemoryPlan must_plan(const PlanRequest& request) {
  auto plan = plan_memory(request);
  BOOST_REQUIRE_MESSAGE(plan.has_value(), plan.error().message());
  return std::move(*plan);
}

std::uint64_t line(const MemoryPlan& plan, std::string_view name) {
  for (const PlanLine& one : plan.lines) {
    if (one.name == name) return one.bytes;
  }
  return 0;
}

MeasuredWeights measured(const std::filesystem::path& model, RankShare share) {
  const auto config = ModelConfig::load(model);
  const auto checkpoint = Checkpoint::open(model);
  BOOST_REQUIRE(config.has_value() && checkpoint.has_value());
  auto weights = measure_weights(*checkpoint, *config, {share, true});
  BOOST_REQUIRE_MESSAGE(weights.has_value(), weights.error().message());
  return std::move(*weights);
}

void check_same_as_loaded(const std::filesystem::path& model, int ranks) {
  const auto config = ModelConfig::load(model);
  BOOST_REQUIRE(config.has_value());
  for (int rank = 0; rank < ranks; ++rank) {
    LoadRequest load;
    load.rank = rank;
    load.ranks = ranks;
    const auto weights = load_weights(model, *config, load);
    BOOST_REQUIRE_MESSAGE(weights.has_value(), weights.error().message());
    const MeasuredWeights planned = measured(model, {rank, ranks});
    BOOST_TEST(planned.bytes() == weights->bytes);
    BOOST_TEST(planned.shapes.bytes == weights->bytes);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_take_what_the_plan_said_for_every_rank_and_format) {
  test::CheckpointFolder folder;
  folder.write();
  for (const int ranks : {1, 2, 4}) check_same_as_loaded(folder.path(), ranks);
  for (const char* model : {"tiny", "tiny-exl3"}) {
    for (const int ranks : {1, 2}) check_same_as_loaded(shipped_model(model), ranks);
  }
}

BOOST_AUTO_TEST_CASE(caches_and_weights_are_those_of_a_loaded_engine) {
  for (const std::int64_t kv_tokens : {std::int64_t{0}, std::int64_t{4096}}) {
    EngineOptions options;
    options.model = shipped_model("tiny");
    options.max_positions = 1000;
    options.kv_tokens = kv_tokens;
    options.lanes_max = 3;
    options.chunk_rows_max = 64;
    options.threads = 1;
    const auto group = make_solo_communicator();
    const auto engine = load_engine(options, *group, {}, nullptr);
    BOOST_REQUIRE_MESSAGE(engine.has_value(), engine.error().message());
    PlanRequest request = request_for(options.model);
    request.step = {1000, 3, 64, 128, 3};
    request.kv_tokens = kv_tokens;
    const MemoryPlan plan = must_plan(request);
    const EngineInfo& info = (*engine)->info();
    BOOST_TEST(plan.weight_bytes == info.weight_bytes);
    BOOST_TEST(line(plan, "pages") + line(plan, "lanes") == info.cache_bytes);
    BOOST_TEST(plan.kv_tokens == info.pages_total * info.page_tokens);
  }
}

// The same step, once with numbers and memory and once without either.
BOOST_AUTO_TEST_CASE(a_rehearsed_step_takes_the_workspace_of_a_real_one) {
  for (const int lanes : {1, 3}) {
    RandomModelOptions options;
    auto config = ModelConfig::load(test::golden_checkpoint());
    BOOST_REQUIRE(config.has_value());
    options.config = std::move(*config);
    options.max_positions = 256;
    const auto group = make_solo_communicator();
    const auto model = make_random_model(options, *group);
    BOOST_REQUIRE_MESSAGE(model.has_value(), model.error().message());
    const StepLimits limits{200, lanes, 48, 100, 3};
    const auto real = run_largest_step(**model, limits);
    BOOST_REQUIRE_MESSAGE(real.has_value(), real.error().message());
    Rehearsal rehearsal((*model)->config, (*model)->numerics, (*model)->weights, {"cpu", 1, 1});
    const auto rehearsed = rehearsal.run(limits);
    BOOST_REQUIRE_MESSAGE(rehearsed.has_value(), rehearsed.error().message());
    BOOST_TEST(rehearsed->rows == std::min(100, 48 * lanes));
    BOOST_TEST(rehearsed->workspace_bytes == real->workspace_bytes);
    BOOST_TEST(rehearsed->scratch_bytes > 0U);
  }
}

BOOST_AUTO_TEST_CASE(the_plan_is_the_sum_of_its_lines) {
  PlanRequest request = request_for(shipped_model("tiny"), 2);
  request.backend = "cuda";
  request.ranks_here = 2;
  const MemoryPlan plan = must_plan(request);
  std::uint64_t sum = 0;
  for (std::size_t part = 0; part < plan_parts; ++part) sum += plan.bytes_of(static_cast<PlanPart>(part));
  BOOST_TEST(sum == plan.rank_bytes());
  BOOST_TEST(plan.machine_bytes() == 2 * sum);
  BOOST_TEST(plan.bytes_of(PlanPart::weights) == plan.weight_bytes);
  BOOST_TEST(line(plan, "device_context") > 0U);
  const boost::json::object report = to_json(plan);
  BOOST_TEST(report.at("parts").at("weights").at("total").to_number<std::uint64_t>() == plan.weight_bytes);
  BOOST_TEST(report.at("files").as_array().size() == 2U);
}

// ---- at the limit ----

BOOST_AUTO_TEST_CASE(a_context_beyond_the_caches_is_refused_and_the_largest_is_named) {
  PlanRequest request = request_for(shipped_model("tiny"));
  request.kv_tokens = 1000;  // whole pages of 128
  request.step.context = 896;
  BOOST_TEST(must_plan(request).fits());
  request.step.context = 897;
  const MemoryPlan plan = must_plan(request);
  BOOST_TEST(!plan.fits());
  BOOST_TEST(plan.largest_context == 896);
  BOOST_TEST(plan_verdict(plan).find("the largest context is 896") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_context_beyond_the_memory_is_refused_and_the_largest_is_named) {
  PlanRequest request = request_for(shipped_model("tiny"));
  request.step.context = 1500;
  request.margin_bytes = 1 << 20;
  request.available_bytes = must_plan(request).machine_bytes() + request.margin_bytes;
  const std::int64_t largest = must_plan(request).largest_context;
  BOOST_TEST(largest >= 1500);
  request.step.context = largest;
  BOOST_TEST(must_plan(request).fits());
  BOOST_TEST(must_plan(request).bytes_left() >= 0);
  request.step.context = largest + 1;
  const MemoryPlan refused = must_plan(request);
  BOOST_TEST(!refused.fits());
  BOOST_TEST(refused.bytes_left() < 0);
  BOOST_TEST(refused.largest_context == largest);
}

BOOST_AUTO_TEST_CASE(memory_that_holds_not_even_the_weights_allows_no_context) {
  PlanRequest request = request_for(shipped_model("tiny"));
  request.available_bytes = 1 << 20;
  const MemoryPlan plan = must_plan(request);
  BOOST_TEST(plan.largest_context == 0);
  BOOST_TEST(plan_verdict(plan).find("no context fits") != std::string::npos);
}

// ---- refusals ----

BOOST_AUTO_TEST_CASE(wrong_requests_are_told_apart_from_wrong_files) {
  const auto code_of = [](const PlanRequest& request) {
    const auto plan = plan_memory(request);
    BOOST_REQUIRE(!plan.has_value());
    return plan.error().code;
  };
  const PlanRequest good = request_for(shipped_model("tiny"));
  PlanRequest bad = good;
  bad.ranks = 3;
  BOOST_TEST((code_of(bad) == ErrorCode::invalid_argument));
  bad = request_for(shipped_model("tiny-exl3"), 8);
  BOOST_TEST((code_of(bad) == ErrorCode::invalid_argument));
  bad = good;
  bad.step.context = 1 << 30;
  BOOST_TEST((code_of(bad) == ErrorCode::invalid_argument));
  bad = good;
  bad.step.step_rows = 7;
  BOOST_TEST((code_of(bad) == ErrorCode::invalid_argument));
  bad = good;
  bad.kv_bytes = 100;
  BOOST_TEST((code_of(bad) == ErrorCode::invalid_argument));
  bad = good;
  bad.backend = "abacus";
  BOOST_TEST((code_of(bad) == ErrorCode::invalid_argument));
  bad = good;
  bad.model = "/nowhere";
  BOOST_TEST((code_of(bad) == ErrorCode::not_found));
}

BOOST_AUTO_TEST_CASE(missing_shards_and_broken_headers_are_named) {
  test::CheckpointFolder folder;
  folder.write();
  test::edit_header(folder.shard(1), R"("dtype":)", R"("dtyp3":)");
  auto plan = plan_memory(request_for(folder.path()));
  BOOST_REQUIRE(!plan.has_value());
  BOOST_TEST((plan.error().code == ErrorCode::bad_format));
  BOOST_TEST(plan.error().message().find(folder.shard(1).string()) != std::string::npos);
  std::filesystem::remove(folder.shard(1));
  plan = plan_memory(request_for(folder.path()));
  BOOST_REQUIRE(!plan.has_value());
  BOOST_TEST((plan.error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_SUITE_END()
