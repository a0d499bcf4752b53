// What Hopper's warpgroup products need, as named functions: the matrix instruction of four warps, its operands in
// shared memory, and barriers that some warps pass while others only report. Hopper alone has these (has_warpgroups).
//
// Operands  in shared memory are tiles of 64 fp16 along the inputs, 128 bytes a row, eight rows a kilobyte: piece c (16
//           bytes) of row r lies at place c ^ (r % 8) of its row. A tile begins at a multiple of 1,024 bytes. Four
//           k-steps of 16 inputs are its pieces 2q and 2q + 1; rows of exl3_step_index are such tiles as they are.
// Sums      of m64nNk16: warp w of the group has rows 16 w .. 16 w + 15 of A, and sum[tile] is to them and to columns
//           8 * tile .. 8 * tile + 7 what the sum of multiply_add (instructions.cuh) is: registers of lane 4g + p are
//           rows g, g + 8 and columns 2p, 2p + 1. The bits are those of multiply_add too.
// Order     begin_multiply, products, end_multiply_stage, wait_for_multiply: between them nobody touches the sums, or
//           the A fragments in registers.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tandem::gpu::cuda {

inline constexpr int warpgroup_threads = 128;
inline constexpr int operand_row_bytes = 128;  // 64 fp16

// Place of 16-byte piece `piece` of row `row` in a tile, in bytes.
__device__ __forceinline__ int operand_place(int row, int piece) {
  return row * operand_row_bytes + ((piece ^ (row % 8)) << 4);
}

// What the matrix instruction is told of a tile; k-step q of it is the result plus q * operand_step.
inline constexpr std::uint64_t operand_step = 2;  // 32 bytes, counted in 16
__device__ __forceinline__ std::uint64_t operand_of(const void* tile) {
  constexpr std::uint64_t swizzle_of_128_bytes = std::uint64_t{1} << 62, eight_rows = std::uint64_t{1024 / 16} << 32;
  constexpr std::uint64_t one = std::uint64_t{1} << 16;  // not looked at in this layout
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
  return swizzle_of_128_bytes | eight_rows | one | (address & 0x3ffffu) >> 4;
}

// Before the first product, and after anything else wrote the sums or fragments in registers.
__device__ __forceinline__ void begin_multiply() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// The products since the last call are one stage.
__device__ __forceinline__ void end_multiply_stage() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits for all stages but the newest `left`.
template <int left>
__device__ __forceinline__ void wait_for_multiply_stages() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

// Waits for all products; `sums` may be read then.
template <int tiles>
__device__ __forceinline__ void wait_for_multiply(float (&sums)[tiles][4]) {
  wait_for_multiply_stages<0>();
#pragma unroll
  for (int i = 0; i < 4 * tiles; ++i) asm volatile("" : "+f"(sums[i / 4][i % 4])::"memory");
}

// s = A B, or s += A B if `adds`: one k-step of 64 rows of A in shared memory and 128 columns of B, which lie as rows.
__device__ __forceinline__ void multiply_shared(float (&s)[16][4], std::uint64_t weights, std::uint64_t rows,
                                                bool adds) {
  const int add = adds ? 1 : 0;
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, "
      "%2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
      "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, "
      "%43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, "
      "%63}, %64, %65, p, 1, 1, 0, 0; }"
      : "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]), "+f"(s[1][2]),
        "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]), "+f"(s[3][0]), "+f"(s[3][1]),
        "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]), "+f"(s[4][2]), "+f"(s[4][3]), "+f"(s[5][0]),
        "+f"(s[5][1]), "+f"(s[5][2]), "+f"(s[5][3]), "+f"(s[6][0]), "+f"(s[6][1]), "+f"(s[6][2]), "+f"(s[6][3]),
        "+f"(s[7][0]), "+f"(s[7][1]), "+f"(s[7][2]), "+f"(s[7][3]), "+f"(s[8][0]), "+f"(s[8][1]), "+f"(s[8][2]),
        "+f"(s[8][3]), "+f"(s[9][0]), "+f"(s[9][1]), "+f"(s[9][2]), "+f"(s[9][3]), "+f"(s[10][0]), "+f"(s[10][1]),
        "+f"(s[10][2]), "+f"(s[10][3]), "+f"(s[11][0]), "+f"(s[11][1]), "+f"(s[11][2]), "+f"(s[11][3]), "+f"(s[12][0]),
        "+f"(s[12][1]), "+f"(s[12][2]), "+f"(s[12][3]), "+f"(s[13][0]), "+f"(s[13][1]), "+f"(s[13][2]), "+f"(s[13][3]),
        "+f"(s[14][0]), "+f"(s[14][1]), "+f"(s[14][2]), "+f"(s[14][3]), "+f"(s[15][0]), "+f"(s[15][1]), "+f"(s[15][2]),
        "+f"(s[15][3])
      : "l"(weights), "l"(rows), "r"(add));
}

