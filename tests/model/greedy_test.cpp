// Greedy text of the reference behind p34: every choice follows from the recorded ones before it.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>

#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

std::int32_t best(std::span<const float> row) {
  return static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

std::vector<float> last_row(const Rig& rig, const Logits& logits) {
  return {logits.end() - rig.config().vocab_size, logits.end()};
}

// Our choice behind p34 and behind every recorded token.
std::vector<std::int32_t> choices(Rig& rig, const std::vector<std::int32_t>& recorded) {
  const auto sequence = rig.open();
  std::vector<std::int32_t> chosen{best(last_row(rig, rig.feed(*sequence, tokens_of("p34"))))};
  for (std::size_t i = 0; i + 1 < recorded.size(); ++i)
    chosen.push_back(best(rig.feed(*sequence, std::span(recorded).subspan(i, 1))));
  return chosen;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(greedy)

// The text with quantised caches contains the id that image spans carry: in text it is a token like any other.
BOOST_AUTO_TEST_CASE(fp32_activations_write_the_text_of_the_reference) {
  for (const std::string numerics : {"fp32", "q32"}) {
    const auto recorded = golden("decode", numerics + ".p34.greedy_ids").integers;
    BOOST_TEST_CONTEXT(numerics) {
      BOOST_TEST(choices(shared_rig(numerics), recorded) == recorded, boost::test_tools::per_element());
    }
  }
}

// With rounded activations a flipped bin stays in the cache and moves later logits: two correct implementations choose
// differently where the best two tokens are close, and only there.
BOOST_AUTO_TEST_CASE(rounded_activations_change_only_the_close_choices_of_the_reference) {
  for (const std::string numerics : {"s32", "noq8"}) {
    const auto recorded = golden("decode", numerics + ".p34.greedy_ids").integers;
    const auto margins = golden("decode", numerics + ".p34.greedy_margin").values;
    const auto chosen = choices(shared_rig(numerics), recorded);
    for (std::size_t i = 0; i < recorded.size(); ++i) {
      if (chosen[i] == recorded[i]) continue;
      BOOST_TEST_MESSAGE(numerics << " choice " << i << " differs at a margin of " << margins[i]);
      BOOST_TEST(margins[i] < 0.6F, numerics << " choice " << i);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
