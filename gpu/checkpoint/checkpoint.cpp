// Index and headers are compared in both directions, so a stale index or a foreign shard is found before any weight is
// read.
#include "gpu/checkpoint/checkpoint.hpp"

#include <system_error>

namespace tandem::gpu {
namespace {

constexpr std::uint64_t index_bytes_max = 100'000'000;

// The index of a folder without one: every tensor of the single file.
Result<ShardIndex> index_of_single_file(const SafetensorsFile& file) {
  ShardIndex index;
  index.shards = {single_file_name};
  for (const TensorEntry& entry : file.tensors()) index.tensors.emplace(entry.name, 0);
  return index;
}

bool is_present(const std::filesystem::path& path) {
  std::error_code ec;
  return std::filesystem::exists(path, ec);
}

Result<std::map<std::string, TensorPlace, std::less<>>> place_tensors(const ShardIndex& index,
                                                                      const std::vector<SafetensorsFile>& shards) {
  std::map<std::string, TensorPlace, std::less<>> places;
  for (const auto& [name, shard] : index.tensors) {
    const TensorEntry* entry = shards[shard].find(name);
    if (entry == nullptr) {
      return Error{ErrorCode::mismatch, shards[shard].path().string() + ": " + name, "absent",
                   "the tensor, as the index says"};
    }
    places.emplace(name, TensorPlace{&shards[shard], entry});
  }
  for (const SafetensorsFile& file : shards) {
    for (const TensorEntry& entry : file.tensors()) {
      const auto at = places.find(entry.name);
      if (at != places.end() && at->second.shard == &file) continue;
      return Error{ErrorCode::mismatch, file.path().string() + ": " + entry.name,
                   at == places.end()
                       ? "a tensor that the index does not list"
                       : "a second copy; the index names " + at->second.shard->path().filename().string(),
                   "only tensors that the index places in this shard"};
    }
  }
  return places;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& folder, const OpenSource& open_source) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  checkpoint.shards_ = std::make_shared<std::vector<SafetensorsFile>>();
  std::vector<SafetensorsFile>& shards = *checkpoint.shards_;
  const std::filesystem::path index_path = folder / index_file_name;
  Result<ShardIndex> index = ShardIndex{};
  if (is_present(index_path)) {
    const Result<std::string> text = read_text(index_path, index_bytes_max, open_source);
    if (!text) return text.error();
    index = parse_shard_index(*text, index_path.string());
  } else if (!is_present(folder / single_file_name)) {
    return Error{ErrorCode::not_found, folder.string(), "no checkpoint",
                 std::string(index_file_name) + " or " + single_file_name};
  } else {
    Result<SafetensorsFile> file = SafetensorsFile::open(folder / single_file_name, open_source);
    if (!file) return file.error();
    index = index_of_single_file(*file);
    shards.push_back(std::move(*file));
  }
  if (!index) return index.error();
  for (std::size_t i = shards.size(); i < index->shards.size(); ++i) {
    Result<SafetensorsFile> file = SafetensorsFile::open(folder / index->shards[i], open_source);
    if (!file) return file.error();
    shards.push_back(std::move(*file));
  }
  auto places = place_tensors(*index, shards);
  if (!places) return places.error();
  checkpoint.tensors_ = std::move(*places);
  return checkpoint;
}

const TensorPlace* Checkpoint::find(std::string_view name) const noexcept {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

}  // namespace tandem::gpu
