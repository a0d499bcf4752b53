// EXL3 linears on a CUDA device: y = ((x o suh) BH) What (BH o svh) + bias, any number of rows, one or many matrices a
// launch.
//
// Rows are brought into the rotated domain (scale, 128-wide Hadamard transform in fp32, fp16 with one power of two for
// each slice of a row), every weight is decoded once and multiplied on the tensor cores with fp32 sums, and the result
// is transformed back. A few rows take one launch, more rows two. Nothing allocates, synchronises or keeps state on the
// device: no locks, no counters. All may be captured into a graph and may run on several streams at once, each with a
// scratch of its own.
//
// Invariant: a row of y depends on its row of x, the matrix and the entry point (single or groups) alone, bit for bit:
// not on the other rows, their number, the groups beside it or the grid. Rows of a chunk have the bits of rows of a
// step.
//
// All pointers are device pointers, 16-byte aligned. Errors are what the CUDA runtime reports for the launch, or
// cudaErrorInvalidValue for a shape outside `exl3_accepts` or a row count outside 1..exl3_chunk_rows_max.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/cuda/exl3/layout.hpp"

namespace tandem::gpu::cuda {

enum class Exl3Codebook : std::uint8_t { three_inst, mcg, mul1 };
enum class Exl3Element : std::uint8_t { f32, f16, bf16 };

struct Exl3Shape {
  std::int32_t inputs = 0;  // multiples of 128
  std::int32_t outputs = 0;
  std::int32_t bits = 0;  // 1..8
  Exl3Codebook codebook = Exl3Codebook::mul1;
};

// One matrix [inputs, outputs].
struct Exl3Matrix {
  Exl3Shape shape;
  const void* words = nullptr;  // lane-major (layout.hpp), exl3_bytes(...) bytes
  const void* suh = nullptr;    // fp16 [inputs]
  const void* svh = nullptr;    // fp16 [outputs]
  const void* bias = nullptr;   // fp16 [outputs] or null
};

// Rows in device memory: element (r, c) at data[r * stride + c]. Columns past `columns` read as 0 and are not written.
struct Exl3Rows {
  void* data = nullptr;
  Exl3Element element = Exl3Element::bf16;
  std::int32_t columns = 0;
  std::int64_t stride = 0;
  bool rounds = false;  // f32 results only: to the nearest bf16 number
};

// Rotated rows: fp16 [rows, inputs] and what undoes the scaling of each slice. A rotation writes them in `order`, and
// products choose their kernel by it: rows in the order of steps are for those of warpgroups.
struct Exl3Rotated {
  void* values = nullptr;  // rows * inputs * 2 bytes
  float* undo = nullptr;   // [rows, exl3_slices_max]
  Exl3Order order = Exl3Order::lanes;
};

// Rows `first` .. `first + rows - 1` of the rotated rows and of y belong to matrix `matrix` of a table.
struct Exl3Group {
  std::int32_t matrix = 0;
  std::int32_t first = 0;
  std::int32_t rows = 0;  // 0: nothing to do; at most exl3_group_rows_max
};

// One of a set: its matrix, the rows that it multiplies, and where the products go.
struct Exl3Member {
  Exl3Matrix matrix;
  Exl3Rows x, y;
};

// Up to four matrices of one kind that are always multiplied together, for the same number of rows: heads' groups, gate
// and up. The members are the host's.
inline constexpr int exl3_members_max = 4;
struct Exl3Set {
  Exl3Member members[exl3_members_max];
  std::int32_t count = 0;
};

// Many matrices of one shape in one launch. The lists are in device memory: a routing kernel
// may write them, before the rotation in stream order.
struct Exl3Groups {
  const Exl3Matrix* table = nullptr;  // every matrix named below; those of another kind (bits, codebook) are skipped
  const Exl3Group* groups = nullptr;  // [count]
  std::int32_t count = 0;
  std::int32_t rows_most = 0;                   // no group has more rows
  const std::int32_t* matrix_of_row = nullptr;  // [rows], for the rotation
  const std::int32_t* source_of_row = nullptr;  // [rows]: which row of x; null: its own index
  // Where every row of x has `slots` uses: [rows], row of use t * slots + j of row t. May be null.
  const std::int32_t* row_of_use = nullptr;
  std::int32_t slots = 0;
  // A second matrix of each, of the same shape and kinds, whose rows follow those of the first; null: one alone.
  const Exl3Matrix* second = nullptr;
};

constexpr bool exl3_accepts(const Exl3Shape& shape) {
  return shape.inputs > 0 && shape.outputs > 0 && shape.inputs % exl3_block == 0 && shape.outputs % exl3_block == 0 &&
         shape.inputs <= exl3_inputs_max && shape.bits >= 1 && shape.bits <= exl3_bits_max;
}

// Permutes a matrix from the checkpoint's layout (`trellis`, I16 [inputs/16, outputs/16, 16*bits]) to lane-major words.
cudaError_t exl3_pack(cudaStream_t stream, const Exl3Shape& shape, const void* trellis, void* words);

// y = x times one matrix. `scratch` is used when the rows are too many for one launch.
cudaError_t exl3_multiply(cudaStream_t stream, const Exl3Matrix& matrix, const Exl3Rows& x, const Exl3Rows& y, int rows,
                          Exl3Rotated scratch);

// With up to so many rows the kernel behind a product starts when all in front of the product have ended: it may read
// what those wrote before it waits itself.
inline constexpr int exl3_patient_rows_max = 16;

// The same for all members of a set in one launch or two; `scratch` has room for count * rows rows. A row's bits depend
// on the number of members too, which belongs to the model.
cudaError_t exl3_multiply_set(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated scratch);
cudaError_t exl3_rotate_set(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated rotated);

// Two matrices of one kind and input, whose outputs differ, in one launch or two; `scratch` has room for 2 * rows rows.
// A row has the bits of each alone. Only where both divide their inputs alike, and for rows so few or so many that one
// kernel takes both (exl3_accepts_pair says).
inline constexpr int exl3_pair_rows_few = 16;
bool exl3_accepts_pair(const Exl3Set& set, int rows);
cudaError_t exl3_multiply_pair(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated scratch);
cudaError_t exl3_rotate_pair(cudaStream_t stream, const Exl3Set& set, int rows, Exl3Rotated rotated);

// The two halves of the first, for callers whose rows are rotated elsewhere. Same bits in either order of the rotated
// rows; that of steps needs a matrix that takes them (exl3_takes_steps: MUL1 on Hopper). exl3_order_of says which order
// is the faster, for `count` matrices that are multiplied together.
bool exl3_takes_steps(const Exl3Shape& shape);
Exl3Order exl3_order_of(const Exl3Shape& shape, int count, int rows);
cudaError_t exl3_rotate(cudaStream_t stream, const Exl3Matrix& matrix, const Exl3Rows& x, int rows,
                        Exl3Rotated rotated);
cudaError_t exl3_multiply_rotated(cudaStream_t stream, const Exl3Matrix& matrix, Exl3Rotated rotated, const Exl3Rows& y,
                                  int rows);

// The second half by the kernels for chunks whatever the number of rows, in blocks of 64 or exl3_block_rows rows (128
// if the rows are in the order of steps): what the functions above choose for themselves where it is faster. Same bits.
int exl3_block_rows(const Exl3Shape& shape);
cudaError_t exl3_multiply_blocks(cudaStream_t stream, const Exl3Set& set, Exl3Rotated rotated, int rows,
                                 int block_rows);

// Many matrices: rotated row r is row source_of_row[r] of x in the domain of matrix_of_row[r]; row r of y is its
// product. One rotation serves all launches over the same shape, whatever the kinds in the table. With a second table
// there are 2 * rows rotated rows, and `second_y` gets its products.
cudaError_t exl3_rotate_groups(cudaStream_t stream, const Exl3Shape& shape, const Exl3Groups& groups, const Exl3Rows& x,
                               int rows, Exl3Rotated rotated);
struct Exl3Products {
  Exl3Rows y, second_y;
};
// The order of rotated rows for which groups of `rows` rows in all are multiplied fastest, and how many rows a group of
// such an order may have.
Exl3Order exl3_group_order(const Exl3Shape& shape, int rows);
constexpr int exl3_group_rows(Exl3Order order) {
  return order == Exl3Order::steps ? exl3_rows_max : exl3_group_rows_max;
}
cudaError_t exl3_multiply_groups(cudaStream_t stream, const Exl3Shape& shape, const Exl3Groups& groups,
                                 Exl3Rotated rotated, const Exl3Products& products, int rows);

// Inputs that are made of two products of each use: silu(min(gate, limit)) * clamp(up, +-limit) * weight, with products
// and result rounded to bf16 if `rounds`.
struct Exl3Gate {
  Exl3Rows gate, up;               // f32, of one number of columns
  const float* weights = nullptr;  // [uses]
  float limit = 0;
  bool rounds = false;
};

// The matrices that a few rows use, `slots` different ones each: use u is slot u % slots of row u / slots.
struct Exl3Uses {
  const Exl3Matrix* table = nullptr;   // those of another kind are skipped
  const Exl3Matrix* second = nullptr;  // a second matrix of each, or null
  const std::int32_t* ids = nullptr;   // [count]: the matrix of each use, in device memory
  std::int32_t count = 0, slots = 1;
  Exl3Rows x;  // row u / slots is the input of use u; without data:
  Exl3Gate gate;
};

// The same products as exl3_multiply_groups in one launch, for up to exl3_use_rows_max rows and 12 uses
// (exl3_accepts_uses says): row u of y belongs to use u. Same bits. With a gate the ids must be older than the launch
// in front of this one, as they are where that one made the gate's products: they are read before it has ended.
inline constexpr int exl3_use_rows_max = 8;
bool exl3_accepts_uses(const Exl3Shape& shape, int rows, int slots);
cudaError_t exl3_multiply_uses(cudaStream_t stream, const Exl3Shape& shape, const Exl3Uses& uses,
                               const Exl3Products& products);

// The products of more uses, in two launches and in sorted order: uses of one matrix lie together, in the order of the
// uses. First each use's input is rotated to its place, which positions[use] becomes; a gate's rows are in that order
// already, and its place is read there. Same bits. Nothing but these two may lie between the kernel that writes ids and
// the second: its blocks read ids while the first still runs.
inline constexpr int exl3_sorted_uses_most = 128;
cudaError_t exl3_rotate_uses(cudaStream_t stream, const Exl3Shape& shape, const Exl3Uses& uses, Exl3Rotated rotated,
                             std::int32_t* positions);
cudaError_t exl3_multiply_sorted(cudaStream_t stream, const Exl3Shape& shape, const Exl3Uses& uses, Exl3Rotated rotated,
                                 const Exl3Products& products);

}  // namespace tandem::gpu::cuda
