// Columns of tiles are independent of each other given L, so a column from bottom to top is the unit of work.
#include "gpu/exl3/quantise.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/regularise.hpp"
#include "gpu/exl3/viterbi.hpp"
#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu::exl3 {
namespace {

using Tile = std::array<float, tile_weights>;

// Standard deviation of the targets at which a codebook fits best, by bits.
constexpr std::array<float, 9> best_size{1, 1.10F, 1.05F, 1.00F, 0.95F, 0.95F, 0.95F, 0.95F, 0.90F};
constexpr float rotated_size = 1.24371088F;

// Tile (row, col) of `values` [in, out] in stream order, times `scale`.
Tile gather(const Regularised& r, std::int64_t row, std::int64_t col, float scale) {
  Tile tile;
  for (int t = 0; t < tile_weights; ++t) {
    const Cell cell = cell_of(t);
    tile[static_cast<std::size_t>(t)] =
        scale * r.values[static_cast<std::size_t>((row * tile_side + cell.row) * r.out + col * tile_side + cell.col)];
  }
  return tile;
}

// ---- scale ----

struct TileIndex {
  std::int64_t row = 0, col = 0;
};

// A wrapped diagonal: every row and column of tiles has about the same share.
std::vector<TileIndex> sample_tiles(const Regularised& r) {
  constexpr std::int64_t samples = 12;
  const std::int64_t rows = r.in / tile_side, cols = r.out / tile_side;
  std::vector<TileIndex> tiles;
  for (std::int64_t i = 0; i < std::min(samples, rows * cols); ++i) {
    const std::int64_t at = i * std::max(rows, cols) / samples + i;
    tiles.push_back({at % rows, at % cols});
  }
  return tiles;
}

// Sum of squared errors of the sampled tiles at a scale, counted in the unscaled domain.
double sample_error(const Regularised& r, std::span<const TileIndex> tiles, float scale,
                    std::vector<TileQuantiser>& searchers, ThreadPool& pool) {
  std::vector<double> errors(tiles.size());
  pool.for_each_unit(static_cast<std::int64_t>(tiles.size()), 1, [&](int worker, std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    States walk;
    errors[at] =
        searchers[static_cast<std::size_t>(worker)].quantise(gather(r, tiles[at].row, tiles[at].col, scale), walk);
  });
  double sum = 0;
  for (const double error : errors) sum += error;
  return sum / (double{scale} * scale);
}

// The scale of least error: five points around the codebook's usual one, then a parabola through the best three.
float find_scale(const Regularised& r, Form form, std::vector<TileQuantiser>& searchers, ThreadPool& pool) {
  constexpr float step = 0.06F;
  constexpr int points = 5;
  const float unit = form.codebook == Codebook::mul1 ? 1.0F : rotated_size;
  const float middle = best_size[form.bits] * unit / rotated_size * (form.codebook == Codebook::mul1 ? 1.0F : 0.92F);
  const std::vector<TileIndex> tiles = sample_tiles(r);
  std::array<double, points> errors{};
  const auto scale_at = [&](double i) { return static_cast<float>(middle * (1 + step * (i - points / 2))); };
  for (int i = 0; i < points; ++i) {
    errors[static_cast<std::size_t>(i)] = sample_error(r, tiles, scale_at(i), searchers, pool);
  }
  const auto best = static_cast<int>(std::min_element(errors.begin(), errors.end()) - errors.begin());
  if (best == 0 || best == points - 1) return scale_at(best);
  const auto at = static_cast<std::size_t>(best);
  const double bend = errors[at - 1] - 2 * errors[at] + errors[at + 1];
  const double offset = bend > 0 ? 0.5 * (errors[at - 1] - errors[at + 1]) / bend : 0;
  return scale_at(best + offset);
}

// ---- LDLQ ----

struct Ldlq {
  const Regularised& source;  // scaled
  const Hessian& hessian;
  PackedMatrix& matrix;
  std::vector<float>& error;  // [in, out]: values - weights of the walks
};

// Targets of a row of tiles: the values plus what the errors of later rows call for.
void make_targets(const Ldlq& work, std::int64_t first, std::int64_t col, const std::vector<float>& errors,
                  Tile& targets) {
  const Regularised& r = work.source;
  for (std::int64_t i = 0; i < tile_side; ++i) {
    float* target = targets.data() + i * tile_side;
    std::copy_n(r.values.data() + (first + i) * r.out + col * tile_side, tile_side, target);
    if (work.hessian.factor.empty()) continue;
    for (std::int64_t later = first + tile_side; later < r.in; ++later) {
      const float share = work.hessian.factor[static_cast<std::size_t>(later * r.in + first + i)];
      simd::add_scaled(share, errors.data() + later * tile_side, tile_side, target);
    }
  }
}

void quantise_column(const Ldlq& work, std::int64_t col, TileQuantiser& searcher) {
  const Regularised& r = work.source;
  const std::span<const float> weights = weights_of_states(work.matrix.form.codebook);
  const auto words = static_cast<std::size_t>(work.matrix.form.tile_words());
  std::vector<float> errors(static_cast<std::size_t>(r.in * tile_side));  // of this column of tiles
  Tile targets, stream;
  States walk;
  for (std::int64_t row = r.in / tile_side - 1; row >= 0; --row) {
    make_targets(work, row * tile_side, col, errors, targets);
    for (int t = 0; t < tile_weights; ++t) {
      const Cell cell = cell_of(t);
      stream[static_cast<std::size_t>(t)] = targets[static_cast<std::size_t>(cell.row * tile_side + cell.col)];
    }
    searcher.quantise(stream, walk);
    const std::size_t tile = static_cast<std::size_t>(row * (r.out / tile_side) + col);
    pack_states(walk, work.matrix.form.bits, std::span(work.matrix.trellis).subspan(tile * words, words));
    for (int t = 0; t < tile_weights; ++t) {
      const Cell cell = cell_of(t);
      const std::int64_t in = row * tile_side + cell.row;
      const auto at = static_cast<std::size_t>(in * r.out + col * tile_side + cell.col);
      const float error = r.values[at] - weights[walk[static_cast<std::size_t>(t)]];
      errors[static_cast<std::size_t>(in * tile_side + cell.col)] = error;
      work.error[at] = error;
    }
  }
}

// ---- measures ----

// tr(M^T H M) for M [in, out].
double energy(const std::vector<float>& h, const std::vector<float>& m, std::int64_t in, std::int64_t out,
              ThreadPool& pool) {
  std::vector<double> parts(static_cast<std::size_t>(in));
  pool.for_each_unit(in, 16, [&](int, std::int64_t i) {
    std::vector<float> row(static_cast<std::size_t>(out));
    for (std::int64_t j = 0; j < in; ++j) {
      simd::add_scaled(h[static_cast<std::size_t>(i * in + j)], m.data() + j * out, out, row.data());
    }
    double sum = 0;
    for (std::int64_t c = 0; c < out; ++c)
      sum += double{row[static_cast<std::size_t>(c)]} * m[static_cast<std::size_t>(i * out + c)];
    parts[static_cast<std::size_t>(i)] = sum;
  });
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

double relative_error(std::span<const float> weight, const std::vector<float>& decoded) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const double difference = double{weight[i]} - decoded[i];
    error += difference * difference;
    size += double{weight[i]} * weight[i];
  }
  return size == 0 ? 0 : error / size;
}

