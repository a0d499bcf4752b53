// Holds a checkpoint against the inventory. One message a fault; the storage format is what the file's types say.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "gpu/checkpoint/exl3_tensors.hpp"
#include "gpu/checkpoint/inventory.hpp"

namespace tandem::gpu {
namespace {

// The storages that a use accepts of one tensor of values, the usual ones first.
std::span<const Storage> accepted_storages(TensorUse use) {
  static constexpr std::array plain{Storage::bf16, Storage::f32, Storage::f16};
  static constexpr std::array table{Storage::bf16, Storage::f16};
  static constexpr std::array matrix{Storage::fp8_block32, Storage::fp4_block32, Storage::bf16, Storage::f32,
                                     Storage::f16};
  static constexpr std::array rows{Storage::fp8_rows};
  switch (use) {
    case TensorUse::plain:
    case TensorUse::router:
      return plain;
    case TensorUse::row_table:
      return table;
    case TensorUse::matrix:
      return matrix;
    case TensorUse::engram_rows:
      return rows;
  }
  return {};
}

// Packed FP4 is a byte pair of codes; some writers say U8 where the official files say I8.
bool same_type(DType found, DType expected) {
  return found == expected || (expected == DType::i8 && found == DType::u8);
}

std::string describe(const StoredTensor& tensor) {
  return describe(tensor.dtype, tensor.shape);
}
std::string describe(const TensorEntry& entry) {
  return describe(entry.dtype, entry.shape);
}

// "F8_E4M3 [128, 256]" of the official storage, then the types that would do as well.
std::string expectation(const ExpectedTensor& tensor) {
  std::string text = describe(stored_values(tensor, tensor.official));
  for (Storage storage : accepted_storages(tensor.use)) {
    if (storage == tensor.official) continue;
    if (storage == Storage::fp4_block32 && tensor.shape.at(1) % 32 != 0) continue;
    text += " or " + describe(stored_values(tensor, storage));
  }
  if (tensor.use == TensorUse::matrix) text += fmt::format(" or EXL3 as {}.trellis", tensor.module_name());
  return text;
}

Error missing(const Checkpoint& checkpoint, const std::string& name, std::string expected) {
  return {ErrorCode::not_found, checkpoint.folder().string() + ": " + name, "missing", std::move(expected)};
}

Result<void> check_scales(const Checkpoint& checkpoint, const ExpectedTensor& tensor, Storage storage) {
  const StoredTensor expected = stored_scales(tensor, storage);
  const std::string name = tensor.scale_name();
  const TensorPlace* place = checkpoint.find(name);
  if (place == nullptr) {
    return missing(checkpoint, name, fmt::format("{}, the scales of {}", describe(expected), tensor.name));
  }
  if (place->entry->dtype == expected.dtype && place->entry->shape == expected.shape) return {};
  return Error{ErrorCode::mismatch, place->where(), describe(*place->entry),
               fmt::format("{}, the scales of {}", describe(expected), tensor.name)};
}

// All packed matrices of a tensor.
Result<void> check_packed(const Checkpoint& checkpoint, const ExpectedTensor& tensor) {
  const std::vector<std::string> modules = exl3_modules(checkpoint, tensor);
  const auto parts = static_cast<std::int64_t>(modules.size());
  for (const std::string& module : modules) {
    const auto found = find_exl3(checkpoint, {module, tensor.shape.at(0) / parts, tensor.shape.at(1)});
    if (!found) return found.error();
  }
  return {};
}

// Names that the inventory explains, given how each matrix is stored.
void note_known(std::set<std::string, std::less<>>& known, const Checkpoint& checkpoint, const ExpectedTensor& tensor,
                const Result<Storage>& storage) {
  const auto insert = [&](Storage like) {
    for (std::string& name : stored_names(checkpoint, tensor, like)) known.insert(std::move(name));
  };
  if (storage) return insert(*storage);
  // Of a faulty tensor everything that could belong to it counts as explained: one fault, one message.
  insert(Storage::fp8_block32);
  insert(Storage::exl3);
}

// Whether the official storage and quantization_config tell the same. Without it, products would take their inputs
// unquantised: other numbers than the model's, and nothing to show for it. A pack may keep official matrices beside its
// own and takes every input as it is.
class StorageReport {
 public:
  void note(const Checkpoint& checkpoint, const ExpectedTensor& tensor, Storage storage) {
    has_packed_ = has_packed_ || storage == Storage::exl3;
    const bool is_low = storage == Storage::fp8_block32 || storage == Storage::fp4_block32;
    if (is_low && first_low_ == nullptr) first_low_ = checkpoint.find(tensor.name);
  }

