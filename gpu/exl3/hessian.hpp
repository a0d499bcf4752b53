// What calibration says about the inputs of a matrix, in the form that the quantiser works with.
//
// Second moments Hs = sum x^T x / rows are regularised (0.025 of the mean of the diagonal is added to it), rotated with
// random signs, Hr = BH D(s) Hs D(s) BH, and factored, Hr = C C^T. L is C with every 16-column block multiplied by the
// inverse of its diagonal block: block-unit lower triangular. It tells how the error of a row is made up for by the
// rows before it.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem::gpu::exl3 {

// Second moments of the inputs of one or more matrices.
class Moments {
 public:
  explicit Moments(std::int64_t in) : in_(in), sums_(static_cast<std::size_t>(in * in)) {}
  // Adds x^T x of one row; a row with a value that is not finite is left out.
  void add(const float* x);

  std::int64_t in() const noexcept { return in_; }
  std::int64_t rows() const noexcept { return rows_; }
  // Upper triangle of the sums, row-major [in, in].
  const std::vector<float>& sums() const noexcept { return sums_; }

 private:
  std::int64_t in_;
  std::int64_t rows_ = 0;
  std::vector<float> sums_;
};

struct Hessian {
  std::int64_t in = 0;
  std::vector<float> signs;    // [in], +-1
  std::vector<float> rotated;  // Hr [in, in]; the identity without data
  std::vector<float> factor;   // L [in, in] with diagonal blocks of zero; empty without data or if none was found

  // Hr = identity, no factor: every matrix is then quantised to the nearest path.
  static Hessian identity(std::vector<float> signs);
};

// Returns +1 and -1, fair coins from a seed.
std::vector<float> random_signs(std::int64_t count, std::uint64_t seed);

// `in` is a multiple of 128. Without rows, or with moments that are zero or not finite, the result is the identity.
Hessian make_hessian(const Moments& moments, std::vector<float> signs);

}  // namespace tandem::gpu::exl3
