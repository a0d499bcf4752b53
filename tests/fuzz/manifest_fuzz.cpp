// Fuzzes the two lists of a checkpoint's files: the manifest, which may come from anywhere and after which files are
// created, and the book of receipts beside the weights.
//
// A manifest that is accepted names only files that lie inside its folder, each once, none of them the folder of
// another, and comes back the same from its own text. The first byte of the input chooses: 'r' receipts, anything else
// a manifest.
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "gpu/weights_files/manifest.hpp"
#include "gpu/weights_files/receipts.hpp"
#include "tests/fuzz/require.hpp"

namespace {

using namespace tandem;
using namespace tandem::gpu;
using fuzz::require;

bool is_hash(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The plain rule: joined to a folder, the path stays below it, part by part.
void check_path(const std::string& text) {
  const std::filesystem::path path(text);
  require(!text.empty() && text.size() <= manifest_path_bytes_max && path.is_relative());
  require(text.find('\0') == std::string::npos);
  for (const std::filesystem::path& part : path) require(!part.empty() && part != "." && part != "..");
  const std::string normal = (std::filesystem::path("/m") / path).lexically_normal().string();
  require(normal == "/m/" + text);
}

void check_manifest(std::string_view text) {
  const auto manifest = parse_manifest(text, "fuzz");
  if (!manifest) return require(!manifest.error().message().empty());
  require(manifest->files.size() <= manifest_files_max);
  std::set<std::string> paths;
  for (const ManifestEntry& entry : manifest->files) {
    check_path(entry.path);
    require(check_manifest_path(entry.path, "fuzz").has_value());
    require(entry.bytes <= manifest_file_bytes_max && (entry.sha256.empty() || is_hash(entry.sha256)));
    require(paths.insert(entry.path).second && *paths.rbegin() == entry.path);
  }
  for (const std::string& path : paths) {
    for (auto parent = std::filesystem::path(path).parent_path(); !parent.empty(); parent = parent.parent_path())
      require(!paths.contains(parent.string()));
  }
  const auto again = parse_manifest(to_json(*manifest), "fuzz");
  require(again.has_value() && *again == *manifest);
  require(is_hash(manifest_hash(*manifest)));
  Manifest renamed = *manifest;
  renamed.revision += "x";
  require(manifest_hash(renamed) == manifest_hash(*manifest));
}

void check_receipts(std::string_view text) {
  const auto receipts = parse_receipts(text, "fuzz");
  if (!receipts) return require(receipts.error().code == ErrorCode::bad_format);
  for (const auto& [path, receipt] : *receipts) require(is_hash(receipt.sha256));
  const auto again = parse_receipts(to_json(*receipts), "fuzz");
  require(again.has_value() && *again == *receipts);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'r') {
    check_receipts(rest);
  } else {
    check_manifest(rest);
  }
  return 0;
}
