#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_fp16.h>
#include "x_tile.cu"
#include "gpu/cuda/chain_product.cu"
#include "gpu/cuda/expert_plan.cu"
#include "gpu/cuda/exl3/rotate.cu"
namespace tandem::gpu::cuda {
__global__ void fill(float* p, std::int64_t n, float s) { for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) { unsigned h = (unsigned)i * 2654435761U; h ^= h >> 15; h *= 2246822519U; h ^= h >> 13; p[i] = ((h & 0xFFFF) / 65536.0f - 0.5f) * s; } }
__global__ void fill16(std::uint16_t* p, std::int64_t n) { for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) { unsigned h = (unsigned)i * 2654435761U; h ^= h >> 15; p[i] = __float_as_uint(((h & 0xFFFF) / 65536.0f - 0.5f)) >> 16; } }
__global__ void fillh(__half* p, std::int64_t n) { for (std::int64_t i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) { unsigned h = (unsigned)i * 2654435761U; h ^= h >> 15; p[i] = __float2half(((h & 0xFFFF) / 65536.0f - 0.5f)); } }
template <class F> void time_it(const char* name, F f) {
  cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
  for (int i = 0; i < 2; ++i) { auto e = f(); if (e != cudaSuccess) std::printf("%s: launch %s\n", name, cudaGetErrorString(e)); }
  cudaEventRecord(a); const int n = 10; for (int i = 0; i < n; ++i) (void)f(); cudaEventRecord(b);
  auto e = cudaDeviceSynchronize(); float ms = 0; cudaEventElapsedTime(&ms, a, b);
  std::printf("%-44s %9.1f us %s\n", name, ms * 1000 / n, e == cudaSuccess ? "" : cudaGetErrorString(e));
}
Tensor t(float* p, std::int64_t r, std::int64_t c) { Tensor x; x.data = p; x.rows = r; x.cols = c; x.stride = c; return x; }
}
using namespace tandem::gpu; using namespace tandem::gpu::cuda;
int main() {
  float *x, *w, *y, *sq, *yr; cudaMalloc(&x, 2048LL * 20480 * 4); cudaMalloc(&w, 64 << 20); cudaMalloc(&y, 64 << 20); cudaMalloc(&yr, 64 << 20); cudaMalloc(&sq, 1 << 20);
  fill<<<1024, 256>>>(x, 2048LL * 20480, 2.0f);
  auto call = [&](WeightFormat f, std::int64_t rows, std::int64_t n, std::int64_t k, bool s) { ChainCall c{}; c.x = t(x, rows, k); c.w.codes = w; c.w.n = n; c.w.k = k; c.w.is_aligned = true; c.format = f; c.round = false; c.y = t(y, rows, n); if (s) c.squares = t(sq, rows, 1); return c; };
  fill<<<1024, 256>>>(w, 24LL * 20480, 0.1f);
  using enum WeightFormat;
  { auto c = call(f32, 2048, 24, 20480, true);
    time_it("mhc 16x24 p128 +squares", [&] { return launch_tile<TileForm<f32, 2, 4, 6, 128>, true>(nullptr, c); });
    time_it("mhc 16x24 p64 +squares", [&] { return launch_tile<TileForm<f32, 2, 4, 6, 64>, true>(nullptr, c); });
    time_it("mhc 32x24 p128 +squares", [&] { return launch_tile<TileForm<f32, 4, 4, 6, 128>, true>(nullptr, c); });
    time_it("mhc 16x24 p128 no squares", [&] { return launch_tile<TileForm<f32, 2, 4, 6, 128>, false>(nullptr, c); });
    auto d = c; d.squares = {};
    time_it("mhc old", [&] { return launch<f32, 8, 4, 512>(nullptr, d, Nothing{}); });
    for (int rows : {64, 128, 256, 512}) { auto e = call(f32, rows, 24, 20480, true); auto g = e; g.squares = {};
      std::printf("rows %d\n", rows);
      time_it("  tile", [&] { return launch_tile<TileForm<f32, 2, 4, 6, 128>, true>(nullptr, e); });
      time_it("  old", [&] { return launch<f32, 8, 4, 512>(nullptr, g, Nothing{}); }); } }
  fill16<<<1024, 256>>>((std::uint16_t*)w, 512LL * 5120);
  { auto c = call(bf16, 2048, 384, 5120, false);
    time_it("router 32x64 p64", [&] { return launch_tile<TileForm<bf16, 4, 8, 8, 64>, false>(nullptr, c); });
    time_it("router 32x64 p128", [&] { return launch_tile<TileForm<bf16, 4, 8, 8, 128>, false>(nullptr, c); });
    time_it("router 32x32 p64", [&] { return launch_tile<TileForm<bf16, 4, 4, 8, 64>, false>(nullptr, c); });
    time_it("router 32x32 p128", [&] { return launch_tile<TileForm<bf16, 4, 4, 8, 128>, false>(nullptr, c); });
    time_it("router 64x32 p128", [&] { return launch_tile<TileForm<bf16, 8, 4, 8, 128>, false>(nullptr, c); });
    time_it("router 16x64 p64", [&] { return launch_tile<TileForm<bf16, 2, 8, 8, 64>, false>(nullptr, c); });
    time_it("router 16x32 p64", [&] { return launch_tile<TileForm<bf16, 2, 4, 8, 64>, false>(nullptr, c); });
    time_it("router old", [&] { return launch<bf16, 8, 4, 512>(nullptr, c, Nothing{}); });
    for (int rows : {64, 128, 256, 512}) { auto e = call(bf16, rows, 384, 5120, false);
      std::printf("rows %d\n", rows);
      time_it("  32x64", [&] { return launch_tile<TileForm<bf16, 4, 8, 8, 64>, false>(nullptr, e); });
      time_it("  32x32", [&] { return launch_tile<TileForm<bf16, 4, 4, 8, 64>, false>(nullptr, e); });
      time_it("  16x32", [&] { return launch_tile<TileForm<bf16, 2, 4, 8, 64>, false>(nullptr, e); });
      time_it("  old", [&] { return launch<bf16, 8, 4, 512>(nullptr, e, Nothing{}); }); }
    for (int rows : {128, 2048}) { auto e = call(bf16, rows, 32, 5120, false);
      std::printf("index weights, rows %d\n", rows);
      time_it("  16x32", [&] { return launch_tile<TileForm<bf16, 2, 4, 8, 64>, false>(nullptr, e); });
      time_it("  old", [&] { return launch<bf16, 8, 4, 512>(nullptr, e, Nothing{}); }); } }
  { std::vector<int> ids(6144); for (int i = 0; i < 6144; ++i) ids[i] = (i / 6 * 37 + i % 6 * 61 + (i / 6) % 13) % 384;
    int* d; cudaMalloc(&d, 1 << 20); cudaMemcpy(d, ids.data(), 6144 * 4, cudaMemcpyHostToDevice);
    ExpertPlan p; p.uses = d + 8192; p.source_of_use = d + 16384; p.expert_of_use = d + 24576; p.position_of_use = d + 32768; p.tile_count = d + 40960; p.tiles = (ExpertTile*)(d + 49152); p.tiles_max = 384 + 48;
    for (int rows : {1, 6, 16, 32, 64, 128, 1024}) {
      PlanWork work{d, rows * 6, 6, 384, 128};
      std::printf("plan rows %d\n", rows);
      time_it("  many", [&] { return launch_dependent(nullptr, {dim3(1), experts_max, 1, 0}, plan_many_kernel, work, p); });
      time_it("  few", [&] { return launch_dependent(nullptr, {dim3(1), 384, 1, (std::size_t)rows * 12}, plan_kernel, work, p); }); }
    // rotation
    __half* suh; cudaMalloc(&suh, 768LL * 5120 * 2); fillh<<<1024, 256>>>(suh, 768LL * 5120);
    void* values; float* undo; cudaMalloc(&values, 12288LL * 5120 * 2); cudaMalloc(&undo, 12288 * 8 * 4);
    std::vector<Exl3Matrix> ms(768); for (int inputs : {5120, 1152}) {
      for (int i = 0; i < 768; ++i) { ms[i].shape = {inputs, 1152, 3, Exl3Codebook::mul1}; ms[i].suh = suh + (std::int64_t)i * inputs; }
      Exl3Matrix* table; cudaMalloc(&table, sizeof(Exl3Matrix) * 768); cudaMemcpy(table, ms.data(), sizeof(Exl3Matrix) * 768, cudaMemcpyHostToDevice);
      std::vector<int> m(6144), s(6144); for (int i = 0; i < 6144; ++i) { m[i] = i / 16; s[i] = (i * 37) % 1024; }
      int *dm = d, *ds = d + 8192; cudaMemcpy(dm, m.data(), 6144 * 4, cudaMemcpyHostToDevice); cudaMemcpy(ds, s.data(), 6144 * 4, cudaMemcpyHostToDevice);
      Exl3Groups g; g.table = table; g.second = inputs == 5120 ? table + 384 : nullptr; g.matrix_of_row = dm; g.source_of_row = inputs == 5120 ? ds : nullptr;
      Exl3Rows rows{x, Exl3Element::f32, inputs, inputs, false};
      std::printf("rotate groups 6144 x %d\n", inputs);
      time_it("  many", [&] { return exl3_rotate_groups(nullptr, ms[0].shape, g, rows, 6144, {values, undo}); });
      RotateJob job; job.tables[0] = g.table; job.tables[1] = g.second; job.matrix_of_row = dm; job.source_of_row = g.source_of_row; job.x = rows; job.rotated = {values, undo}; job.inputs = inputs; job.slices = exl3_split_of_groups(ms[0].shape).slices; job.rows = 6144; job.parts = g.second ? 2 : 1;
      time_it("  old", [&] { LaunchShape shape; const int blocks = (inputs / 128 + job.slices - 1) / job.slices; shape.grid = dim3(6144, job.slices, job.parts); shape.threads = 32 * std::min(blocks, 32); return launch_dependent(nullptr, shape, rotate_kernel, job); });
      for (int count : {1, 2}) for (int r : {32, 64, 128, 2048}) { Exl3Set set; set.count = count; for (int i = 0; i < count; ++i) set.members[i] = {ms[i], rows, {}};
        std::printf("rotate set of %d, %d x %d, %d slices\n", count, r, inputs, exl3_split_of_set(ms[0].shape, count).slices);
        RotateJob j2; std::copy_n(set.members, count, j2.members); j2.rotated = {values, undo}; j2.inputs = inputs; j2.slices = exl3_split_of_set(ms[0].shape, count).slices; j2.rows = r; j2.parts = count;
        time_it("  many", [&] { return launch_many(nullptr, j2); });
        time_it("  old", [&] { LaunchShape shape; const int blocks = (inputs / 128 + j2.slices - 1) / j2.slices; shape.grid = dim3(r, j2.slices, count); shape.threads = 32 * std::min(blocks, 32); return launch_dependent(nullptr, shape, rotate_kernel, j2); }); }
    } }
}