// The same for 24, 48 and 64 columns, with A in registers: every warp its fragment of 16 rows.
__device__ __forceinline__ void multiply_fragment(float (&s)[3][4], const std::uint32_t (&a)[4], std::uint64_t rows,
                                                  bool adds) {
  const int add = adds ? 1 : 0;
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %17, 0; wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {%0, %1, "
      "%2, %3, %4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, %16, p, 1, 1, 0; }"
      : "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]), "+f"(s[1][2]),
        "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(add));
}

__device__ __forceinline__ void multiply_fragment(float (&s)[6][4], const std::uint32_t (&a)[4], std::uint64_t rows,
                                                  bool adds) {
  const int add = adds ? 1 : 0;
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %29, 0; wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {%0, %1, "
      "%2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
      "%23}, {%24, %25, %26, %27}, %28, p, 1, 1, 0; }"
      : "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]), "+f"(s[1][2]),
        "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]), "+f"(s[3][0]), "+f"(s[3][1]),
        "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]), "+f"(s[4][2]), "+f"(s[4][3]), "+f"(s[5][0]),
        "+f"(s[5][1]), "+f"(s[5][2]), "+f"(s[5][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(add));
}

__device__ __forceinline__ void multiply_fragment(float (&s)[8][4], const std::uint32_t (&a)[4], std::uint64_t rows,
                                                  bool adds) {
  const int add = adds ? 1 : 0;
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, "
      "%2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "
      "%23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, 0; }"
      : "+f"(s[0][0]), "+f"(s[0][1]), "+f"(s[0][2]), "+f"(s[0][3]), "+f"(s[1][0]), "+f"(s[1][1]), "+f"(s[1][2]),
        "+f"(s[1][3]), "+f"(s[2][0]), "+f"(s[2][1]), "+f"(s[2][2]), "+f"(s[2][3]), "+f"(s[3][0]), "+f"(s[3][1]),
        "+f"(s[3][2]), "+f"(s[3][3]), "+f"(s[4][0]), "+f"(s[4][1]), "+f"(s[4][2]), "+f"(s[4][3]), "+f"(s[5][0]),
        "+f"(s[5][1]), "+f"(s[5][2]), "+f"(s[5][3]), "+f"(s[6][0]), "+f"(s[6][1]), "+f"(s[6][2]), "+f"(s[6][3]),
        "+f"(s[7][0]), "+f"(s[7][1]), "+f"(s[7][2]), "+f"(s[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "r"(add));
}

// Four matrices of 8 x 8 16-bit numbers to shared memory; lane 8m + r names the place of row r of matrix m, 16 bytes.
// Lane 4g + p gives of each matrix row g, columns 2p and 2p + 1.
__device__ __forceinline__ void store_matrices(void* row, const std::uint32_t (&from)[4]) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// Where this lane's row of the A fragment of k-step q and rows 16 * quad .. 16 * quad + 15 lies in a tile: the place
// that store_matrices wants.
__device__ __forceinline__ int fragment_place(int quad, int q) {
  const int lane = threadIdx.x % 32;
  return operand_place(16 * quad + lane % 16, 2 * q + lane / 16);
}

// What this thread wrote to shared memory before is there for the matrix instruction once others know of it.
__device__ __forceinline__ void publish_operands() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A barrier in shared memory that is passed when `count` arrivals have come, again and again: the n-th time by those
// who wait for parity n % 2.
class StageBarrier {
 public:
  // By one thread, before a barrier of the whole block.
  __device__ __forceinline__ void open(int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(count) : "memory");
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  // Arrives; the barrier then also waits for `bytes` bytes of copies that name it.
  __device__ __forceinline__ void arrive_for(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }
  // Starts the copy of a tile of rows: 64 fp16 from `column` on of the rows from `row` on, as many as the map says, to
  // where operand_of reads them. Rows and columns past the map's come as zeros.
  __device__ __forceinline__ void copy_tile(void* tile, const CUtensorMap& map, int column, int row) {
    const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(&map), "r"(column), "r"(row), "r"(address())
        : "memory");
  }
  __device__ __forceinline__ void wait(int parity) {
    asm volatile(
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @done bra passed; "
        "bra again; passed: }" ::"r"(address()),
        "r"(parity)
        : "memory");
  }

 private:
  __device__ __forceinline__ std::uint32_t address() const {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(&state_));
  }

  std::uint64_t state_;
};

// A barrier of `threads` threads of a block, whole warps; `id` is 1 to 15.
__device__ __forceinline__ void meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Gives registers of this warpgroup back, or takes more: the number that a thread has from now on.
template <int registers>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

}  // namespace tandem::gpu::cuda
