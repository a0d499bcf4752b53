// Layer by layer from recorded inputs: the sharpest test of the rounded forward pass, because errors cannot add up.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <string>

#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

// What the recorder sees under a golden name but this test sets itself, and what serves as input.
const std::set<std::string> inputs{"stream_in", "pre_in"};

Tensor to_tensor(Workspace& workspace, const Golden& value) {
  const Tensor tensor = workspace.f32(value.rows(), value.cols());
  std::copy(value.values.begin(), value.values.end(), static_cast<float*>(tensor.data));
  return tensor;
}

void compare(const std::string& name, const Golden& seen) {
  const Golden expected = golden("layers", name);
  if (!expected.integers.empty()) {
    BOOST_TEST((seen.integers == expected.integers), name);
    return;
  }
  const double error = relative_l2(seen.values, expected.values);
  if (error > 1e-3) BOOST_TEST_MESSAGE(name << " rel " << error);
  BOOST_TEST(error < 1e-2, name << ": " << error);
}

// Share of the recorded choices that the last rows of `seen` make too. A row holds either the numbers of the chosen
// entries with -1 behind, or a mask.
double shared_choices(const Golden& seen, const Golden& expected) {
  const std::size_t width = static_cast<std::size_t>(expected.cols());
  const bool is_mask = expected.cols() > 16;
  std::size_t shared = 0, all = 0;
  const auto* rows = seen.integers.data() + seen.integers.size() - expected.integers.size();
  for (std::size_t row = 0; row < expected.integers.size(); row += width) {
    for (std::size_t i = row; i < row + width; ++i) {
      const std::int32_t wanted = expected.integers[i];
      if (is_mask ? wanted == 0 : wanted < 0) continue;
      ++all;
      shared += is_mask ? rows[i] != 0 : std::count(rows + row, rows + row + width, wanted) != 0;
    }
  }
  return static_cast<double>(shared) / static_cast<double>(all);
}

// A pass over p41 whose every layer starts from what the reference recorded.
class RecordedPass {
 public:
  explicit RecordedPass(Rig& rig)
      : rig_(rig), sequence_(rig.open()), step_{*rig.model, workspace_, rows_, &recorder_, {}} {
    const auto tokens = tokens_of("p41");
    BOOST_REQUIRE(sequence_->append(tokens).has_value());
    rows_.add(*sequence_, 0, static_cast<std::int32_t>(tokens.size()));
    selection_ = make_selection(step_);
  }

  void run_layer(int layer) {
    const std::string scope = "layers." + std::to_string(layer) + ".";
    step_.scope = scope;
    recorder_.seen.clear();
    Residual residual{to_tensor(workspace_, golden("layers", scope + "stream_in")),
                      to_tensor(workspace_, golden("layers", scope + "pre_in"))};
    const auto attention = [&](const Tensor& input) {
      return backbone_attention(step_, layer, input, selection_, false);
    };
    const MoeShape moe{rig_.config().experts_per_token, true};
    const auto& weights = rig_.model->weights.layers[static_cast<std::size_t>(layer)];
    BOOST_REQUIRE(run_block(step_, {weights, moe}, residual, attention).has_value());
  }

  // Returns the streams after the hook.
  Golden run_engram(int layer) {
    const std::string scope = "layers." + std::to_string(layer) + ".";
    step_.scope = scope;
    recorder_.seen.clear();
    const Tensor streams = to_tensor(workspace_, golden("layers", scope + "engram_in"));
    const auto request = rig_.model->engram->prefetch(rows_);
    BOOST_REQUIRE(request.has_value());
    BOOST_REQUIRE(engram_hook(step_, layer, {*request}, streams).has_value());
    Recorder result;
    result.record("streams", streams, {streams.rows, streams.cols});
    return result.seen["streams"];
  }

  // Compares all that was seen and has a golden value; returns how many there were.
  int compare_seen() const {
    int compared = 0;
    for (const auto& [name, seen] : recorder_.seen) {
      const std::string site = name.substr(name.rfind('.') + 1);
      if (inputs.contains(site) || !has_golden("layers", name)) continue;
      compare(name, seen);
      ++compared;
    }
    return compared;
  }