void store_scales(const Regularised& r, float scale, PackedMatrix& matrix) {
  for (const float su : r.su) matrix.suh.push_back(float_to_f16(su / scale));
  for (std::size_t j = 0; j < r.sv.size(); ++j) matrix.svh.push_back(r.is_zero[j] != 0 ? 0 : float_to_f16(r.sv[j]));
}

}  // namespace

Quantised quantise(const QuantiseJob& job, ThreadPool& pool) {
  const std::int64_t in = job.hessian->in;
  std::vector<TileQuantiser> searchers(static_cast<std::size_t>(pool.threads()), TileQuantiser(job.form));
  Regularised source = regularise(job.weight, job.hessian->signs, job.signs_out);
  Quantised result;
  result.matrix = {job.form, in, job.out, {}, {}, {}};
  result.matrix.trellis.resize(
      static_cast<std::size_t>(in / tile_side * (job.out / tile_side) * job.form.tile_words()));
  result.scale = find_scale(source, job.form, searchers, pool);
  for (float& value : source.values) value *= result.scale;
  store_scales(source, result.scale, result.matrix);

  std::vector<float> error(source.values.size());
  const Ldlq work{source, *job.hessian, result.matrix, error};
  pool.for_each_unit(job.out / tile_side, 1, [&](int worker, std::int64_t col) {
    quantise_column(work, col, searchers[static_cast<std::size_t>(worker)]);
  });
  const double size = energy(job.hessian->rotated, source.values, in, job.out, pool);
  if (size > 0) result.proxy_error = energy(job.hessian->rotated, error, in, job.out, pool) / size;
  result.weight_error = relative_error(job.weight, dequantise(result.matrix));
  return result;
}

double expected_error(Form form) noexcept {
  constexpr std::array<double, 9> mul1{1, 0.262, 0.0667, 0.01665, 0.00418, 0.00106, 2.7e-4, 7.3e-5, 1.8e-5};
  constexpr std::array<double, 9> mcg{1, 0.277, 0.0667, 0.01667, 0.00425, 0.00110, 2.9e-4, 7.4e-5, 2.0e-5};
  constexpr std::array<double, 9> inst3{1, 0.276, 0.0667, 0.01729, 0.00435, 0.00112, 2.8e-4, 7.4e-5, 1.9e-5};
  switch (form.codebook) {
    case Codebook::mul1:
      return mul1[form.bits];
    case Codebook::mcg:
      return mcg[form.bits];
    case Codebook::inst3:
      return inst3[form.bits];
  }
  return 1;
}

}  // namespace tandem::gpu::exl3
