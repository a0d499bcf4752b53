// What a pack of the tiny model consists of, and how an interrupted one is recognised.
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "gpu/checkpoint/inventory.hpp"
#include "gpu/exl3/pack_plan.hpp"
#include "gpu/exl3/pack_shard.hpp"
#include "tests/exl3/golden_fixture.hpp"
#include "tests/exl3/pack_folder_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

exl3::PackPlan tiny_plan(exl3::PackLayout layout) {
  const auto config = ModelConfig::load(tiny_model());
  return exl3::make_pack_plan(make_inventory(*config), layout, {});
}

const exl3::BitGroup& group(const exl3::PackPlan& plan, const std::string& name) {
  return *std::find_if(plan.groups.begin(), plan.groups.end(), [&](const auto& one) { return one.name == name; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_pack_plan)

BOOST_AUTO_TEST_CASE(experts_of_a_layer_share_a_group_and_wo_a_is_two_matrices) {
  const exl3::PackPlan plan = tiny_plan(exl3::PackLayout::whole);
  BOOST_TEST(group(plan, "layers.3.ffn.experts w1 and w3").weights == 8 * 2 * 256 * 256);
  BOOST_TEST(group(plan, "layers.3.ffn.experts w2").weights == 8 * 256 * 256);
  BOOST_TEST(group(plan, "layers.3.ffn.shared_experts w2").weights == 256 * 256);
  BOOST_TEST(group(plan, "layers.3.attn.wo_a").weights == 256 * 256);
  const auto slice = std::find_if(plan.matrices.begin(), plan.matrices.end(),
                                  [](const auto& one) { return one.module == "layers.3.attn.wo_a.slice.1"; });
  BOOST_REQUIRE((slice != plan.matrices.end()));
  BOOST_TEST(slice->source == "layers.3.attn.wo_a");
  BOOST_TEST(slice->first == 128);
  BOOST_TEST(slice->n == 128);
}

BOOST_AUTO_TEST_CASE(head_and_draft_network_keep_their_own_bits) {
  const exl3::PackPlan plan = tiny_plan(exl3::PackLayout::whole);
  BOOST_TEST(group(plan, "head").bits_min == 6);
  BOOST_TEST(group(plan, "head").bits_max == 6);
  BOOST_TEST(group(plan, "mtp.1.attn.wq_a").bits_max == 4);
  BOOST_TEST(group(plan, "layers.0.attn.wq_a").bits_min < group(plan, "layers.0.attn.wq_a").bits_max);
}

BOOST_AUTO_TEST_CASE(a_bank_holds_the_routed_experts_of_the_backbone_alone) {
  const exl3::PackPlan plan = tiny_plan(exl3::PackLayout::experts);
  BOOST_TEST(plan.matrices.size() == 8U * 8U * 3U);
  BOOST_TEST(plan.groups.size() == 8U * 2U);
}

BOOST_AUTO_TEST_CASE(shards_hold_matrices_of_one_layer_and_are_filled_in_order) {
  const exl3::PackPlan plan = tiny_plan(exl3::PackLayout::whole);
  std::vector<std::size_t> counts(plan.shards);
  std::size_t last = 0;
  for (const exl3::PackMatrix& matrix : plan.matrices) {
    BOOST_TEST((matrix.shard == last || matrix.shard == last + 1));
    last = matrix.shard;
    ++counts[matrix.shard];
  }
  BOOST_TEST(*std::max_element(counts.begin(), counts.end()) <= 64U);
  BOOST_TEST(*std::min_element(counts.begin(), counts.end()) >= 1U);
}

BOOST_AUTO_TEST_CASE(a_shard_of_the_same_job_is_recognised_and_others_refused) {
  TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  BOOST_TEST(exl3::is_pack_shard_of(path, "job").value() == false);
  const exl3::NamedMatrix matrix{"m", random_matrix(128, 128, {3, exl3::Codebook::mul1}, 1)};
  BOOST_REQUIRE(exl3::write_pack_shard(path, {matrix}, "job").has_value());
  BOOST_TEST(exl3::is_pack_shard_of(path, "job").value() == true);
  const auto other = exl3::is_pack_shard_of(path, "other");
  BOOST_REQUIRE(!other.has_value());
  BOOST_TEST(other.error().message().find("made with other options") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
