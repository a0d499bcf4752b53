// DSpark against the reference: proposals behind recorded prompts, and the stages from recorded features.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
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

// How far proposals are from the recorded ones: drafts that differ, and the largest differences of a raw confidence and
// of a margin (best minus second biased logit) among the drafts up to the first that differs.
struct Distance {
  int different = 0;
  double confidence = 0, margin = 0;
};

double margin_of(std::span<const float> logits) {
  std::vector<float> sorted(logits.begin(), logits.end());
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  return static_cast<double>(sorted[0]) - static_cast<double>(sorted[1]);
}

// Adds what the drafts behind `recorded`'s anchor differ in; `name` is the golden prefix of the step.
void add_distance(Rig& rig, SequenceState& sequence, const std::string& name, Distance& distance) {
  const auto recorded = golden("dspark", name + ".anchor_and_drafts").integers;
  const auto confidence = golden("dspark", name + ".confidence").values;
  const auto margins = golden("dspark", name + ".margin").values;
  const DraftLane lane{&sequence, recorded.front(), rig.config().dspark.block_size};
  Recorder recorder;
  const auto drafts = rig.drafts->propose({&lane, 1}, &recorder);
  BOOST_REQUIRE(drafts.has_value());
  BOOST_REQUIRE(drafts->front().tokens.size() == margins.size());
  BOOST_REQUIRE(drafts->front().confidence.size() == confidence.size());
  const Golden& logits = recorder.seen.at("logits");
  bool is_same_chain = true;
  for (std::size_t i = 0; i < margins.size(); ++i) {
    if (is_same_chain) {
      const auto width = static_cast<std::size_t>(logits.cols());
      const double margin = margin_of(std::span(logits.values).subspan(i * width, width));
      distance.margin = std::max(distance.margin, std::abs(margin - static_cast<double>(margins[i])));
      distance.confidence = std::max(distance.confidence, std::abs(static_cast<double>(drafts->front().confidence[i]) -
                                                                   static_cast<double>(confidence[i])));
    }
    is_same_chain = is_same_chain && drafts->front().tokens[i] == recorded[i + 1];
    distance.different += drafts->front().tokens[i] == recorded[i + 1] ? 0 : 1;
  }
}

// Drafts behind `prompt` and behind each forced token, from the recorded anchors.
Distance distance_of(Rig& rig, const std::string& variant, int steps, std::size_t chunk) {
  const std::string prompt = variant.substr(variant.find('.') + 1);
  const auto sequence = rig.open();
  const auto tokens = tokens_of(prompt);
  const auto continuation = tokens_of("continuation");
  for (std::size_t first = 0; first < tokens.size(); first += chunk) {
    const std::size_t count = std::min(chunk, tokens.size() - first);
    rig.feed(*sequence, std::span(tokens).subspan(first, count));
    rig.insert_context(*sequence, static_cast<std::int32_t>(count));
  }
  Distance distance;
  for (int step = 0; step < steps; ++step) {
    if (step > 0) {
      rig.feed(*sequence, std::span(continuation).subspan(static_cast<std::size_t>(step - 1), 1));
      rig.insert_context(*sequence, 1);
    }
    add_distance(rig, *sequence, variant + ".step" + std::to_string(step), distance);
  }
  BOOST_TEST_MESSAGE(variant << " in chunks of " << chunk << ": " << distance.different << " of " << 5 * steps
                             << " drafts differ, confidence by " << distance.confidence << ", margin by "
                             << distance.margin);
  return distance;
}

// Drafts behind p34 and behind every token of the recorded greedy chain but the last; returns how many differ.
int different_behind_chain(Rig& rig, const std::string& variant) {
  const auto chain = golden("dspark", variant + ".greedy.chain").integers;
  const auto proposals = golden("dspark", variant + ".greedy.proposals").integers;
  const std::size_t width = proposals.size() / chain.size();
  const auto sequence = rig.open();
  const auto prompt = tokens_of("p34");
  rig.feed(*sequence, prompt);
  rig.insert_context(*sequence, static_cast<std::int32_t>(prompt.size()));
  int different = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const auto recorded = std::span(proposals).subspan(i * width, width);
    BOOST_REQUIRE(recorded.front() == chain[i]);
    const auto drafts = propose(rig, *sequence, chain[i]);
    for (std::size_t d = 0; d < drafts.size(); ++d) different += drafts[d] == recorded[d + 1] ? 0 : 1;
    if (i + 1 == chain.size()) break;
    rig.feed(*sequence, std::span(chain).subspan(i, 1));
    rig.insert_context(*sequence, 1);
  }
  BOOST_TEST_MESSAGE(variant << ": " << different << " of " << chain.size() * (width - 1) << " drafts differ");
  return different;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(draft_network)

// Rounded features drift with flipped codes as logits do, so some drafts of the long prompt differ then; with FP32
// features none does.
BOOST_AUTO_TEST_CASE(proposes_the_drafts_of_the_reference) {
  struct Case {
    std::string variant;
    int steps;
    std::size_t chunk;
    Distance bound;
  };
  const std::vector<Case> cases{{"q32.p2", 2, 2, {0, 1e-5, 1e-4}},    {"s32.p2", 2, 1, {0, 0.02, 0.05}},
                                {"noq8.p2", 2, 1, {0, 0.02, 0.1}},    {"q32.p97", 11, 97, {0, 1e-5, 1e-4}},
                                {"q32.p97", 11, 23, {0, 1e-5, 1e-4}}, {"s32.p97", 11, 97, {6, 0.2, 1.5}},
                                {"noq8.p97", 11, 97, {7, 0.2, 1.5}}};
  for (const Case& given : cases) {
    const std::string numerics = given.variant.substr(0, given.variant.find('.'));
    const Distance distance = distance_of(shared_rig(numerics), given.variant, given.steps, given.chunk);
    BOOST_TEST(distance.different <= given.bound.different, given.variant);
    BOOST_TEST(distance.confidence <= given.bound.confidence, given.variant << ": " << distance.confidence);
    BOOST_TEST(distance.margin <= given.bound.margin, given.variant << ": " << distance.margin);
  }
}

BOOST_AUTO_TEST_CASE(proposes_the_drafts_of_the_reference_behind_its_greedy_text) {
  BOOST_TEST(different_behind_chain(shared_rig("s32"), "s32.p34") <= 25);
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
