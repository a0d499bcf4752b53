// Attention of one query row over its window and its selected entries, keys = values, one KV head.
//
//   s_t = (q . k_t) d^-0.5, p_t = exp(s_t - M), o = sum_t bf16(p_t) k_t / (sum_t p_t + exp(sink - M))
//
// Shapes   q, out [T, heads * d], d <= 512; up to 128 window keys and 512 entries a row, read from their records.
// Work     a block is one row and 8 heads, a warp is one head. The block decodes 64 keys to shared memory (bf16 holds
//          every dequantised value exactly; f32 where records are f32); each warp scores them, softens, adds the
//          values.
// Order    64-key blocks from the row's own first key, window first; dots in 16 lanes; values ascending over keys. So a
//          row's bits depend on its own keys alone, and equal the CPU backend's.
// Bytes    528 a window key, 288 an entry, for every 8 heads of a row: 0.2 MB a row and 8 heads at 640 keys.
// Limit    latency of the chain over blocks of keys: a row has heads / 8 blocks only.
// Plain    gpu/cpu/attention_ops.cpp; the test is bit equality.
#include <cuda_bf16.h>

#include <cfloat>

#include "gpu/cuda/attention_kernels.hpp"
#include "gpu/cuda/records.cuh"

namespace tandem::gpu::cuda {
namespace {

constexpr int key_block = 64;
constexpr int warps = 8;
constexpr int threads = warps * warp_size;
constexpr int steps_max = attention_dim_max / lanes;        // lane steps of a dot product
constexpr int columns_max = attention_dim_max / warp_size;  // value columns of a thread
constexpr int padding = 16;                                 // elements behind a key: two keys fall on other banks

__device__ inline float as_float(float x) {
  return x;
}
__device__ inline float as_float(std::uint16_t bits) {
  return bf16_to_float(bits);
}
__device__ inline void store(float value, float* to) {
  *to = value;
}
__device__ inline void store(float value, std::uint16_t* to) {
  *to = static_cast<std::uint16_t>(__float_as_uint(value) >> 16);  // exact: the value is a bf16 number
}

__device__ float value_of(RecordFormat format, const std::byte* record, int n, int i) {
  switch (format) {
    case RecordFormat::f32:
      return record_value<RecordFormat::f32>(record, n, i);
    case RecordFormat::w8:
      return record_value<RecordFormat::w8>(record, n, i);
    case RecordFormat::n4:
      return record_value<RecordFormat::n4>(record, n, i);
    case RecordFormat::x4:
      return record_value<RecordFormat::x4>(record, n, i);
  }
  return 0.0F;
}

// Number of entries in front of the first -1.
__device__ std::int64_t count_selected(const KeySource& keys) {
  __shared__ int count;
  if (threadIdx.x == 0) count = static_cast<int>(keys.selected_most);
  __syncthreads();
  for (int i = threadIdx.x; i < keys.selected_most; i += blockDim.x) {
    if (keys.selected[i] < 0) atomicMin(&count, i);
  }
  __syncthreads();
  return count;
}

__device__ const std::byte* record_of(const AttendCall& call, const KeySource& keys, std::int64_t key,
                                      RecordFormat& format) {
  if (key < keys.window_count) {
    format = call.window_format;
    const std::int64_t slot = (keys.window_first + key) % keys.ring_slots;
    return keys.ring + slot * bytes_of_record(format, call.head_dim);
  }
  format = call.entry_format;
  const std::int32_t entry = keys.selected[key - keys.window_count];
  const std::int64_t at = std::int64_t{keys.pages[entry / page_entries]} * page_entries + entry % page_entries;
  return keys.pool + at * bytes_of_record(format, call.head_dim);
}

// Decodes keys [first, first + count) into tile [key_block, stride]; a warp decodes a key at a time.
template <class Element>
__device__ void decode_keys(const AttendCall& call, const KeySource& keys, std::int64_t first, int count, Element* tile,
                            int stride) {
  const int padded = (call.head_dim + lanes - 1) / lanes * lanes;
  for (int t = threadIdx.x / warp_size; t < count; t += warps) {
    RecordFormat format;
    const std::byte* record = record_of(call, keys, first + t, format);
    for (int i = threadIdx.x % warp_size; i < padded; i += warp_size) {
      store(i < call.head_dim ? value_of(format, record, call.head_dim, i) : 0.0F, tile + t * stride + i);
    }
  }
}

// One head's state, spread over its warp.
struct Head {
  float q[steps_max];      // lane l of each half-warp: channels l, l + 16, ..
  float out[columns_max];  // thread i: columns i, i + 32, ..
  float most = -FLT_MAX;   // finite: -inf would make NaN of -inf - -inf
  float total = 0;
};

// scores[t] = (q . k_t) d^-0.5; each half-warp takes every other key.
template <class Element>
__device__ void score_keys(const Head& head, const Element* tile, int stride, int count, float scale, int steps,
                           float* scores) {
  const int lane = threadIdx.x % lanes, half = threadIdx.x / lanes % 2;
  for (int first = 0; first < count; first += 2) {
    const int t = first + half < count ? first + half : count - 1;
    const Element* key = tile + t * stride + lane;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < steps_max; ++i) {
      if (i < steps) sum = fmaf(head.q[i], as_float(key[i * lanes]), sum);
    }
    sum = add_lanes(sum);
    if (lane == 0 && first + half < count) scores[t] = sum * scale;
  }
  __syncwarp();
}

// Turns scores into exps relative to the new maximum. Returns the factor of the old sums.
__device__ float soften(Head& head, float* p, int count, bool round) {
  const int i = threadIdx.x % warp_size;
  float most = head.most;
  for (int t = i; t < count; t += warp_size) most = fmaxf(most, p[t]);
  for (int step = warp_size / 2; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(full_warp, most, step));
  const float keep = exponential(head.most - most);
  for (int t = i; t < count; t += warp_size) p[t] = exponential(p[t] - most);
  __syncwarp();
  float sum = 0;
  for (int t = i % lanes; t < count; t += lanes) sum += p[t];
  sum = add_lanes(sum);
  __syncwarp();
  for (int t = i; t < count; t += warp_size) p[t] = rounded(p[t], round);
  __syncwarp();
  head.total = head.total * keep + sum;
  head.most = most;
  return keep;
}

template <class Element>
__device__ void add_values(Head& head, const Element* tile, int stride, int count, const float* p, float keep,
                           int dim) {
#pragma unroll
  for (int j = 0; j < columns_max; ++j) head.out[j] *= keep;
  for (int t = 0; t < count; ++t) {
    const float weight = p[t];
    const Element* value = tile + t * stride + threadIdx.x % warp_size;
#pragma unroll
    for (int j = 0; j < columns_max; ++j) {
      if (j * warp_size < dim) head.out[j] = fmaf(weight, as_float(value[j * warp_size]), head.out[j]);
    }
  }
  __syncwarp();
}

__device__ void load_head(Head& head, const float* q, int dim) {
#pragma unroll
  for (int i = 0; i < steps_max; ++i) {
    const int channel = i * lanes + static_cast<int>(threadIdx.x) % lanes;
    head.q[i] = channel < dim ? q[channel] : 0.0F;
  }
#pragma unroll
  for (int j = 0; j < columns_max; ++j) head.out[j] = 0.0F;
}

// Divides by the denominator, to which the sink adds itself.
__device__ void finish_head(const Head& head, float sink, bool round, int dim, float* out) {
  const float factor = 1.0F / (head.total + exponential(sink - head.most));
#pragma unroll
  for (int j = 0; j < columns_max; ++j) {
    const int column = j * warp_size + static_cast<int>(threadIdx.x) % warp_size;
    if (column < dim) out[column] = rounded(factor * head.out[j], round);
  }
}

template <class Element>
__global__ void __launch_bounds__(threads) attend_kernel(AttendCall call, float scale, int stride) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* tile = reinterpret_cast<Element*>(memory);
  auto* scores = reinterpret_cast<float*>(tile + key_block * stride) + threadIdx.x / warp_size * key_block;
  const KeySource keys = call.rows[blockIdx.x];
  const std::int64_t total = keys.window_count + count_selected(keys);
  const int number = static_cast<int>(blockIdx.y) * warps + static_cast<int>(threadIdx.x) / warp_size;
  const bool is_used = number < call.heads;
  const int steps = (call.head_dim + lanes - 1) / lanes;
  const std::int64_t offset = static_cast<std::int64_t>(is_used ? number : 0) * call.head_dim;
  Head head;
  load_head(head, row_of(call.q, blockIdx.x) + offset, call.head_dim);
  for (std::int64_t first = 0; first < total; first += key_block) {
    const int count = static_cast<int>(total - first < key_block ? total - first : key_block);
    __syncthreads();
    decode_keys(call, keys, first, count, tile, stride);
    __syncthreads();
    if (!is_used) continue;
    score_keys(head, tile, stride, count, scale, steps, scores);
    const float keep = soften(head, scores, count, call.round);
    add_values(head, tile, stride, count, scores, keep, call.head_dim);
  }
  if (is_used) {
    finish_head(head, call.sink[number], call.round, call.head_dim, row_of(call.out, blockIdx.x) + offset);
  }
}

template <class Element>
cudaError_t launch(cudaStream_t stream, const AttendCall& call) {
  // Threads of a warp read whole groups of 32 columns of a key.
  const int stride = (call.head_dim + warp_size - 1) / warp_size * warp_size + padding;
  const std::size_t bytes = key_block * (stride * sizeof(Element) + warps * sizeof(float));
  const cudaError_t status = cudaFuncSetAttribute(attend_kernel<Element>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(call.q.rows), static_cast<unsigned>((call.heads + warps - 1) / warps));
  const float scale = static_cast<float>(1.0 / sqrt(static_cast<double>(call.head_dim)));
  attend_kernel<Element><<<grid, threads, bytes, stream>>>(call, scale, stride);
  return cudaGetLastError();
}

}  // namespace

cudaError_t attend(cudaStream_t stream, const AttendCall& call) {
  if (call.head_dim > attention_dim_max) return cudaErrorNotSupported;
  const bool is_plain = call.window_format == RecordFormat::f32 || call.entry_format == RecordFormat::f32;
  return is_plain ? launch<float>(stream, call) : launch<std::uint16_t>(stream, call);
}

}  // namespace tandem::gpu::cuda
