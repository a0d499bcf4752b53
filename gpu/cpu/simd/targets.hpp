// Which instruction sets the vector kernels are compiled for. Include before any highway header.
//
// A kernel is compiled once a target and chosen at run time, so a baseline x86-64 build uses AVX2 or AVX-512 where
// present; on aarch64 NEON. Results are the same bits on every target: 16 lanes whatever the register width, fused
// multiply-add everywhere (emulated where the target has none). Left out: sub-variants of AVX-512 that the kernels do
// not use, SSE levels (fallback instead: nobody serves this model on such a machine) and sizeless vectors (SVE, RVV),
// which cannot be kept in arrays.
#pragma once

#define HWY_DISABLED_TARGETS                                                                                      \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | (1LL << 6) | (1LL << 5) | (1LL << 4) | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV)
