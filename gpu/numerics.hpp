// Numerics: which roundings the forward pass applies. Five named modes; one code path.
#pragma once

#include <cstdint>
#include <string_view>

#include "engram/error.hpp"

namespace tandem::gpu {

// The order in which products are summed over K. Either is a function of K alone, never of the rows beside one.
enum class SumOrder : std::uint8_t {
  lanes,      // sixteen interleaved accumulators: fast and accurate
  reference,  // chains of up to 384 fused products, as the library sums that computed the golden values
};

struct Numerics {
  bool bf16_activations = true;  // round activations to bf16 where the model does; false: keep FP32
  bool kv_quantisers = true;     // W8, N4, X4: part of the model
  bool q8 = true;                // Q8 on the input of FP8/FP4 linears (never of wo_a: the reference dequantises it)
  // FP32 partial sums of wo_b, w2 and shared w2 in two K halves, rounded once at the end of the sum over ranks. false:
  // round each expert's and each linear's output to bf16, as the reference does (only meaningful on one rank).
  bool fp32_partials = false;
  // Values that lie on the border of two codes fall on the reference's side only if they are summed as it sums them.
  SumOrder order = SumOrder::lanes;

  bool operator==(const Numerics&) const = default;
};

// "fp32": no rounding at all. "q32": FP32 activations with W8/N4/X4. "s32": everything as the official low-precision
// GEMMs. "noq8": s32 without Q8. "serve": s32 (official weights) or noq8 (any other), with fp32_partials. All but
// "serve" sum in the reference's order. `low_precision_weights` resolves "serve". Errors: invalid_argument naming the
// accepted names.
Result<Numerics> parse_numerics(std::string_view name, bool low_precision_weights);

}  // namespace tandem::gpu
