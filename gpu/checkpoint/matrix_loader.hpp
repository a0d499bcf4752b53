// MatrixLoader: the WeightSlicer that reads: every part is streamed from its file into the form that the model uses,
// and placed where the model uses it before the next one is read.
#pragma once

#include "gpu/checkpoint/weight_placer.hpp"
#include "gpu/checkpoint/weight_slicer.hpp"

namespace tandem::gpu {

class MatrixLoader final : public WeightSlicer {
 public:
  // `checkpoint` and `inventory` must outlive this.
  MatrixLoader(const Checkpoint& checkpoint, std::span<const ExpectedTensor> inventory, RankShare share,
               TensorStream stream);
  // `placer` must outlive this; without one everything stays in host memory.
  void place_with(WeightPlacer* placer) noexcept { placer_ = placer; }

 private:
  Result<std::vector<Linear>> cut(const Found& found, Range rows, std::span<const Range> columns) override;
  Result<Buffer> cut_plain(const Found& found, std::int64_t cols, Range rows) override;
  void arrived(Linear& weight, TensorUse use) override;
  void arrived(DenseF32& values) override;
  Result<std::vector<Linear>> cut_packed(const Found& found, Range rows, std::span<const Range> columns);

  TensorStream stream_;
  WeightPlacer* placer_ = nullptr;
};

}  // namespace tandem::gpu
