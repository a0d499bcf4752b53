// MatrixPacker: one matrix of a checkpoint from its file to its packed form.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/checkpoint/matrix_loader.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/exl3/calibration_ops.hpp"
#include "gpu/exl3/pack_job.hpp"
#include "gpu/exl3/quantise.hpp"

namespace tandem::gpu::exl3 {

class MatrixPacker {
 public:
  // `job` must outlive this.
  explicit MatrixPacker(const PackJob& job);

  // Quantises `matrix` to `bits`; without moments of its inputs to the nearest walks. Signs come from the names alone.
  // Errors: those of reading the matrix.
  Result<Quantised> pack(const PackMatrix& matrix, int bits, const MomentTable& moments);

 private:
  Result<std::vector<float>> read_transposed(const PackMatrix& matrix);
  const Hessian& hessian_of(const PackMatrix& matrix, const MomentTable& moments);

  const PackJob& job_;
  MatrixLoader loader_;
  ThreadPool pool_;
  Hessian hessian_;  // of the last matrix: those with the same inputs follow each other
  std::string hessian_name_;
};

}  // namespace tandem::gpu::exl3
