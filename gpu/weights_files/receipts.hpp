// ReceiptBook: which files of a model folder were hashed, in what state, and what came out. A file whose state (size,
// modification time, inode) is the receipt's need not be read again: half a terabyte takes minutes to hash.
//
// The book lies beside the weights as `.tandem-receipt.json`, so that every reader of the folder profits; where the
// folder cannot be written (a read-only mount, another user's files), in the state folder. Losing it costs time only:
// a book that is missing, damaged or of another format counts as empty.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/weights_files/model_files.hpp"

namespace tandem::gpu {

inline constexpr const char* receipt_file_name = ".tandem-receipt.json";

struct FileReceipt {
  FileState state;     // when it was hashed
  std::string sha256;  // 64 lower-case hexadecimal digits
  bool operator==(const FileReceipt&) const = default;
};

using FileReceipts = std::map<std::string, FileReceipt, std::less<>>;  // by path relative to the folder

// Parses the text of a book. Errors: bad_format naming the entry.
Result<FileReceipts> parse_receipts(std::string_view json, std::string_view where);
std::string to_json(const FileReceipts& receipts);

class ReceiptBook {
 public:
  // Reads the book of `folder`. `state_folder` may be empty: then there is no second place.
  static ReceiptBook open(const std::filesystem::path& folder, const std::filesystem::path& state_folder);

  // Returns the hash of a file that is still in the state of its receipt, or nothing.
  std::optional<std::string> hash_of(std::string_view path, const FileState& state) const;
  // True if the file was hashed once, whatever happened to it since.
  bool has(std::string_view path) const;
  void note(const std::string& path, FileReceipt receipt);

  // Writes what was noted since open(), whole or not at all, beside the weights or in the state folder. What another
  // process wrote meanwhile is kept where it speaks of other files; what killed writers left is removed. Errors: io
  // (neither place can be written).
  Result<void> save();

 private:
  ReceiptBook(std::filesystem::path beside, std::filesystem::path fallback);

  std::filesystem::path beside_, fallback_;
  std::array<FileReceipts, 2> books_;  // beside the weights, in the state folder
  FileReceipts noted_;
  bool is_swept_ = false;  // of what killed writers left
};

}  // namespace tandem::gpu
