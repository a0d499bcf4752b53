// A model runs from a pack, end to end: the same numbers on one rank and on two.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>

#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/trace.hpp"
#include "tests/exl3/golden_fixture.hpp"
#include "tests/exl3/pack_folder_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

// Logits of 40 prompt rows, then of three single steps.
std::vector<float> trace_logits(const std::filesystem::path& model, int ranks) {
  TemporaryFolder out;
  TraceOptions options;
  options.model = model;
  for (int i = 0; i < 40; ++i) options.ids.push_back((i * 37 + 11) % 4000);
  options.then = {5, 6, 7};
  options.ranks = ranks;
  options.threads = 2;
  options.out = out.path() / "logits.safetensors";
  const auto done = run_trace(options);
  if (!done) throw std::runtime_error(done.error().message());
  const auto file = SafetensorsFile::open(options.out);
  std::vector<float> values;
  for (const char* name : {"logits", "decode"}) {
    const auto bytes = file->read_all(name).value();
    const std::size_t first = values.size();
    values.resize(first + bytes.size() / sizeof(float));
    std::memcpy(values.data() + first, bytes.data(), bytes.size());
  }
  return values;
}

void check_one_and_two_ranks_agree(exl3::PackLayout layout) {
  PackFolder pack(layout);
  pack.write();
  const auto one = trace_logits(pack.path(), 1);
  BOOST_TEST(one.size() == 43U * 4096U);
  BOOST_TEST(std::all_of(one.begin(), one.end(), [](float value) { return std::isfinite(value); }));
  BOOST_TEST((one == trace_logits(pack.path(), 2)));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_run)

BOOST_AUTO_TEST_CASE(a_whole_pack_gives_the_same_logits_on_one_and_two_ranks) {
  check_one_and_two_ranks_agree(exl3::PackLayout::whole);
}

BOOST_AUTO_TEST_CASE(packed_experts_beside_official_shards_give_the_same_logits_on_one_and_two_ranks) {
  check_one_and_two_ranks_agree(exl3::PackLayout::experts);
}

BOOST_AUTO_TEST_SUITE_END()
