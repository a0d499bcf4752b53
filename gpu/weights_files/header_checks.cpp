// One function a check; each lists its faults in the order of names.
#include "gpu/weights_files/header_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "gpu/checkpoint/exl3_tensors.hpp"
#include "gpu/checkpoint/layers.hpp"
#include "gpu/model/engram_sources.hpp"
#include "gpu/weights_files/bits_map.hpp"
#include "gpu/weights_files/byte_count.hpp"
#include "gpu/weights_files/layout_counts.hpp"

namespace tandem::gpu {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t index_text_bytes_max = 100'000'000;
constexpr const char* files_what = "configuration, index and sizes of the shards";
constexpr const char* counts_what = "counts of the layout";
constexpr const char* tensors_what = "names, types and shapes of tensors";
constexpr const char* packed_what = "codebooks and sizes of packed matrices";
constexpr const char* tables_what = "Engram tables";

WeightCheck skip_without_headers(const char* id, const char* what) {
  return WeightCheck::skip(id, what, "needs what W1 did not find");
}

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::symlink_status(path, failed).type() != fs::file_type::not_found;
}

// Opens every file that the folder's layers and banks name, and remembers what is wrong with which.
class ShardSizes {
 public:
  void add_layer(const fs::path& folder) {
    const fs::path index_file = folder / index_file_name;
    if (!is_there(index_file)) {
      if (is_there(folder / single_file_name)) add_shard(folder / single_file_name);
      return;
    }
    const auto text = read_text(index_file, index_text_bytes_max);
    if (!text) return add_fault(text.error());
    const auto index = parse_shard_index(*text, index_file.string());
    if (!index) return add_fault(index.error());
    for (const std::string& shard : index->shards) add_shard(folder / shard);
  }

  void add_shard(const fs::path& path) {
    const auto file = SafetensorsFile::open(path);
    if (!file) return add_fault(file.error());
    ++shards_;
    for (const TensorEntry& tensor : file->tensors()) bytes_ += tensor.bytes;
  }

  void add_fault(Error fault) {
    if (faults_.size() < check_faults_max) faults_.push_back(std::move(fault));
  }

  std::vector<Error>& faults() noexcept { return faults_; }
  std::string summary() const { return fmt::format("{} shards, {}", shards_, bytes_text(bytes_)); }

 private:
  std::vector<Error> faults_;
  std::size_t shards_ = 0;
  std::uint64_t bytes_ = 0;
};

// Bits of packed matrices as the map has them. A matrix that the map has and the files do not is as wrong as the other
// way round: the map was made for these files.
void compare_bits(std::vector<Error>& faults, const Checkpoint& checkpoint, const BitsMap& map) {
  const auto add = [&](std::string where, std::string found, std::string expected) {
    if (faults.size() < check_faults_max)
      faults.push_back({ErrorCode::mismatch, std::move(where), std::move(found), std::move(expected)});
  };
  for (const auto& [module, bits] : map.bits) {
    const TensorPlace* trellis = checkpoint.find(module + ".trellis");
    const std::string expected = fmt::format("{} bits, as {} says", bits, map.file.string());
    if (trellis == nullptr) {
      add(module + ".trellis", "missing", expected);
      continue;
    }
    const auto& shape = trellis->entry->shape;
    if (shape.size() == 3 && shape[2] != std::int64_t{16} * bits)
      add(trellis->where(), fmt::format("{} bits", static_cast<double>(shape[2]) / 16), expected);
  }
}

// Names of the tensors that W5 judges.
std::set<std::string, std::less<>> table_names(const WeightHeaders& headers) {
  std::set<std::string, std::less<>> names;
  for (const ExpectedTensor& tensor : headers.inventory) {
    if (tensor.group != TensorGroup::engram_table) continue;
    names.insert(tensor.name);
    names.insert(tensor.scale_name());
  }
  return names;
}

bool is_table_name(std::string_view name) {
  return name.ends_with(".engram.embed.weight") || name.ends_with(".engram.embed.scale");
}

// A fault's `where` is "file: tensor" or "folder: tensor".
std::string_view tensor_of(const Error& fault) {
  const std::size_t colon = fault.where.rfind(": ");
  return colon == std::string::npos ? std::string_view(fault.where) : std::string_view(fault.where).substr(colon + 2);
}

std::vector<std::string> packed_modules(const Checkpoint& checkpoint) {
  constexpr std::string_view trellis = ".trellis";
  std::vector<std::string> modules;
  for (const auto& [name, place] : checkpoint.tensors()) {
    if (name.ends_with(trellis)) modules.push_back(name.substr(0, name.size() - trellis.size()));
  }
  return modules;
}

// The sizes that a packed matrix of these bits has are those of its header's shapes; the header parser holds shapes
// against bytes. What is left is that the three shapes belong together, and the marker's value.
Result<void> check_packed_matrix(const Checkpoint& checkpoint, const std::string& module) {
  const auto& shape = checkpoint.find(module + ".trellis")->entry->shape;
  const bool is_packed = shape.size() == 3;
  const std::int64_t inputs = is_packed ? shape[0] * 16 : 0, outputs = is_packed ? shape[1] * 16 : 0;
  const auto place = find_exl3(checkpoint, {module, outputs, inputs});
  if (!place) return place.error();
  return check_marker(*place);
}

}  // namespace

