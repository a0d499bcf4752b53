// Ten rounds of two 32 x 32 multiplications; see the header.
#include "gpu/sampling/philox.hpp"

namespace tandem::gpu {
namespace {

constexpr std::uint32_t low_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t high_word(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

PhiloxCounter mix_round(const PhiloxCounter& c, const PhiloxKey& key) noexcept {
  const std::uint64_t first = std::uint64_t{0xD2511F53U} * c[0];
  const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * c[2];
  return {high_word(second) ^ c[1] ^ key[0], low_word(second), high_word(first) ^ c[3] ^ key[1], low_word(first)};
}

}  // namespace

PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) noexcept {
  for (int round = 0; round < 10; ++round) {
    counter = mix_round(counter, key);
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

double uniform(const DrawKey& key) noexcept {
  const auto position = static_cast<std::uint64_t>(key.position);
  const PhiloxCounter words =
      philox4x32_10({low_word(position), high_word(position), static_cast<std::uint32_t>(key.purpose), 0},
                    {low_word(key.seed), high_word(key.seed)});
  return open_unit(std::uint64_t{words[1]} << 32 | words[0]);
}

}  // namespace tandem::gpu
