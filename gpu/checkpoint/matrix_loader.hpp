// MatrixLoader: the WeightSlicer that reads: every part is streamed from its file into the form that the model uses.
#pragma once

#include "gpu/checkpoint/weight_slicer.hpp"

namespace tandem::gpu {

class MatrixLoader final : public WeightSlicer {
 public:
  // `checkpoint` and `inventory` must outlive this.
  MatrixLoader(const Checkpoint& checkpoint, std::span<const ExpectedTensor> inventory, RankShare share,
               TensorStream stream);

 private:
  Result<std::vector<Linear>> cut(const Found& found, Range rows, std::span<const Range> columns) override;
  Result<Buffer> cut_plain(const Found& found, std::int64_t cols, Range rows) override;
  Result<std::vector<Linear>> cut_packed(const Found& found, Range rows, std::span<const Range> columns);

  TensorStream stream_;
};

}  // namespace tandem::gpu
