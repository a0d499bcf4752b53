// Each step adds its faults to the report; a step that has nothing to stand on is left out.
#include "gpu/checkpoint/verify.hpp"

#include <fmt/format.h>

#include "engram/geometry.hpp"
#include "engram/token_map.hpp"
#include "gpu/checkpoint/checkpoint.hpp"
#include "gpu/checkpoint/inventory.hpp"
#include "gpu/config.hpp"

namespace tandem::gpu {
namespace {

// The token map is optional in a folder (it can be built from the tokenizer); where it is, it must fit, and so must the
// table sizes.
void check_engram(CheckpointReport& report, const ModelConfig& config) {
  const EngramConfig& engram = config.engram;
  if (engram.layers.empty()) return;
  engram::GeometrySpec spec{engram.layers,
                            engram.rows,
                            engram.max_ngram,
                            engram.heads,
                            engram.head_dim,
                            engram.vocab_size,
                            engram.compressed_vocab_size,
                            0};
  const std::filesystem::path file = report.folder / "engram_token_map.i32";
  std::error_code ec;
  if (std::filesystem::exists(file, ec)) {
    const auto map = engram::TokenMap::load(file, {config.vocab_size, engram.compressed_vocab_size});
    if (!map) report.faults.push_back(map.error());
    if (map) spec.pad_class = map->class_of(engram.pad_token_id);
  }
  const auto geometry = engram::Geometry::make(spec);
  if (geometry) return;
  Error error = geometry.error();
  error.where = fmt::format("{}: {}", (report.folder / "config.json").string(), error.where);
  report.faults.push_back(error);
}

void measure(CheckpointReport& report, const Checkpoint& checkpoint) {
  report.shards = checkpoint.shards().size();
  report.tensors = checkpoint.tensors().size();
  for (const auto& [name, place] : checkpoint.tensors()) {
    report.bytes[place.entry->dtype] += place.entry->bytes;
    if (is_vision_tensor(name)) ++report.tensors_vision;
  }
}

void measure_tables(CheckpointReport& report, const Checkpoint& checkpoint,
                    const std::vector<ExpectedTensor>& inventory) {
  for (const ExpectedTensor& tensor : inventory) {
    if (tensor.group != TensorGroup::engram_table) continue;
    for (const std::string& name : {tensor.name, tensor.scale_name()}) {
      const TensorPlace* place = checkpoint.find(name);
      if (place != nullptr) report.table_bytes += place->entry->bytes;
    }
  }
}

}  // namespace

std::uint64_t CheckpointReport::bytes_all() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& [dtype, count] : bytes) sum += count;
  return sum;
}

CheckpointReport verify_checkpoint(const std::filesystem::path& folder, std::size_t faults_max,
                                   const OpenSource& open_source) {
  CheckpointReport report;
  report.folder = folder;
  const Result<ModelConfig> config = ModelConfig::load(folder);
  if (!config) {
    report.faults.push_back(config.error());
    return report;
  }
  for (int ranks : {1, 2, 4, 8}) {
    if (check_ranks(*config, ranks)) report.ranks.push_back(ranks);
  }
  check_engram(report, *config);
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder, open_source);
  if (!checkpoint) {
    report.faults.push_back(checkpoint.error());
    return report;
  }
  measure(report, *checkpoint);
  const std::vector<ExpectedTensor> inventory = make_inventory(*config);
  measure_tables(report, *checkpoint, inventory);
  for (Error& fault : find_faults(*checkpoint, *config, inventory, faults_max))
    report.faults.push_back(std::move(fault));
  return report;
}

std::string CheckpointReport::to_text() const {
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  std::string text = fmt::format(
      "{}: {} shards, {} tensors ({} vision, skipped), {:.2f} GiB, {:.2f} GiB of it stay on disk\n", folder.string(),
      shards, tensors, tensors_vision, static_cast<double>(bytes_all()) / gib, static_cast<double>(table_bytes) / gib);
  for (const auto& [dtype, count] : bytes) text += fmt::format("  {:8} {} bytes\n", to_string(dtype), count);
  for (int count : ranks) text += fmt::format("  can be split over {} rank{}\n", count, count == 1 ? "" : "s");
  for (const Error& fault : faults) text += fmt::format("  fault ({}): {}\n", to_string(fault.code), fault.message());
  return text + (is_good() ? "  no faults in the headers\n" : "");
}

}  // namespace tandem::gpu
