// A small valid checkpoint of every layer role, built in memory, to be changed by a test and then written to a
// temporary folder.
#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/checkpoint/byte_source.hpp"
#include "gpu/config.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::test {

// Configuration of the fixture: 5 layers (plain; ratio-2 source with Engram; its reader; ratio-1 source that publishes
// candidates; re-indexing reader), one draft stage, hidden 64; can be cut over 1, 2 and 4 ranks.
boost::json::object small_config();

// The released 40-layer configuration and the golden one.
std::filesystem::path released_config_file();
std::filesystem::path golden_checkpoint();

struct Stored {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

class CheckpointFolder {
 public:
  CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  ~CheckpointFolder();

  boost::json::object config;
  std::map<std::string, Stored> tensors;
  std::vector<std::int32_t> token_map;

  boost::json::object& text() { return config["text_config"].as_object(); }
  Stored& at(const std::string& name) { return tensors.at(name); }
  // Writes config.json, the token map, two shards (draft network and Engram in the second) and the index.
  void write() const;
  // Writes everything into one model.safetensors without an index.
  void write_single_file() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path shard(int number) const;
  std::filesystem::path index() const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view bytes);
// Replaces the first occurrence of `from`; throws if there is none, so that a case cannot silently test nothing.
void edit_file(const std::filesystem::path& path, std::string_view from, std::string_view to);
// The same inside a shard's header; the header length follows.
void edit_header(const std::filesystem::path& shard, std::string_view from, std::string_view to);

// Sources whose read number `fail_at` (counted over all files from 0) fails with io.
struct FailingReads {
  int fail_at = -1;
  int reads = 0;
  bool fired() const { return fail_at >= 0 && reads > fail_at; }
  OpenSource opener();
};

}  // namespace tandem::gpu::test
