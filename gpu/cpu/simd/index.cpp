// Scores of the indexer: lanes are keys, so a dot product of 128 needs no sum over lanes.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/simd/index.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "gpu/cpu/simd/lanes_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

constexpr int head_step = 4;
constexpr int key_vectors = 2;

// Adds `heads` heads to the sums of `key_vectors` registers of keys starting at `key`.
template <int heads>
HWY_INLINE void add_heads(const IndexBlock& b, int head, int key, V* sums) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  V dots[heads][key_vectors];
  for (int h = 0; h < heads; ++h) {
    for (int v = 0; v < key_vectors; ++v) dots[h][v] = hn::Zero(d);
  }
  const float* q = b.q + head * b.dim;
  for (int i = 0; i < b.dim; ++i) {
    V keys[key_vectors];
    for (int v = 0; v < key_vectors; ++v) keys[v] = hn::LoadU(d, b.keys + i * index_block + key + v * width);
    for (int h = 0; h < heads; ++h) {
      const V value = hn::Set(d, q[h * b.dim + i]);
      for (int v = 0; v < key_vectors; ++v) dots[h][v] = fused(value, keys[v], dots[h][v]);
    }
  }
  for (int h = 0; h < heads; ++h) {
    const V weight = hn::Set(d, b.weights[head + h]);
    for (int v = 0; v < key_vectors; ++v) sums[v] = fused(weight, hn::Max(dots[h][v], hn::Zero(d)), sums[v]);
  }
}

void ScoreIndexBlock(const IndexBlock& b) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  for (int key = 0; key < index_block; key += key_vectors * width) {
    V sums[key_vectors];
    for (int v = 0; v < key_vectors; ++v) sums[v] = hn::Zero(d);
    int head = 0;
    for (; head + head_step <= b.heads; head += head_step) add_heads<head_step>(b, head, key, sums);
    for (; head < b.heads; ++head) add_heads<1>(b, head, key, sums);
    for (int v = 0; v < key_vectors; ++v) hn::StoreU(sums[v], d, b.scores + key + v * width);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem::gpu::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::gpu::simd {

HWY_EXPORT(ScoreIndexBlock);

void score_index_block(const IndexBlock& block) {
  HWY_DYNAMIC_DISPATCH(ScoreIndexBlock)(block);
}

void transpose_keys(const float* in, int dim, float* out) {
  constexpr int step = 16;  // a square that stays in the first-level cache
  for (int i0 = 0; i0 < dim; i0 += step) {
    for (int t = 0; t < index_block; ++t) {
      for (int i = i0; i < dim && i < i0 + step; ++i) out[i * index_block + t] = in[t * dim + i];
    }
  }
}

}  // namespace tandem::gpu::simd
#endif
