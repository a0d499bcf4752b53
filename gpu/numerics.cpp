// The five named rounding modes. Everything else in the model reads the four flags, never the name.
#include "gpu/numerics.hpp"

#include <fmt/format.h>

namespace tandem::gpu {

Result<Numerics> parse_numerics(std::string_view name, bool low_precision_weights) {
  constexpr Numerics exact{.bf16_activations = false, .kv_quantisers = false, .q8 = false, .fp32_partials = false};
  constexpr Numerics caches_only{.bf16_activations = false, .kv_quantisers = true, .q8 = false, .fp32_partials = false};
  constexpr Numerics official{.bf16_activations = true, .kv_quantisers = true, .q8 = true, .fp32_partials = false};
  constexpr Numerics without_q8{.bf16_activations = true, .kv_quantisers = true, .q8 = false, .fp32_partials = false};
  if (name == "fp32") return exact;
  if (name == "q32") return caches_only;
  if (name == "s32") return official;
  if (name == "noq8") return without_q8;
  if (name == "serve") {
    Numerics mode = low_precision_weights ? official : without_q8;
    mode.fp32_partials = true;
    return mode;
  }
  return Error{ErrorCode::invalid_argument, "numerics", fmt::format("'{}'", name),
               "one of fp32, q32, s32, noq8, serve"};
}

}  // namespace tandem::gpu
