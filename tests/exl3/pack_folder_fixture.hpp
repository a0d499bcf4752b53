// A temporary EXL3 pack over the tiny model: every matrix random but valid, so that loading and running can be tested
// without the time that quantising takes.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gpu/config.hpp"
#include "gpu/exl3/pack_plan.hpp"
#include "gpu/exl3/pack_shard.hpp"

namespace tandem::gpu::test {

std::filesystem::path tiny_model();

// A folder under the system's temporary one, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

class PackFolder {
 public:
  explicit PackFolder(exl3::PackLayout layout);

  std::map<std::string, exl3::PackedMatrix> matrices;  // by module, bits differing from matrix to matrix
  exl3::PackPlan plan;

  // Writes config.json, overlay.json and the matrices: one shard with an index, or one bank.
  void write() const;
  // Writes some matrices as shard `name` of a folder or bank.
  static void write_shard(const std::filesystem::path& file, const std::map<std::string, exl3::PackedMatrix>& matrices);
  const std::filesystem::path& path() const noexcept { return folder_.path(); }
  std::filesystem::path shard() const;
  std::filesystem::path bank(const std::string& name) const { return path() / "exl3" / name; }

 private:
  TemporaryFolder folder_;
  exl3::PackLayout layout_;
};

// Inputs [in.first, ...) and outputs [out.first, ...) of a matrix, as a rank would keep them.
struct Cut {
  std::int64_t in_first = 0, in = 0, out_first = 0, out = 0;
};
exl3::PackedMatrix cut(const exl3::PackedMatrix& matrix, const Cut& part);

std::string read_text_file(const std::filesystem::path& path);
void write_text_file(const std::filesystem::path& path, const std::string& text);

}  // namespace tandem::gpu::test