 private:
  Rig& rig_;
  std::unique_ptr<SequenceState> sequence_;
  Workspace workspace_;
  RowBatch rows_;
  Recorder recorder_;
  StepContext step_;
  Selection selection_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(layers)

BOOST_AUTO_TEST_CASE(every_layer_from_recorded_inputs_equals_the_reference) {
  RecordedPass pass(shared_rig("s32"));
  for (int layer = 0; layer < shared_rig("s32").config().layers; ++layer) {
    pass.run_layer(layer);
    const int compared = pass.compare_seen();
    BOOST_TEST(compared >= 10, "layer " << layer << " compared " << compared);
  }
}

BOOST_AUTO_TEST_CASE(engram_from_recorded_streams_equals_the_reference) {
  RecordedPass pass(shared_rig("s32"));
  for (const int layer : {1, 4}) {
    const Golden streams = pass.run_engram(layer);
    const Golden expected = golden("layers", "layers." + std::to_string(layer) + ".stream_in");
    const double error = relative_l2(streams.values, expected.values);
    BOOST_TEST(error < 1e-3, "layer " << layer << ": " << error);
    // Streams, row numbers, rows and gates; the projection of layer 1 only.
    BOOST_TEST(pass.compare_seen() == (layer == 1 ? 5 : 4));
  }
}

// q32 keeps activations in FP32 and sums in the reference's order, so a whole pass makes every discrete choice of the
// reference: in row 38 of layer 0 a cache value lies 4e-8 beside the border of two codes, and only that order puts it
// on the reference's side.
BOOST_AUTO_TEST_CASE(a_whole_q32_pass_makes_the_reference_choices) {
  Rig& rig = shared_rig("q32");
  const auto sequence = rig.open();
  Recorder recorder;
  rig.feed(*sequence, tokens_of("p41"), &recorder);
  int compared = 0;
  for (const auto& [name, seen] : recorder.seen) {
    if (!has_golden("layers_q32", name)) continue;
    const Golden expected = golden("layers_q32", name);
    BOOST_REQUIRE_EQUAL(seen.cols(), expected.cols());
    if (expected.values.empty()) {
      BOOST_TEST((seen.integers == expected.integers), name);
    } else {
      const double error = relative_l2(seen.values, expected.values);
      BOOST_TEST(error < 1e-5, name << ": " << error);
    }
    ++compared;
  }
  BOOST_TEST(compared == 42);
}

// Rounded to bf16 a whole pass drifts; most choices stay.
BOOST_AUTO_TEST_CASE(a_whole_noq8_pass_makes_most_of_the_reference_choices) {
  Rig& rig = shared_rig("noq8");
  const auto sequence = rig.open();
  Recorder recorder;
  rig.feed(*sequence, tokens_of("p41"), &recorder);
  std::size_t equal = 0;
  std::size_t all = 0;
  for (const auto& [name, seen] : recorder.seen) {
    if (!name.ends_with("router_expert") || !has_golden("layers_noq8", name)) continue;
    const auto expected = golden("layers_noq8", name).integers;
    BOOST_REQUIRE_EQUAL(seen.integers.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) equal += seen.integers[i] == expected[i] ? 1 : 0;
    all += expected.size();
  }
  BOOST_TEST(all == 820U);
  BOOST_TEST(static_cast<double>(equal) / static_cast<double>(all) > 0.97, equal << " of " << all);
}

// The choices of the last 8 rows of p701, where selection and candidates bite: 16 of up to 701 entries, 4 of 88 blocks;
// chance would share 2 % of them. That every choice is right is shown without roundings: the fp32 logits of this prompt
// are equal to 1e-5, and one other entry in SEL moves them by percents. A rounded pass drifts from layer to layer (two
// builds of the reference differ by 0.17 in its logits), so its choices near a threshold move, more of them with every
// layer. Each bound lies 0.1 below what this pass shares; it is deterministic.
BOOST_AUTO_TEST_CASE(a_whole_s32_pass_over_701_tokens_selects_what_the_reference_selects) {
  const std::map<std::string, double> bounds{{"layers.2.sel", 0.87},
                                             {"layers.4.sel", 0.78},
                                             {"layers.6.cand", 0.7},
                                             {"layers.6.sel", 0.67},
                                             {"layers.8.sel", 0.58}};
  Rig& rig = shared_rig("s32");
  const auto sequence = rig.open();
  Recorder recorder;
  rig.feed(*sequence, tokens_of("p701"), &recorder);
  for (const auto& [name, bound] : bounds) {
    const Golden& seen = recorder.seen.at(name);
    const Golden expected = golden("layers", "p701." + name);
    BOOST_REQUIRE_EQUAL(seen.cols(), expected.cols());
    const double share = shared_choices(seen, expected);
    BOOST_TEST_MESSAGE("p701 " << name << " shared " << share);
    BOOST_TEST(share >= bound, name << ": " << share);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
