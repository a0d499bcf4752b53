// CalibrationOps: the operations of a host backend, with an eye on what goes into each matrix.
//
// It passes every operation on and adds the inputs of linears and experts to second moments by matrix name. Experts are
// seen through their routing: w1 and w3 of an expert share the rows routed to it, w2 gets the activations between.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "gpu/exl3/hessian.hpp"
#include "gpu/ops.hpp"

namespace tandem::gpu::exl3 {

// Moments by moments_name(). Only matrices that have an entry are looked at: the caller decides how much memory it is.
using MomentTable = std::map<std::string, Moments, std::less<>>;

// Returns the name under which the inputs of a matrix are kept: its own, for w3 of an expert that of w1.
std::string moments_name(std::string module);

// `inner` works in host memory; it and `table` must outlive the result. The table grows while the model runs.
std::unique_ptr<Ops> make_calibration_ops(Ops& inner, MomentTable& table);

}  // namespace tandem::gpu::exl3
