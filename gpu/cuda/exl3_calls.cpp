// From a Linear to the EXL3 kernels' own structures, rows in pieces that fill a card.
#include "gpu/cuda/exl3_calls.hpp"

#include <algorithm>
#include <cstring>

namespace tandem::gpu::cuda {
namespace {

constexpr std::size_t piece_bytes = 16;
constexpr std::int64_t rows_most = exl3_linear_rows_max;

Exl3Codebook codebook_of(exl3::Codebook codebook) {
  switch (codebook) {
    case exl3::Codebook::inst3:
      return Exl3Codebook::three_inst;
    case exl3::Codebook::mcg:
      return Exl3Codebook::mcg;
    case exl3::Codebook::mul1:
      break;
  }
  return Exl3Codebook::mul1;
}

struct RowPiece {
  std::int64_t first, rows;
};

// The kernels' view of the calls, of a piece of their rows.
Exl3Set members_of(std::span<const LinearCall> calls, RowPiece piece) {
  Exl3Set set;
  set.count = static_cast<std::int32_t>(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Exl3Member& member = set.members[i];
    member.matrix = exl3_matrix_of(*calls[i].weight);
    member.x = exl3_rows_of(calls[i].x.slice_rows(piece.first, piece.rows));
    member.y = exl3_rows_of(calls[i].y.slice_rows(piece.first, piece.rows));
    member.y.rounds = calls[i].mode.round_output;
  }
  return set;
}

}  // namespace

// The file's tiles lie in strips of 16 outputs; the kernels' order is a permutation of 16-byte pieces of tiles.
void pack_exl3(Linear& weight) {
  const auto inputs = static_cast<int>(exl3::padded_side(weight.k));
  const auto outputs = static_cast<int>(exl3::padded_side(weight.n));
  const int bits = weight.exl3.bits;
  const std::int64_t tile_rows = inputs / exl3_tile, tile_columns = outputs / exl3_tile;
  const Buffer packed = Buffer::host(weight.codes.bytes);
  const std::byte* from = weight.codes.data.get();
  for (std::int64_t column = 0; column < tile_columns; ++column) {
    for (std::int64_t row = 0; row < tile_rows; ++row) {
      for (int part = 0; part < 2 * bits; ++part) {
        const std::int64_t piece = exl3_piece(inputs, outputs, bits, row * tile_columns + column, part);
        std::memcpy(packed.data.get() + static_cast<std::size_t>(piece) * piece_bytes, from, piece_bytes);
        from += piece_bytes;
      }
    }
  }
  weight.codes = packed;
}

Exl3Matrix exl3_matrix_of(const Linear& weight) {
  Exl3Matrix matrix;
  matrix.shape.inputs = static_cast<std::int32_t>(exl3::padded_side(weight.k));
  matrix.shape.outputs = static_cast<std::int32_t>(exl3::padded_side(weight.n));
  matrix.shape.bits = weight.exl3.bits;
  matrix.shape.codebook = codebook_of(weight.exl3.codebook);
  matrix.words = weight.codes.data.get();
  matrix.suh = weight.scales.data.get();
  matrix.svh = weight.scales.as<const std::uint16_t>() + matrix.shape.inputs;
  return matrix;
}

Exl3Rows exl3_rows_of(const Tensor& rows) {
  return {rows.data, Exl3Element::f32, static_cast<std::int32_t>(rows.cols), rows.stride};
}

Exl3Rotated exl3_rotated(CudaContext& context, std::int64_t rows, std::int64_t inputs) {
  // Two FP16 values take the place of one f32.
  return {context.scratch().f32(rows, (inputs + 1) / 2).data,
          context.scratch().f32(rows, exl3_slices_max).row<float>(0)};
}

bool is_exl3_set(std::span<const LinearCall> calls) {
  if (calls.empty() || calls.size() > exl3_members_max) return false;
  const Linear& first = *calls.front().weight;
  return std::all_of(calls.begin(), calls.end(), [&](const LinearCall& call) {
    const Linear& weight = *call.weight;
    return weight.format == WeightFormat::exl3 && weight.n == first.n && weight.k == first.k &&
           weight.exl3.bits == first.exl3.bits && weight.exl3.codebook == first.exl3.codebook;
  });
}

void exl3_linears(CudaContext& context, std::span<const LinearCall> calls) {
  const Workspace::Scope scope(context.scratch());
  const std::int64_t all = calls.front().x.rows, most = std::min(all, rows_most);
  const auto count = static_cast<std::int64_t>(calls.size());
  const Exl3Rotated scratch = exl3_rotated(context, count * most, exl3::padded_side(calls.front().weight->k));
  for (std::int64_t first = 0; first < all; first += rows_most) {
    const std::int64_t rows = std::min(rows_most, all - first);
    const Exl3Set set = members_of(calls, {first, rows});
    context.run("exl3 linear", exl3_multiply_set, set, static_cast<int>(rows), scratch);
  }
}

bool exl3_pair(CudaContext& context, std::span<const LinearCall> calls) {
  if (calls.size() != 2 || calls.front().x.rows == 0) return false;
  for (const LinearCall& call : calls) {
    if (call.weight->format != WeightFormat::exl3) return false;
  }
  const std::int64_t all = calls.front().x.rows, most = std::min(all, rows_most), rest = all % most;
  Exl3Set set = members_of(calls, {0, most});
  if (!exl3_accepts_pair(set, static_cast<int>(most))) return false;
  if (rest > 0 && !exl3_accepts_pair(set, static_cast<int>(rest))) return false;
  const Workspace::Scope scope(context.scratch());
  const Exl3Rotated scratch = exl3_rotated(context, 2 * most, set.members[0].matrix.shape.inputs);
  for (std::int64_t first = 0; first < all; first += most) {
    const std::int64_t rows = std::min(most, all - first);
    set = members_of(calls, {first, rows});
    context.run("exl3 linear", exl3_multiply_pair, set, static_cast<int>(rows), scratch);
  }
  return true;
}

void exl3_linear(CudaContext& context, const Tensor& x, const Linear& weight, bool round, const Tensor& y) {
  const LinearCall call{x, &weight, {false, round}, y};
  exl3_linears(context, {&call, 1});
}

}  // namespace tandem::gpu::cuda
