// What this machine can do at most, measured: the two limits that a benchmark's figures are shares of.
#pragma once

namespace tandem::gpu {

struct MachineLimits {
  double read_bytes_per_s = 0;  // streaming reads of memory far larger than the caches, all threads
  double flops_per_s = 0;       // FP32 multiply-adds in registers counted as two, all threads, widest vectors in use
  const char* simd = "";        // name of the instruction set measured
};

// Takes about a second. threads >= 1.
MachineLimits measure_machine_limits(int threads);

}  // namespace tandem::gpu
