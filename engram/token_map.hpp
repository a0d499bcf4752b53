// TokenMap: the class of every token id after vocabulary compression. The classes are what Engram hashes.
//
// A wrong map changes rows silently, so every way to get one ends in the same checks: one class for each token of the
// vocabulary, classes numbered in order of first use, their number as configured, and for the released vocabulary a
// known SHA-256.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "engram/error.hpp"
#include "engram/geometry.hpp"

namespace tandem::engram {

// What the configuration says about the map.
struct TokenMapSpec {
  std::int64_t vocab_size = 0;  // tokens
  std::int64_t classes = 0;     // engram_compressed_vocab_size
};

class TokenMap {
 public:
  // Reads little-endian int32 entries. Errors: not_found, io, bad_format (size), out_of_range (an entry), mismatch
  // (classes, SHA-256).
  static Result<TokenMap> load(const std::filesystem::path& file, const TokenMapSpec& spec);

  // Builds the map from the text of a tokenizer.json with a byte-level BPE vocabulary; `where` names it in errors.
  // Errors: bad_format, mismatch (token count, class count, SHA-256).
  static Result<TokenMap> build(std::string_view tokenizer_json, const std::string& where, const TokenMapSpec& spec);

  // Finds the map of a model: `model`/engram_token_map.i32 if it is there, else the map that an earlier call kept in
  // `cache`, else built from `model`/tokenizer.json and kept in `cache` (empty: not kept; a cache that cannot be
  // written is no error).
  static Result<TokenMap> open(const std::filesystem::path& model, const std::filesystem::path& cache,
                               const TokenMapSpec& spec);

  // Writes the map for load(): a temporary file in the same folder, fsync, rename. Errors: io.
  Result<void> save(const std::filesystem::path& file) const;

  // Requires 0 <= token < size().
  ClassId class_of(std::int32_t token) const noexcept { return classes_[static_cast<std::size_t>(token)]; }
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(classes_.size()); }
  std::span<const ClassId> classes() const noexcept { return classes_; }

 private:
  explicit TokenMap(std::vector<ClassId> classes) : classes_(std::move(classes)) {}
  static Result<TokenMap> checked(std::vector<ClassId> classes, const std::string& where, const TokenMapSpec& spec);

  std::vector<ClassId> classes_;
};

}  // namespace tandem::engram
