// The five named rounding modes. Everything else in the model reads the flags, never the name.
#include "gpu/numerics.hpp"

#include <fmt/format.h>

namespace tandem::gpu {

Result<Numerics> parse_numerics(std::string_view name, bool low_precision_weights) {
  constexpr Numerics official{.fp32_partials = false, .order = SumOrder::reference};
  Numerics mode = official;
  if (name == "s32") return mode;
  mode.q8 = false;
  if (name == "noq8") return mode;
  mode.bf16_activations = false;
  if (name == "q32") return mode;
  mode.kv_quantisers = false;
  if (name == "fp32") return mode;
  if (name == "serve") return Numerics{.q8 = low_precision_weights, .fp32_partials = true, .order = SumOrder::lanes};
  return Error{ErrorCode::invalid_argument, "numerics", fmt::format("'{}'", name),
               "one of fp32, q32, s32, noq8, serve"};
}

}  // namespace tandem::gpu
