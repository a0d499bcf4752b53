// Manifest: which files a checkpoint folder must hold, with their sizes and hashes. The text of `tandem-manifest.json`:
//
//   {"format": 1, "revision": "3f1c0de", "files": [
//     {"path": "config.json", "bytes": 2412, "sha256": "9f86d081884c7d65..."},
//     {"path": "exl3/qn/bank-00001.safetensors", "bytes": 4294967296, "sha256": ""}]}
//
// It comes from the network or from another node, and files are created after it. So a path is relative, stays inside
// the folder and never names one of Tandem's own files; nothing is listed twice; and no path is the folder of another.
// An empty sha256 means "not known": such a file is checked by its size alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engram/error.hpp"

namespace tandem::gpu {

inline constexpr const char* manifest_file_name = "tandem-manifest.json";

// The released checkpoints have about 60 files of at most 100 GB.
inline constexpr std::size_t manifest_files_max = 100'000;
inline constexpr std::size_t manifest_path_bytes_max = 1024;
inline constexpr std::uint64_t manifest_file_bytes_max = std::uint64_t{1} << 50;
// Room for that many files with paths of 150 bytes, and for as many receipts.
inline constexpr std::uint64_t manifest_text_bytes_max = std::uint64_t{32} << 20;

struct ManifestEntry {
  std::string path;         // relative to the model folder, parts separated by '/'
  std::uint64_t bytes = 0;  // exact size
  std::string sha256;       // 64 lower-case hexadecimal digits, or empty: not known
  bool operator==(const ManifestEntry&) const = default;
};

struct Manifest {
  std::string revision;              // what the publisher calls it (a commit, a tag); may be empty
  std::vector<ManifestEntry> files;  // ascending by path, as parse_manifest() and to_json() have them
  bool operator==(const Manifest&) const = default;

  std::uint64_t bytes_all() const noexcept;
};

// Parses a manifest; `where` names the file in errors. Upper-case digits of a hash are made lower-case, files are put
// in the order of their paths. Nothing is built of a text that has more values than the most files need. Errors (naming
// the entry by its number and path): bad_format (JSON with its byte, a missing, unknown or mistyped field, a path or
// hash that is none, a path twice), out_of_range (too many bytes, values or files, a size or a path beyond its limit),
// mismatch (another format number).
Result<Manifest> parse_manifest(std::string_view json, std::string_view where);

// Checks what a manifest lists by the rules above, sizes and hashes excepted. Errors: those of parse_manifest().
Result<void> check_manifest(const Manifest& manifest, std::string_view where);

// Returns the text of a manifest, one file a line, files in the order of their paths.
std::string to_json(const Manifest& manifest);

// Returns the identity of what a manifest lists: the SHA-256 (hexadecimal) over paths, sizes and hashes in the order of
// paths. The name of the revision does not count: equal files are equal, whatever they were called.
std::string manifest_hash(const Manifest& manifest);

// Checks one path by the rules above. Errors: bad_format, out_of_range, naming `where`.
Result<void> check_manifest_path(std::string_view path, std::string_view where);

// Reads `folder`/tandem-manifest.json. Errors: not_found, io, and those of parse_manifest().
Result<Manifest> read_manifest(const std::filesystem::path& folder);

// Writes it so that it is there whole or not at all. Errors: io.
Result<void> write_manifest(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace tandem::gpu