  std::optional<Error> fault(const ModelConfig& config) const {
    if (config.low_precision_weights || has_packed_ || first_low_ == nullptr) return std::nullopt;
    return Error{ErrorCode::mismatch, first_low_->where(), describe(*first_low_->entry),
                 "BF16, or a quantization_config with quant_method \"fp8\" in config.json"};
  }

 private:
  const TensorPlace* first_low_ = nullptr;
  bool has_packed_ = false;
};

}  // namespace

std::vector<std::string> stored_names(const Checkpoint& checkpoint, const ExpectedTensor& tensor, Storage storage) {
  std::vector<std::string> names;
  const auto add = [&](std::string name) {
    if (checkpoint.find(name) != nullptr) names.push_back(std::move(name));
  };
  if (storage == Storage::exl3) {
    for (const std::string& module : exl3_modules(checkpoint, tensor)) {
      for (const char* suffix : exl3_suffixes()) add(module + suffix);
    }
    return names;
  }
  add(tensor.name);
  if (has_scales(storage)) add(tensor.scale_name());
  return names;
}

Result<Storage> find_storage(const Checkpoint& checkpoint, const ExpectedTensor& tensor) {
  const TensorPlace* place = checkpoint.find(tensor.name);
  if (place == nullptr && tensor.use == TensorUse::matrix && has_exl3(checkpoint, tensor)) {
    if (auto packed = check_packed(checkpoint, tensor); !packed) return packed.error();
    return Storage::exl3;
  }
  if (place == nullptr) return missing(checkpoint, tensor.name, expectation(tensor));
  const std::span<const Storage> accepted = accepted_storages(tensor.use);
  const auto storage = std::find_if(accepted.begin(), accepted.end(), [&](Storage s) {
    return same_type(place->entry->dtype, stored_values(tensor, s).dtype);
  });
  if (storage == accepted.end() || place->entry->shape != stored_values(tensor, *storage).shape) {
    return Error{ErrorCode::mismatch, place->where(), describe(*place->entry), expectation(tensor)};
  }
  if (has_scales(*storage)) {
    if (auto scales = check_scales(checkpoint, tensor, *storage); !scales) return scales.error();
  }
  return *storage;
}

std::vector<Error> find_faults(const Checkpoint& checkpoint, const ModelConfig& config,
                               std::span<const ExpectedTensor> inventory, std::size_t most) {
  std::vector<Error> faults;
  std::set<std::string, std::less<>> known;
  StorageReport storages;
  for (const ExpectedTensor& tensor : inventory) {
    if (tensor.is_optional && checkpoint.find(tensor.name) == nullptr) continue;
    const Result<Storage> storage = find_storage(checkpoint, tensor);
    note_known(known, checkpoint, tensor, storage);
    if (storage) storages.note(checkpoint, tensor, *storage);
    if (!storage && faults.size() < most) faults.push_back(storage.error());
  }
  if (const auto fault = storages.fault(config); fault && faults.size() < most) faults.push_back(*fault);
  for (const auto& [name, place] : checkpoint.tensors()) {
    if (faults.size() >= most) break;
    if (known.contains(name) || (config.has_vision && is_vision_tensor(name))) continue;
    faults.push_back(
        {ErrorCode::mismatch, place.where(), describe(*place.entry), "no such tensor in this configuration"});
  }
  return faults;
}

Result<void> check_inventory(const Checkpoint& checkpoint, const ModelConfig& config,
                             std::span<const ExpectedTensor> inventory) {
  constexpr std::size_t told = 4;
  const std::vector<Error> faults = find_faults(checkpoint, config, inventory, told + 1);
  if (faults.empty()) return {};
  Error first = faults.front();
  for (std::size_t i = 1; i < std::min(told, faults.size()); ++i) first.expected += "; " + faults[i].message();
  if (faults.size() > told) first.expected += "; and more";
  return first;
}

}  // namespace tandem::gpu
