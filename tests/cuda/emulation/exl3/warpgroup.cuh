// What gpu/cuda/exl3/warpgroup.cuh declares, for kernels that name it: has_warpgroups is false here, nobody calls it.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tandem::gpu::cuda {

inline constexpr int warpgroup_threads = 128;
inline constexpr int operand_row_bytes = 128;
inline constexpr std::uint64_t operand_step = 2;

int operand_place(int row, int piece);
std::uint64_t operand_of(const void* tile);
void begin_multiply();
void end_multiply_stage();
template <int left>
void wait_for_multiply_stages();
template <int tiles>
void wait_for_multiply(float (&sums)[tiles][4]);
void multiply_shared(float (&s)[16][4], std::uint64_t weights, std::uint64_t rows, bool adds);
template <int tiles>
void multiply_fragment(float (&s)[tiles][4], const std::uint32_t (&a)[4], std::uint64_t rows, bool adds);
void store_matrices(void* row, const std::uint32_t (&from)[4]);
int fragment_place(int quad, int q);
void publish_operands();

class StageBarrier {
 public:
  void open(int count);
  void arrive();
  void arrive_for(int bytes);
  void copy_tile(void* tile, const CUtensorMap& map, int column, int row);
  void wait(int parity);
};

void meet(int id, int threads);
template <int registers>
void shrink_registers();
template <int registers>
void grow_registers();

}  // namespace tandem::gpu::cuda
