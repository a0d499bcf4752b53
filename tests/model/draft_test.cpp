// DSpark against the reference: proposals behind recorded prompts, and the stages from recorded features.
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

std::vector<std::int32_t> propose(Rig& rig, SequenceState& sequence, std::int32_t anchor, Probe* probe = nullptr) {
  const DraftLane lane{&sequence, anchor, rig.config().dspark.block_size};
  const auto drafts = rig.drafts->propose({&lane, 1}, probe);
  BOOST_REQUIRE(drafts.has_value());
  BOOST_TEST(drafts->front().confidence.size() == drafts->front().tokens.size());
  return drafts->front().tokens;
}

// Drafts behind `prompt` and behind each forced token, from the recorded anchors; returns how many equal the recorded
// ones.
int equal_drafts(Rig& rig, const std::string& variant, int steps, std::size_t chunk) {
  const std::string prompt = variant.substr(variant.find('.') + 1);
  const auto sequence = rig.open();
  const auto tokens = tokens_of(prompt);
  const auto continuation = tokens_of("continuation");
  for (std::size_t first = 0; first < tokens.size(); first += chunk) {
    const std::size_t count = std::min(chunk, tokens.size() - first);
    rig.feed(*sequence, std::span(tokens).subspan(first, count));
    rig.insert_context(*sequence, static_cast<std::int32_t>(count));
  }
  int equal = 0;
  for (int step = 0; step < steps; ++step) {
    if (step > 0) {
      rig.feed(*sequence, std::span(continuation).subspan(static_cast<std::size_t>(step - 1), 1));
      rig.insert_context(*sequence, 1);
    }
    const auto expected = golden("dspark", variant + ".step" + std::to_string(step) + ".anchor_and_drafts").integers;
    const auto drafts = propose(rig, *sequence, expected.front());
    for (std::size_t i = 0; i < drafts.size(); ++i) equal += drafts[i] == expected[i + 1] ? 1 : 0;
  }
  BOOST_TEST_MESSAGE(variant << " in chunks of " << chunk << ": " << equal << " of " << 5 * steps << " drafts equal");
  return equal;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(draft_network)

// Rounded features drift with flipped codes as logits do, so some drafts of the long prompt differ then; with FP32
// features none does.
BOOST_AUTO_TEST_CASE(proposes_the_drafts_of_the_reference) {
  BOOST_TEST(equal_drafts(shared_rig("q32"), "q32.p2", 2, 2) == 10);
  BOOST_TEST(equal_drafts(shared_rig("s32"), "s32.p2", 2, 1) == 10);
  BOOST_TEST(equal_drafts(shared_rig("noq8"), "noq8.p2", 2, 1) == 10);
  BOOST_TEST(equal_drafts(shared_rig("q32"), "q32.p97", 11, 97) == 55);
  BOOST_TEST(equal_drafts(shared_rig("q32"), "q32.p97", 11, 23) == 55);
  BOOST_TEST(equal_drafts(shared_rig("s32"), "s32.p97", 11, 97) >= 49);
  BOOST_TEST(equal_drafts(shared_rig("noq8"), "noq8.p97", 11, 97) >= 48);
}

// Features of the last 16 prompt positions and the anchor as recorded: context ring and every stage tensor follow.
BOOST_AUTO_TEST_CASE(s32_stages_from_recorded_features_equal_the_reference) {
  Rig& rig = shared_rig("s32");
  const auto sequence = rig.open();
  const auto tokens = tokens_of("p97");
  BOOST_REQUIRE(sequence->append(tokens).has_value());
  const Golden features = golden("dspark", "s32.p97.prefill.main_hidden");
  Tensor input = Tensor::f32(const_cast<float*>(features.values.data()), features.rows(), features.cols());
  RowBatch rows;
  rows.add(*sequence, sequence->length() - features.rows(), static_cast<std::int32_t>(features.rows()));
  Recorder recorder;
  BOOST_REQUIRE(rig.drafts->insert(rows, input, &recorder).has_value());
  for (int stage = 0; stage < rig.config().dspark.stages; ++stage) {
    const std::string name = "mtp." + std::to_string(stage) + ".";
    const Golden ring = golden("dspark", "s32.p97.prefill." + name + "ring");
    const Golden& seen = recorder.seen[name + "ctx.win_kv"];
    for (std::int64_t row = 0; row < ring.rows(); ++row) {
      const auto slot =
          static_cast<std::size_t>(rows.position(static_cast<std::int32_t>(row)) % ring.rows() * ring.cols());
      const auto width = static_cast<std::size_t>(ring.cols());
      const double error = relative_l2(std::span(seen.values).subspan(static_cast<std::size_t>(row) * width, width),
                                       std::span(ring.values).subspan(slot, width));
      BOOST_TEST(error < 2e-2, name << "ring row " << row << ": " << error);
    }
  }

  const std::string step = "s32.p97.step0.";
  const auto expected = golden("dspark", step + "anchor_and_drafts").integers;
  recorder.seen.clear();
  const auto drafts = propose(rig, *sequence, expected.front(), &recorder);
  BOOST_TEST(drafts == std::vector<std::int32_t>(expected.begin() + 1, expected.end()),
             boost::test_tools::per_element());
  int compared = 0;
  for (const auto& [name, seen] : recorder.seen) {
    if (!has_golden("dspark", step + name) || seen.values.empty()) continue;
    const double error = relative_l2(seen.values, golden("dspark", step + name).values);
    BOOST_TEST(error < 3e-2, name << ": " << error);
    ++compared;
  }
  BOOST_TEST(compared >= 40);
}

BOOST_AUTO_TEST_CASE(drafts_of_a_lane_do_not_depend_on_the_other_lanes) {
  Rig& rig = shared_rig("serve");
  std::vector<std::unique_ptr<SequenceState>> sequences;
  std::vector<DraftLane> lanes;
  std::vector<std::vector<std::int32_t>> alone;
  for (const std::string prompt : {"p41", "p2", "p97"}) {
    sequences.push_back(rig.open(256));
    const auto tokens = tokens_of(prompt);
    rig.feed(*sequences.back(), tokens);
    rig.insert_context(*sequences.back(), static_cast<std::int32_t>(tokens.size()));
    lanes.push_back({sequences.back().get(), 7, 5});
    alone.push_back(propose(rig, *sequences.back(), 7));
  }
  lanes[1].count = 2;
  const auto together = rig.drafts->propose(lanes);
  BOOST_REQUIRE(together.has_value());
  alone[1].resize(2);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) BOOST_TEST((*together)[lane].tokens == alone[lane]);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