FilesCheck check_files(const fs::path& folder) {
  FilesCheck check;
  ShardSizes sizes;
  auto config = ModelConfig::load(folder);
  if (!config) sizes.add_fault(config.error());
  const auto layers = find_layers(folder);
  if (!layers) sizes.add_fault(layers.error());
  if (layers) {
    for (const fs::path& layer : *layers) sizes.add_layer(layer);
  }
  const auto banks = find_banks(folder);
  if (!banks) sizes.add_fault(banks.error());
  if (banks) {
    for (const ExpertBank& bank : banks->banks) {
      for (const fs::path& file : bank.files) sizes.add_shard(file);
    }
  }
  if (sizes.faults().empty()) {
    auto checkpoint = Checkpoint::open(folder);
    if (!checkpoint) sizes.add_fault(checkpoint.error());
    if (checkpoint) check.headers.checkpoint = std::move(*checkpoint);
  }
  if (check.headers.checkpoint) {
    check.headers.inventory = make_inventory(*config);
    check.headers.config = std::move(*config);
  }
  check.verdict = WeightCheck::judge("W1", files_what, sizes.summary(), std::move(sizes.faults()));
  return check;
}

WeightCheck check_counts(const WeightHeaders& headers) {
  if (!headers.is_complete()) return skip_without_headers("W2", counts_what);
  const LayoutCounts counts = count_layout(*headers.checkpoint, *headers.config, headers.inventory);
  return WeightCheck::judge("W2", counts_what, counts.summary(),
                            find_count_faults(counts, headers.checkpoint->folder()));
}

WeightCheck check_tensors(const WeightHeaders& headers) {
  if (!headers.is_complete()) return skip_without_headers("W3", tensors_what);
  const Checkpoint& checkpoint = *headers.checkpoint;
  std::vector<Error> faults = find_faults(checkpoint, *headers.config, headers.inventory, check_faults_max);
  const auto tables = table_names(headers);
  std::erase_if(
      faults, [&](const Error& fault) { return tables.contains(tensor_of(fault)) || is_table_name(tensor_of(fault)); });
  std::string seen = fmt::format("{} tensors", checkpoint.tensors().size());
  const auto map = read_bits_map(checkpoint.folder());
  if (map) {
    compare_bits(faults, checkpoint, *map);
    seen += fmt::format(", bits of {} packed matrices as {} lists them", map->bits.size(), bits_map_file_name);
  } else if (map.error().code != ErrorCode::not_found) {
    faults.push_back(map.error());
  }
  return WeightCheck::judge("W3", tensors_what, std::move(seen), std::move(faults));
}

WeightCheck check_packed_matrices(const WeightHeaders& headers) {
  if (!headers.is_complete()) return skip_without_headers("W4", packed_what);
  const Checkpoint& checkpoint = *headers.checkpoint;
  const auto modules = packed_modules(checkpoint);
  if (modules.empty()) return WeightCheck::skip("W4", packed_what, "no packed matrices: an official checkpoint");
  std::vector<Error> faults;
  for (const std::string& module : modules) {
    const auto checked = check_packed_matrix(checkpoint, module);
    if (!checked && faults.size() < check_faults_max) faults.push_back(checked.error());
  }
  return WeightCheck::judge("W4", packed_what, fmt::format("{} packed matrices", modules.size()), std::move(faults));
}

WeightCheck check_tables(const WeightHeaders& headers) {
  if (!headers.is_complete()) return skip_without_headers("W5", tables_what);
  const ModelConfig& config = *headers.config;
  const auto expected = table_names(headers);
  std::vector<Error> faults;
  std::string seen;
  for (const ExpectedTensor& tensor : headers.inventory) {
    if (tensor.group != TensorGroup::engram_table) continue;
    const auto storage = find_storage(*headers.checkpoint, tensor);
    if (!storage) faults.push_back(storage.error());
    seen += fmt::format("{}layer {}: {} rows of {}", seen.empty() ? "" : ", ", tensor.layer, tensor.shape.at(0),
                        tensor.shape.at(1));
  }
  for (const auto& [name, place] : headers.checkpoint->tensors()) {
    if (!is_table_name(name) || expected.contains(name) || faults.size() >= check_faults_max) continue;
    faults.push_back({ErrorCode::mismatch, place.where(), "a table of a layer that has none",
                      fmt::format("engram_layer_ids {}", fmt::join(config.engram.layers, ", "))});
  }
  if (!config.engram.layers.empty()) {
    const auto geometry = make_engram_geometry(config.engram, 0);
    if (!geometry) faults.push_back(geometry.error());
  }
  if (seen.empty() && faults.empty()) return WeightCheck::skip("W5", tables_what, "the model has no Engram");
  return WeightCheck::judge("W5", tables_what, std::move(seen), std::move(faults));
}

}  // namespace tandem::gpu
