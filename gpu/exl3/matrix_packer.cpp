// Checkpoints hold [outputs, inputs], the format is told in [inputs, outputs]: a matrix is turned while it is read.
#include "gpu/exl3/matrix_packer.hpp"

#include "gpu/exl3/dense_matrix.hpp"

namespace tandem::gpu::exl3 {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

// FNV-1a: signs differ from matrix to matrix and are the same in every run.
std::uint64_t seed_of(std::string_view name) {
  std::uint64_t seed = 0xCBF29CE484222325U;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return seed;
}

}  // namespace

MatrixPacker::MatrixPacker(const PackJob& job)
    : job_(job),
      loader_(job.checkpoint, job.inventory, {0, 1}, TensorStream(piece_bytes, job.options.stop)),
      pool_(job.options.threads) {}

Result<Quantised> MatrixPacker::pack(const PackMatrix& matrix, int bits, const MomentTable& moments) {
  const auto weight = read_transposed(matrix);
  if (!weight) return weight.error();
  const Hessian& hessian = hessian_of(matrix, moments);
  const std::vector<float> signs = random_signs(matrix.n, seed_of(matrix.module));
  const Form form{static_cast<std::uint8_t>(bits), job_.options.codebook};
  return quantise({*weight, matrix.n, &hessian, signs, form}, pool_);
}

Result<std::vector<float>> MatrixPacker::read_transposed(const PackMatrix& matrix) {
  Linear whole;
  loader_.whole(whole, matrix.source);
  if (loader_.error()) return *loader_.error();
  std::vector<float> rows(static_cast<std::size_t>(whole.n * whole.k));
  decode_dense(whole, rows.data());
  std::vector<float> transposed(static_cast<std::size_t>(matrix.n * matrix.k));
  for (std::int64_t i = 0; i < matrix.k; ++i) {
    for (std::int64_t j = 0; j < matrix.n; ++j) {
      transposed[static_cast<std::size_t>(i * matrix.n + j)] =
          rows[static_cast<std::size_t>((matrix.first + j) * matrix.k + i)];
    }
  }
  return transposed;
}

const Hessian& MatrixPacker::hessian_of(const PackMatrix& matrix, const MomentTable& moments) {
  const std::string name = moments_name(matrix.module);
  if (name == hessian_name_) return hessian_;
  std::vector<float> signs = random_signs(matrix.k, seed_of(name) + 1);
  const auto at = moments.find(name);
  hessian_ = at == moments.end() ? Hessian::identity(std::move(signs)) : make_hessian(at->second, std::move(signs));
  hessian_name_ = name;
  return hessian_;
}

}  // namespace tandem::gpu::exl3
