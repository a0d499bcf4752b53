// The three ways to a token map (file, cache, tokenizer.json) and the checks that all of them end in.
#include "engram/token_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "engram/durable_file.hpp"
#include "engram/sha256.hpp"
#include "engram/text_file.hpp"
#include "engram/token_text.hpp"
#include "engram/tokenizer_vocabulary.hpp"

namespace tandem::engram {
namespace {

static_assert(std::endian::native == std::endian::little, "token map files are little-endian and read as they are");

constexpr const char* file_name = "engram_token_map.i32";

// The released vocabulary of DeepSeek-V4.1-Flash and the digest of its map.
constexpr std::int64_t released_tokens = 129'280;
constexpr std::int64_t released_classes = 99'092;
constexpr std::string_view released_sha256 = "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481";

constexpr std::uint64_t map_bytes_max = std::uint64_t{64} << 20;         // 16 M tokens
constexpr std::uint64_t tokenizer_bytes_max = std::uint64_t{256} << 20;  // the released one has 8 MB

// Returns the number of classes; an entry may repeat a class or start the next one.
Result<std::int64_t> count_classes(std::span<const ClassId> classes, const std::string& where) {
  std::int64_t count = 0;
  for (std::size_t token = 0; token < classes.size(); ++token) {
    if (classes[token] < 0 || classes[token] > count) {
      return Error{ErrorCode::out_of_range, fmt::format("{}, token {}", where, token), std::to_string(classes[token]),
                   fmt::format("a class from 0 to {}", count)};
    }
    if (classes[token] == count) ++count;
  }
  return count;
}

}  // namespace

Result<TokenMap> TokenMap::checked(std::vector<ClassId> classes, const std::string& where, const TokenMapSpec& spec) {
  const auto tokens = static_cast<std::int64_t>(classes.size());
  if (tokens != spec.vocab_size) {
    return Error{ErrorCode::mismatch, where, fmt::format("{} tokens", tokens), fmt::format("{}", spec.vocab_size)};
  }
  const auto count = count_classes(classes, where);
  if (!count) return count.error();
  if (*count != spec.classes) {
    return Error{ErrorCode::mismatch, where, fmt::format("{} token classes", *count),
                 fmt::format("{} (engram_compressed_vocab_size)", spec.classes)};
  }
  if (tokens == released_tokens && *count == released_classes) {
    const std::string digest = sha256_hex(std::as_bytes(std::span(classes)));
    if (digest != released_sha256) {
      return Error{ErrorCode::mismatch, where, "SHA-256 " + digest, std::string(released_sha256)};
    }
  }
  return TokenMap(std::move(classes));
}

Result<TokenMap> TokenMap::load(const std::filesystem::path& file, const TokenMapSpec& spec) {
  const auto text = read_text(file, map_bytes_max);
  if (!text) return text.error();
  if (text->size() % sizeof(ClassId) != 0) {
    return Error{ErrorCode::bad_format, file.string(), fmt::format("{} bytes", text->size()), "32-bit entries"};
  }
  std::vector<ClassId> classes(text->size() / sizeof(ClassId));
  std::copy(text->begin(), text->end(), reinterpret_cast<char*>(classes.data()));
  return checked(std::move(classes), file.string(), spec);
}

Result<TokenMap> TokenMap::build(std::string_view tokenizer_json, const std::string& where, const TokenMapSpec& spec) {
  const auto tokens = tokenizer_vocabulary(tokenizer_json, where);
  if (!tokens) return tokens.error();
  std::unordered_map<std::string, ClassId> class_of_key;
  std::vector<ClassId> classes;
  classes.reserve(tokens->size());
  for (const std::string& token : *tokens) {
    const auto next = static_cast<ClassId>(class_of_key.size());
    classes.push_back(class_of_key.try_emplace(compression_key(token), next).first->second);
  }
  return checked(std::move(classes), where, spec);
}

Result<TokenMap> TokenMap::open(const std::filesystem::path& model, const std::filesystem::path& cache,
                                const TokenMapSpec& spec) {
  auto shipped = load(model / file_name, spec);
  if (shipped || shipped.error().code != ErrorCode::not_found) return shipped;
  const auto tokenizer = read_text(model / "tokenizer.json", tokenizer_bytes_max);
  if (!tokenizer && tokenizer.error().code != ErrorCode::not_found) return tokenizer.error();
  if (!tokenizer)
    return Error{ErrorCode::not_found, model.string(), "no token map", fmt::format("{} or tokenizer.json", file_name)};
  if (cache.empty()) return build(*tokenizer, (model / "tokenizer.json").string(), spec);

  // The cached map belongs to one tokenizer.json: its name carries that file's fingerprint.
  const std::string digest = sha256_hex(std::as_bytes(std::span(*tokenizer)));
  const auto cached_file = cache / fmt::format("engram_token_map-{}.i32", digest.substr(0, 16));
  if (auto cached = load(cached_file, spec)) return cached;
  auto built = build(*tokenizer, (model / "tokenizer.json").string(), spec);
  if (built) {
    std::error_code ignored;
    std::filesystem::create_directories(cache, ignored);
    (void)built->save(cached_file);  // the next start builds it again
  }
  return built;
}

Result<void> TokenMap::save(const std::filesystem::path& file) const {
  auto durable = DurableFile::create(file);
  if (!durable) return durable.error();
  if (auto written = durable->append(std::as_bytes(std::span(classes_))); !written) return written.error();
  return durable->commit();
}

}  // namespace tandem::engram
