// WeightSlicer: finds one tensor of the checkpoint, decides which part of it this rank keeps, and asks a derived class
// for that part: read from the file, or only measured.
//
// Shapes come from the inventory, formats from the file, slices from the name of the function that is called. The first
// error wins: later calls do nothing, so that the walk over all weights reads as a list (see weight_walk.cpp).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/checkpoint/exl3_tensors.hpp"
#include "gpu/checkpoint/inventory.hpp"
#include "gpu/checkpoint/tensor_stream.hpp"
#include "gpu/weights.hpp"

namespace tandem::gpu {

// Which part of the model this process holds.
struct RankShare {
  int rank = 0;
  int ranks = 1;
  // Returns this rank's part of `total` equal parts; requires total % ranks == 0.
  Range part(std::int64_t total) const noexcept { return {total / ranks * rank, total / ranks}; }
};

class WeightSlicer {
 public:
  // Called after each tensor with the bytes of the file that are now done with.
  using OnBytes = std::function<void(std::uint64_t bytes, const std::string& name)>;

  // `checkpoint` and `inventory` must outlive this.
  WeightSlicer(const Checkpoint& checkpoint, std::span<const ExpectedTensor> inventory, RankShare share);
  virtual ~WeightSlicer() = default;
  WeightSlicer(const WeightSlicer&) = delete;
  WeightSlicer& operator=(const WeightSlicer&) = delete;
  void on_bytes(OnBytes callback) { on_bytes_ = std::move(callback); }

  // Every name below is a full tensor name ("norm.weight") for plain tensors, and one without ".weight" for matrices.
  void plain(DenseF32& into, const std::string& name);           // whole
  void plain_optional(DenseF32& into, const std::string& name);  // left empty if the file has none
  void plain_rows(DenseF32& into, const std::string& name);      // this rank's part of the elements of a vector
  void plain_on_host(DenseF32& into, const std::string& name);   // as plain_optional; never leaves the host's memory
  void whole(Linear& into, const std::string& name);
  void rows(Linear& into, const std::string& name);            // this rank's output rows
  void columns(PartialLinear& into, const std::string& name);  // this rank's slices of the inputs
  // This rank's row groups, `groups` in all, as matrices of their own: "name.slice.{group}".
  void row_groups(std::vector<Linear>& into, const std::string& name, int groups);

  const std::optional<Error>& error() const noexcept { return error_; }
  std::size_t resident_bytes() const noexcept { return resident_bytes_; }

 protected:
  struct Found {  // a tensor, where its values and scales lie and how they cover it
    const ExpectedTensor* tensor = nullptr;
    Storage storage = Storage::bf16;
    TensorPlace values;
    TensorPlace scales;              // scaled storages only
    std::vector<Exl3Wanted> packed;  // exl3 only: one matrix, or one a group of outputs; the places are looked up again
  };
  // The packed matrix that holds the rows, and the rows inside it: groups that are stored apart are also cut apart.
  struct FoundPacked {
    Exl3Wanted wanted;
    Exl3Place place;
    Range rows;
  };
  Result<FoundPacked> find_packed(const Found& found, Range rows) const;
  const Checkpoint& checkpoint() const noexcept { return checkpoint_; }

  // Returns one Linear for every column range of the given rows; names are the caller's.
  virtual Result<std::vector<Linear>> cut(const Found& found, Range rows, std::span<const Range> columns) = 0;
  // Returns rows `rows` of a plain tensor, seen as [.., cols], as F32.
  virtual Result<Buffer> cut_plain(const Found& found, std::int64_t cols, Range rows) = 0;
  // A weight is complete, with its name.
  virtual void arrived(Linear&, TensorUse) {}
  virtual void arrived(DenseF32&) {}

 private:
  const ExpectedTensor* expect(const std::string& name);
  std::optional<Found> find(const std::string& name);
  struct DenseCut {
    bool is_part = false;     // this rank's rows
    bool stays_here = false;  // in host memory
  };
  void dense(DenseF32& into, const std::string& name, DenseCut cut);
  std::vector<Linear> slices(const Found& found, Range rows, std::span<const Range> columns);
  void matrix(Linear& into, const std::string& name, bool is_part);
  void finished(const Found& found);
  void keep(Error error);

  const Checkpoint& checkpoint_;
  std::map<std::string_view, const ExpectedTensor*> expected_;
  RankShare share_;
  OnBytes on_bytes_;
  std::optional<Error> error_;
  std::size_t resident_bytes_ = 0;
};

}  // namespace tandem::gpu
