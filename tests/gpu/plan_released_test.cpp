// The plan of the released model in its three layouts, from headers alone, against what is published about them.
#include <boost/test/unit_test.hpp>
#include <map>

#include "gpu/plan/memory_plan.hpp"
#include "gpu/plan/plan_report.hpp"
#include "tests/gpu/headers_only_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using test::ReleasedLayout;

BOOST_AUTO_TEST_SUITE(released_plan)

namespace {

constexpr double gib_bytes = 1024.0 * 1024 * 1024;

// Two nodes with the limits of the deployment that was published with the 2.9-bit pack.
PlanRequest two_nodes(ReleasedLayout layout) {
  PlanRequest request;
  request.model = test::released_checkpoint(layout).path();
  request.backend = "cuda";
  request.ranks = 2;
  request.threads = 20;
  request.step = {600'000, 2, 1280, 1536, 3};
  request.kv_bytes = 2'684'354'560;
  request.available_bytes = std::uint64_t{115} << 30;
  request.margin_bytes = std::uint64_t{1} << 30;
  return request;
}

// Header by header, half of a plan's time: every layout is opened once.
struct Opened {
  explicit Opened(ReleasedLayout layout)
      : config(ModelConfig::load(test::released_checkpoint(layout).path())),
        checkpoint(Checkpoint::open(test::released_checkpoint(layout).path())) {
    BOOST_REQUIRE_MESSAGE(config.has_value(), config.error().message());
    BOOST_REQUIRE_MESSAGE(checkpoint.has_value(), checkpoint.error().message());
  }
  Result<ModelConfig> config;
  Result<Checkpoint> checkpoint;
};

const Opened& opened(ReleasedLayout layout) {
  static std::map<ReleasedLayout, Opened> all;
  return all.try_emplace(layout, layout).first->second;
}

MemoryPlan plan_of(ReleasedLayout layout, const PlanRequest& request) {
  auto plan = plan_memory(request, *opened(layout).config, *opened(layout).checkpoint);
  BOOST_REQUIRE_MESSAGE(plan.has_value(), plan.error().message());
  BOOST_TEST_MESSAGE(to_text(*plan));
  return std::move(*plan);
}

MeasuredWeights weights_of(ReleasedLayout layout, int ranks) {
  auto weights = measure_weights(*opened(layout).checkpoint, *opened(layout).config, {{0, ranks}, true});
  BOOST_REQUIRE_MESSAGE(weights.has_value(), weights.error().message());
  return std::move(*weights);
}

std::uint64_t file_bytes(const MemoryPlan& plan) {
  std::uint64_t bytes = 0;
  for (const PlanFile& file : plan.files) bytes += file.bytes;
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_pack_of_2_9_bits_takes_99_5_gib_a_rank) {
  const MemoryPlan plan = plan_of(ReleasedLayout::exl3, two_nodes(ReleasedLayout::exl3));
  BOOST_TEST(plan.layout == "exl3");
  BOOST_TEST(plan.packed_matrices == 47'900U);
  BOOST_TEST(static_cast<double>(plan.weight_bytes) / gib_bytes == 99.5, boost::test_tools::tolerance(0.01));
  // The widths that are published matrix by matrix; 2.9 is what their maker had asked for.
  BOOST_TEST(plan.packed_bits == 2.931, boost::test_tools::tolerance(0.0005));
  BOOST_TEST(plan.kv_bytes_per_token() == 890.0);
  // 2.5 GiB in pages of 128 positions, 113,920 bytes each.
  BOOST_TEST(plan.kv_tokens == 2'684'354'560 / 113'920 * 128);
  BOOST_TEST(plan.fits());
}

BOOST_AUTO_TEST_CASE(the_pack_of_2_9_bits_has_the_published_size_on_disk) {
  const MemoryPlan plan = plan_of(ReleasedLayout::exl3, two_nodes(ReleasedLayout::exl3));
  std::uint64_t pack = 0;
  std::size_t shards = 0;
  for (const PlanFile& file : plan.files) {
    if (file.path.filename().string().starts_with("exl3-")) pack += file.bytes, ++shards;
  }
  BOOST_TEST(shards == 39U);
  BOOST_TEST(static_cast<double>(pack) / gib_bytes == 196.0, boost::test_tools::tolerance(0.01));
  BOOST_TEST(plan.table_bytes == 196'613'849'600U + 196'613'849'600U / 32);
}

// 543.6e9 weights of routed experts: 35 layers of 3 bits and 5 of 2 bits, half of them on each rank.
BOOST_AUTO_TEST_CASE(the_experts_of_the_pack_take_90_97_gib_a_rank) {
  const MeasuredWeights weights = weights_of(ReleasedLayout::exl3, 2);
  constexpr std::uint64_t layer = 384ULL * 3 * 5120 * 2304;
  BOOST_TEST(weights.of(WeightGroup::routed_experts).codes == layer * (35 * 3 + 5 * 2) / 8 / 2);
  BOOST_TEST(static_cast<double>(weights.of(WeightGroup::routed_experts).codes) / gib_bytes == 90.97,
             boost::test_tools::tolerance(0.0005));
}

BOOST_AUTO_TEST_CASE(the_experts_of_2_77_bits_take_87_6_gib_a_rank) {
  const MeasuredWeights weights = weights_of(ReleasedLayout::exl3_experts, 2);
  BOOST_TEST(weights.packed_matrices == 46'080U);
  BOOST_TEST(weights.packed_experts == 46'080U);
  BOOST_TEST(weights.packed_bits() == 2.77, boost::test_tools::tolerance(0.002));
  const GroupBytes& experts = weights.of(WeightGroup::routed_experts);
  BOOST_TEST(static_cast<double>(experts.codes) / gib_bytes == 87.6, boost::test_tools::tolerance(0.002));
  BOOST_TEST(static_cast<double>(experts.all()) / gib_bytes == 87.6, boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(the_banks_of_experts_are_read_beside_official_shards) {
  const MemoryPlan plan = plan_of(ReleasedLayout::exl3_experts, two_nodes(ReleasedLayout::exl3_experts));
  BOOST_TEST(plan.layout == "exl3 experts");
  BOOST_TEST(plan.files.size() == 6U + 3U);
  BOOST_TEST(plan.kv_bytes_per_token() == 890.0);
}

BOOST_AUTO_TEST_CASE(the_official_files_have_the_published_bytes_and_do_not_fit_two_nodes) {
  const MemoryPlan plan = plan_of(ReleasedLayout::official, two_nodes(ReleasedLayout::official));
  BOOST_TEST(plan.layout == "official");
  BOOST_TEST(plan.tensors == 96'085U);
  BOOST_TEST(plan.packed_matrices == 0U);
  BOOST_TEST(plan.files.size() == 48U);
  // Published: 510,296,708,312 with the headers as the publisher wrote them.
  BOOST_TEST(static_cast<double>(file_bytes(plan)) == 510'296'708'312.0, boost::test_tools::tolerance(0.0001));
  BOOST_TEST(!plan.fits());
  BOOST_TEST(plan.largest_context == 0);
  // On one rank nothing is held twice: 286 GiB, and vectors that become F32.
  const MeasuredWeights whole = weights_of(ReleasedLayout::official, 1);
  BOOST_TEST(static_cast<double>(whole.bytes()) / gib_bytes == 286.4, boost::test_tools::tolerance(0.001));
}

// Every published length fits with the published cache size; what does not fit is a cache that is too large.
BOOST_AUTO_TEST_CASE(larger_caches_leave_room_for_shorter_contexts_only) {
  PlanRequest request = two_nodes(ReleasedLayout::exl3);
  request.available_bytes = plan_of(ReleasedLayout::exl3, request).machine_bytes() + request.margin_bytes;
  const MemoryPlan right = plan_of(ReleasedLayout::exl3, request);
  BOOST_TEST(right.fits());
  request.kv_bytes += std::uint64_t{64} << 20;
  const MemoryPlan larger = plan_of(ReleasedLayout::exl3, request);
  BOOST_TEST(!larger.fits());
  BOOST_TEST(larger.largest_context < request.step.context);
  request.step.context = larger.largest_context;
  BOOST_TEST(plan_of(ReleasedLayout::exl3, request).fits());
  request.step.context = larger.largest_context + 1;
  BOOST_TEST(!plan_of(ReleasedLayout::exl3, request).fits());
}

BOOST_AUTO_TEST_CASE(headers_alone_take_little_disk) {
  for (const ReleasedLayout layout : {ReleasedLayout::official, ReleasedLayout::exl3, ReleasedLayout::exl3_experts}) {
    BOOST_TEST(test::released_checkpoint(layout).disk_bytes() < std::uint64_t{64} << 20);
  }
}

BOOST_AUTO_TEST_SUITE_END()
