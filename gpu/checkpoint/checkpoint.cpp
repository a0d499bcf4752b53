// Index and headers are compared in both directions, so a stale index or a foreign shard is found before any weight is
// read.
#include "gpu/checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <system_error>

#include "gpu/checkpoint/exl3_tensors.hpp"
#include "gpu/checkpoint/layers.hpp"

namespace tandem::gpu {
namespace {

constexpr std::uint64_t index_bytes_max = 100'000'000;

// A link that leads nowhere or in circles is present: opening it says what is wrong.
bool is_present(const std::filesystem::path& path) {
  std::error_code ec;
  return std::filesystem::symlink_status(path, ec).type() != std::filesystem::file_type::not_found;
}

using Places = std::map<std::string, TensorPlace, std::less<>>;

// The shards of one folder or bank inside the checkpoint's list.
struct Opened {
  ShardIndex index;
  std::size_t first_shard = 0;
};

Result<Places> place_tensors(const Opened& opened, std::span<const SafetensorsFile> all) {
  const auto shards = all.subspan(opened.first_shard, opened.index.shards.size());
  Places places;
  for (const auto& [name, shard] : opened.index.tensors) {
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

// The module whose values a tensor holds ("layers.0.attn.wo_a" of "layers.0.attn.wo_a.slice.3.trellis"), or nothing.
std::string module_of(std::string_view name) {
  for (const std::string_view suffix : {".weight", ".trellis"}) {
    if (!name.ends_with(suffix)) continue;
    name.remove_suffix(suffix.size());
    const std::size_t slice = name.rfind(".slice.");
    return std::string(slice == std::string_view::npos ? name : name.substr(0, slice));
  }
  return {};
}

// Takes every form of a module out of a layer below.
void remove_module(Places& places, const std::string& module) {
  std::vector<std::string> prefixes{module};
  for (int g = 0; places.contains(fmt::format("{}.slice.{}.trellis", module, g)); ++g) {
    prefixes.push_back(fmt::format("{}.slice.{}", module, g));
  }
  for (const std::string& prefix : prefixes) {
    for (const char* suffix : exl3_suffixes()) places.erase(prefix + suffix);
  }
  places.erase(module + ".weight");
  places.erase(module + ".scale");
}

void lay_over(Places& below, const Places& above) {
  for (const auto& [name, place] : above) {
    const std::string module = module_of(name);
    if (!module.empty()) remove_module(below, module);
  }
  for (const auto& [name, place] : above) below.insert_or_assign(name, place);
}

// Opens the folders, then knows where every tensor lies. Shards are collected first: places point into their list.
class LayerReader {
 public:
  LayerReader(std::vector<SafetensorsFile>& shards, const OpenSource& open) : shards_(shards), open_(open) {}

  Result<void> add_folder(const std::filesystem::path& folder, bool is_base) {
    const std::filesystem::path index_path = folder / index_file_name;
    if (is_present(index_path)) return add_indexed(index_path, is_base);
    if (!is_present(folder / single_file_name)) return {};
    return add_file(folder / single_file_name);
  }

  Result<void> add_banks(ExpertBanks banks) {
    for (const ExpertBank& bank : banks.banks) {
      Opened opened{{}, shards_.size()};
      for (const std::filesystem::path& path : bank.files) {
        if (auto ok = open_shard(path, opened); !ok) return ok;
      }
      banks_.push_back(std::move(opened));
    }
    plan_ = std::move(banks);
    return {};
  }

  bool is_empty() const noexcept { return folders_.empty() && banks_.empty(); }

  Result<Places> places() const {
    Places all;
    for (const Opened& folder : folders_) {
      const auto own = place_tensors(folder, shards_);
      if (!own) return own.error();
      lay_over(all, *own);
    }
    const auto experts = bank_places();
    if (!experts) return experts.error();
    lay_over(all, *experts);
    return all;
  }

 private:
  // Opens a file without an index and lists its tensors.
  Result<void> open_shard(const std::filesystem::path& path, Opened& opened) {
    Result<SafetensorsFile> file = SafetensorsFile::open(path, open_);
    if (!file) return file.error();
    for (const TensorEntry& entry : file->tensors()) {
      if (opened.index.tensors.emplace(entry.name, opened.index.shards.size()).second) continue;
      return Error{ErrorCode::mismatch, path.string() + ": " + entry.name, "a second copy", "one file of a bank"};
    }
    opened.index.shards.push_back(path.filename().string());
    shards_.push_back(std::move(*file));
    return {};
  }

  Result<void> add_file(const std::filesystem::path& path) {
    Opened opened{{}, shards_.size()};
    if (auto ok = open_shard(path, opened); !ok) return ok;
    folders_.push_back(std::move(opened));
    return {};
  }

  // A base may have only some of its shards; what is missed then is told by name when the inventory is checked.
  Result<void> add_indexed(const std::filesystem::path& index_path, bool is_base) {
    const Result<std::string> text = read_text(index_path, index_bytes_max, open_);
    if (!text) return text.error();
    Result<ShardIndex> index = parse_shard_index(*text, index_path.string());
    if (!index) return index.error();
    Opened opened{{}, shards_.size()};
    std::vector<std::size_t> kept(index->shards.size(), index->shards.size());
    for (std::size_t i = 0; i < index->shards.size(); ++i) {
      const std::filesystem::path path = index_path.parent_path() / index->shards[i];
      if (is_base && !is_present(path)) continue;
      Result<SafetensorsFile> file = SafetensorsFile::open(path, open_);
      if (!file) return file.error();
      kept[i] = opened.index.shards.size();
      opened.index.shards.push_back(index->shards[i]);
      shards_.push_back(std::move(*file));
    }
    for (const auto& [name, shard] : index->tensors) {
      if (kept[shard] < index->shards.size()) opened.index.tensors.emplace(name, kept[shard]);
    }
    folders_.push_back(std::move(opened));
    return {};
  }

  // Of every expert tensor the one copy, or the one that the plan chooses.
  Result<Places> bank_places() const {
    Places all;
    for (std::size_t b = 0; b < banks_.size(); ++b) {
      const auto own = place_tensors(banks_[b], shards_);
      if (!own) return own.error();
      for (const auto& [name, place] : *own) {
        const std::string* choice = plan_.choice(std::string_view(name).substr(0, name.rfind('.')));
        if (choice != nullptr && *choice != plan_.banks[b].name) continue;
        if (all.emplace(name, place).second) continue;
        return Error{ErrorCode::mismatch, place.where(), "in more than one bank",
                     plan_.plan.empty() ? "a plan that chooses one" : "a choice in " + plan_.plan.string()};
      }
    }
    return all;
  }

  std::vector<SafetensorsFile>& shards_;
  const OpenSource& open_;
  std::vector<Opened> folders_, banks_;
  ExpertBanks plan_;
};

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& folder, const OpenSource& open_source) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  checkpoint.shards_ = std::make_shared<std::vector<SafetensorsFile>>();
  const auto layers = find_layers(folder, open_source);
  if (!layers) return layers.error();
  LayerReader reader(*checkpoint.shards_, open_source);
  for (const std::filesystem::path& layer : *layers) {
    if (auto ok = reader.add_folder(layer, &layer != &layers->back()); !ok) return ok.error();
  }
  auto banks = find_banks(folder, open_source);
  if (!banks) return banks.error();
  if (auto ok = reader.add_banks(std::move(*banks)); !ok) return ok.error();
  if (reader.is_empty()) {
    return Error{ErrorCode::not_found, folder.string(), "no checkpoint",
                 std::string(index_file_name) + " or " + single_file_name};
  }
  auto places = reader.places();
  if (!places) return places.error();
  checkpoint.tensors_ = std::move(*places);
  return checkpoint;
}

const TensorPlace* Checkpoint::find(std::string_view name) const noexcept {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

}  // namespace tandem::gpu
