// The inventory: which tensors a checkpoint of a given configuration must hold, in which shapes and types. The one list
// of names.
//
// It is derived from ModelConfig alone, so a wrong configuration and a wrong file are told apart before anything is
// loaded. A matrix may be stored in another format than the official one (FP8 and FP4 with scales, BF16, F32 or F16
// without, EXL3): the file decides, see find_storage.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/checkpoint/checkpoint.hpp"
#include "gpu/config.hpp"

namespace tandem::gpu {

enum class TensorGroup : std::uint8_t {
  global,        // embedding, last norm, head
  layer,         // backbone layers, Engram excluded
  engram,        // resident Engram projections and gate weights
  engram_table,  // Engram rows: never resident as a whole
  dspark,        // draft network
};
inline constexpr int tensor_groups = 5;

// How a tensor's values are laid out in a file; [n, k] is the logical shape of a matrix.
enum class Storage : std::uint8_t {
  bf16,
  f32,
  f16,          // native tensors of repacked checkpoints
  fp8_block32,  // F8_E4M3 [n, k] + F8_E8M0 [ceil(n/32), ceil(k/32)]
  fp4_block32,  // I8 [n, k/2], two codes a byte + F8_E8M0 [n, k/32]
  fp8_rows,     // F8_E4M3 [n, k] + F8_E8M0 [n, k/32]: Engram tables
  exl3,         // several tensors a matrix, see exl3_tensors.hpp; bits and codebook are properties of each matrix
};

// What a tensor is used for decides which storages are accepted.
enum class TensorUse : std::uint8_t {
  plain,       // vectors and small matrices, made F32 at load: BF16, F32 or F16
  row_table,   // read by row: BF16, or F16 rounded to it at load
  router,      // FP32 arithmetic: BF16, F32 or F16
  matrix,      // a Linear: any format but fp8_rows
  engram_rows  // an Engram table: fp8_rows
};

struct ExpectedTensor {
  std::string name;                 // of the values, e.g. "layers.0.attn.wq_a.weight"
  std::vector<std::int64_t> shape;  // logical: of the numbers, not of packed bytes
  Storage official = Storage::bf16;
  TensorUse use = TensorUse::plain;
  TensorGroup group = TensorGroup::layer;
  int layer = -1;  // backbone layer or draft stage, -1 = neither
  bool is_optional = false;
  int slices = 1;  // groups of outputs that a packed file may store as matrices of their own: "NAME.slice.{g}"

  // Returns the name of the scale tensor that belongs to it in a scaled storage.
  std::string scale_name() const;
  std::string module_name() const;           // the name without ".weight"
  std::int64_t parameters() const noexcept;  // product of the logical shape
};

// One tensor as a header states it.
struct StoredTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  bool operator==(const StoredTensor&) const = default;
  std::uint64_t bytes() const noexcept;
};

bool has_scales(Storage storage) noexcept;
// Returns the tensor that holds the codes or values of `tensor` in that storage, which is not exl3.
StoredTensor stored_values(const ExpectedTensor& tensor, Storage storage);
// Returns its scale tensor; requires has_scales(storage).
StoredTensor stored_scales(const ExpectedTensor& tensor, Storage storage);

// Returns every tensor of the text model, its Engram and its draft network. Scales are part of their tensor. Vision
// tensors are not listed: with ModelConfig::has_vision they may exist and are skipped (is_vision_tensor).
std::vector<ExpectedTensor> make_inventory(const ModelConfig& config);

bool is_vision_tensor(std::string_view name) noexcept;

// Sums over an inventory in its official storages.
struct InventoryTotals {
  std::array<std::uint64_t, tensor_groups> tensors{};     // by TensorGroup, scale tensors counted
  std::array<std::uint64_t, tensor_groups> parameters{};  // by TensorGroup, scales not counted
  std::map<DType, std::uint64_t> bytes;                   // by type
  std::uint64_t tensors_all() const noexcept;
  std::uint64_t bytes_all() const noexcept;
};
InventoryTotals total(std::span<const ExpectedTensor> inventory);

// Returns how the file stores `tensor`. Errors (naming file, tensor and expectation): not_found (the tensor or its
// scales), mismatch (type or shape of either).
Result<Storage> find_storage(const Checkpoint& checkpoint, const ExpectedTensor& tensor);

// Returns the names of all tensors of the checkpoint that belong to `tensor` when it is stored like that.
std::vector<std::string> stored_names(const Checkpoint& checkpoint, const ExpectedTensor& tensor, Storage storage);

// Returns every fault of the checkpoint against the inventory, at most `most`: missing, misshaped and mistyped tensors
// first, then official low-precision storage that the configuration does not tell of, then tensors that nobody expects
// (scales beside an unscaled matrix among them).
std::vector<Error> find_faults(const Checkpoint& checkpoint, const ModelConfig& config,
                               std::span<const ExpectedTensor> inventory, std::size_t most);

// Returns one error that tells the first few faults, or nothing. Its code is that of the first fault.
Result<void> check_inventory(const Checkpoint& checkpoint, const ModelConfig& config,
                             std::span<const ExpectedTensor> inventory);

}  // namespace tandem::gpu
