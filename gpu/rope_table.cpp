// Frequencies and tables of the rotary embedding; the roundings are the header's contract.
#include "gpu/rope_table.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem::gpu {
namespace {

// First and last pair of the YaRN ramp: pairs that turn more than beta_fast times over the original context keep their
// frequency, those that turn less than beta_slow times are divided by the factor.
struct Ramp {
  double low = 0;
  double high = 0;
};

Ramp yarn_ramp(const RopeConfig& config, int rope_dim) {
  const auto pair_of = [&](double turns) {
    return rope_dim * std::log(config.yarn_original_max / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.compress_theta));
  };
  const double low = std::max(std::floor(pair_of(config.yarn_beta_fast)), 0.0);
  const double high = std::min(std::ceil(pair_of(config.yarn_beta_slow)), rope_dim - 1.0);
  return {low, low == high ? high + 0.001 : high};
}

// Some milliseconds of work.
constexpr std::int64_t stop_check_positions = 4096;

}  // namespace

std::vector<float> rope_frequencies(const RopeConfig& config, int rope_dim, RopeKind kind) {
  const bool yarn = kind == RopeKind::compressed;
  const double theta = yarn ? config.compress_theta : config.theta;
  const Ramp ramp = yarn_ramp(config, rope_dim);
  const auto factor = static_cast<float>(config.yarn_factor);
  std::vector<float> frequencies(static_cast<std::size_t>(rope_dim / 2));
  for (std::size_t k = 0; k < frequencies.size(); ++k) {
    const auto power = static_cast<float>(std::pow(theta, static_cast<double>(2 * k) / rope_dim));
    const float base = 1.0F / power;
    const auto low = static_cast<float>(ramp.low), high = static_cast<float>(ramp.high);
    const float slope = std::clamp((static_cast<float>(k) - low) / (high - low), 0.0F, 1.0F);
    frequencies[k] = yarn ? base / factor * slope + base * (1.0F - slope) : base;
  }
  return frequencies;
}

RopeTable::RopeTable(const RopeConfig& config, int rope_dim, RopeKind kind, std::int64_t positions,
                     const std::atomic<bool>* stop)
    : pairs_(rope_dim / 2), positions_(positions) {
  const std::vector<float> frequencies = rope_frequencies(config, rope_dim, kind);
  const auto size = static_cast<std::size_t>(positions) * frequencies.size();
  cos_ = Buffer::host(size * sizeof(float));
  sin_ = Buffer::host(size * sizeof(float));
  std::size_t i = 0;
  for (std::int64_t p = 0; p < positions; ++p) {
    if (p % stop_check_positions == 0 && stop != nullptr && stop->load()) return;
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(p) * frequency;
      cos_.as<float>()[i] = std::cos(angle);
      sin_.as<float>()[i] = std::sin(angle);
      ++i;
    }
  }
}

}  // namespace tandem::gpu
