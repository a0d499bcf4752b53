// End to end against the reference: logits of prompts, decode and chunkings in the structural numerics.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

const std::vector<std::string> prompts{"p1", "p2", "p17", "p34", "p41", "p97", "p200", "p701"};

// The recorded rows are the last ones of the prompt.
std::span<const float> last_rows(const Logits& logits, const Golden& expected) {
  return std::span(logits).last(expected.values.size());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(forward)

BOOST_AUTO_TEST_CASE(fp32_logits_of_every_prompt_equal_the_reference) {
  Rig& rig = shared_rig("fp32");
  for (const std::string& prompt : prompts) {
    const auto sequence = rig.open();
    const Logits logits = rig.feed(*sequence, tokens_of(prompt));
    const Golden expected = golden("logits", "fp32." + prompt);
    const double error = relative_l2(last_rows(logits, expected), expected.values);
    BOOST_TEST_MESSAGE("fp32 " << prompt << " rel " << error);
    BOOST_TEST(error < 1e-5, prompt << ": " << error);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
