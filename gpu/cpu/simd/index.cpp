// Scores of the indexer in the order of gpu/index_order.hpp. Registers hold keys, so no sum runs over their lanes.
#include "gpu/cpu/simd/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "gpu/cpu/simd/index.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "gpu/cpu/simd/lanes_inl.hpp"
#include "gpu/index_order.hpp"

HWY_BEFORE_NAMESPACE();
namespace tandem::gpu::simd {
namespace HWY_NAMESPACE {

constexpr int head_step = 4;
constexpr int key_vectors = 2;

using KeySums = V[key_vectors];

// Adds `heads` heads to the lanes of `key_vectors` registers of keys starting at `key`.
template <int heads>
HWY_INLINE void add_heads(const IndexBlock& b, int head, int key, KeySums* sums) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  V dots[heads][key_vectors];
  for (int h = 0; h < heads; ++h) {
    for (int v = 0; v < key_vectors; ++v) dots[h][v] = hn::Zero(d);
  }
  const float* q = b.q + head * b.dim;
  for (int first = 0; first < b.dim; first += index_dims) {
    const int last = first + index_dims < b.dim ? first + index_dims : b.dim;
    V part[heads][key_vectors];
    for (int h = 0; h < heads; ++h) {
      for (int v = 0; v < key_vectors; ++v) part[h][v] = hn::Zero(d);
    }
    for (int i = first; i < last; ++i) {
      V keys[key_vectors];
      for (int v = 0; v < key_vectors; ++v) keys[v] = hn::LoadU(d, b.keys + i * index_block + key + v * width);
      for (int h = 0; h < heads; ++h) {
        const V value = hn::Set(d, q[h * b.dim + i]);
        for (int v = 0; v < key_vectors; ++v) part[h][v] = fused(value, keys[v], part[h][v]);
      }
    }
    for (int h = 0; h < heads; ++h) {
      for (int v = 0; v < key_vectors; ++v) dots[h][v] = hn::Add(dots[h][v], part[h][v]);
    }
  }
  for (int h = 0; h < heads; ++h) {
    const V weight = hn::Set(d, b.weights[head + h]);
    V* lane = sums[(head + h) % index_lanes];
    for (int v = 0; v < key_vectors; ++v) lane[v] = fused(weight, hn::Max(dots[h][v], hn::Zero(d)), lane[v]);
  }
}

void ScoreIndexBlock(const IndexBlock& b) {
  constexpr Floats d;
  constexpr int width = static_cast<int>(hn::MaxLanes(d));
  for (int key = 0; key < index_block; key += key_vectors * width) {
    KeySums sums[index_lanes];
    for (KeySums& lane : sums) {
      for (int v = 0; v < key_vectors; ++v) lane[v] = hn::Zero(d);
    }
    int head = 0;
    for (; head + head_step <= b.heads; head += head_step) add_heads<head_step>(b, head, key, sums);
    for (; head < b.heads; ++head) add_heads<1>(b, head, key, sums);
    for (int step = index_lanes / 2; step > 0; step /= 2) {
      for (int l = 0; l < step; ++l) {
        for (int v = 0; v < key_vectors; ++v) sums[l][v] = hn::Add(sums[l][v], sums[l + step][v]);
      }
    }
    for (int v = 0; v < key_vectors; ++v) hn::StoreU(sums[0][v], d, b.scores + key + v * width);
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
