// Names and types of the tensors are those that exl3_tensors.hpp reads.
#include "gpu/exl3/pack_shard.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <deque>
#include <span>

#include "engram/durable_file.hpp"
#include "gpu/checkpoint/index.hpp"
#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/checkpoint/safetensors_writer.hpp"
#include "gpu/exl3/codebook.hpp"

namespace tandem::gpu::exl3 {
namespace {

constexpr const char* job_key = "exl3_job";

Result<std::vector<std::uint16_t>> read_words(const SafetensorsFile& file, const std::string& name) {
  const auto bytes = file.read_all(name);
  if (!bytes) return bytes.error();
  std::vector<std::uint16_t> words(bytes->size() / sizeof(std::uint16_t));
  std::memcpy(words.data(), bytes->data(), words.size() * sizeof(std::uint16_t));
  return words;
}

}  // namespace

std::map<std::string, std::string> shard_metadata(const std::string& job) {
  return {{job_key, job}, {"format", "pt"}};
}

Result<void> write_pack_shard(const std::filesystem::path& path, const std::vector<NamedMatrix>& matrices,
                              const std::string& job) {
  std::vector<TensorData> tensors;
  std::deque<std::uint32_t> markers;  // elements stay where they are
  for (const auto& [module, matrix] : matrices) {
    const auto bytes = [](const std::vector<std::uint16_t>& values) { return std::as_bytes(std::span(values)); };
    tensors.push_back({module + ".trellis",
                       DType::i16,
                       {matrix.in / tile_side, matrix.out / tile_side, matrix.form.tile_words()},
                       bytes(matrix.trellis)});
    tensors.push_back({module + ".suh", DType::f16, {matrix.in}, bytes(matrix.suh)});
    tensors.push_back({module + ".svh", DType::f16, {matrix.out}, bytes(matrix.svh)});
    if (matrix.form.codebook == Codebook::inst3) continue;
    markers.push_back(hash_of(matrix.form.codebook).multiplier);
    tensors.push_back(
        {module + "." + to_string(matrix.form.codebook), DType::i32, {}, std::as_bytes(std::span(&markers.back(), 1))});
  }
  return write_safetensors(path, tensors, shard_metadata(job));
}

Result<NamedMatrix> read_pack_shard(const std::filesystem::path& path, const std::string& module) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  auto trellis = read_words(*file, module + ".trellis");
  if (!trellis) return trellis.error();
  auto suh = read_words(*file, module + ".suh");
  if (!suh) return suh.error();
  auto svh = read_words(*file, module + ".svh");
  if (!svh) return svh.error();
  const std::vector<std::int64_t>& shape = file->find(module + ".trellis")->shape;
  if (shape.size() != 3) {
    return Error{ErrorCode::mismatch, path.string() + ": " + module, "no tiles", "tiles of a packed matrix"};
  }
  const Codebook codebook = file->find(module + ".mul1") != nullptr  ? Codebook::mul1
                            : file->find(module + ".mcg") != nullptr ? Codebook::mcg
                                                                     : Codebook::inst3;
  const Form form{static_cast<std::uint8_t>(shape[2] / tile_side), codebook};
  return NamedMatrix{
      module,
      {form, shape[0] * tile_side, shape[1] * tile_side, std::move(*trellis), std::move(*suh), std::move(*svh)}};
}

Result<bool> is_pack_shard_of(const std::filesystem::path& path, const std::string& job) {
  std::error_code ec;
  if (!std::filesystem::exists(path, ec)) return false;
  const auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  const auto at = file->metadata().find(job_key);
  if (at != file->metadata().end() && at->second == job) return true;
  return Error{ErrorCode::mismatch, path.string(),
               at == file->metadata().end() ? "no pack of ours" : "a pack made with other options",
               "an empty folder, or one where the same pack was begun"};
}

Result<void> write_pack_index(const std::filesystem::path& folder, const std::vector<std::string>& shards) {
  boost::json::object map;
  std::uint64_t bytes = 0;
  for (const std::string& shard : shards) {
    const auto file = SafetensorsFile::open(folder / shard);
    if (!file) return file.error();
    for (const TensorEntry& entry : file->tensors()) {
      map[entry.name] = shard;
      bytes += entry.bytes;
    }
  }
  boost::json::object root;
  root["metadata"] = {{"total_size", bytes}};
  root["weight_map"] = std::move(map);
  return write_text(folder / index_file_name, boost::json::serialize(root));
}

Result<void> write_text(const std::filesystem::path& path, const std::string& text) {
  auto file = engram::DurableFile::create(path);
  if (!file) return file.error();
  if (auto done = file->append(std::as_bytes(std::span(text))); !done) return done;
  return file->commit();
}

}  // namespace tandem::gpu::exl3
