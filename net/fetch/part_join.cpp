// Grouping by name; copying with two hashes at once, the part's and the shard's.
#include "net/fetch/part_join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "engram/input_file.hpp"
#include "gpu/weights_files/file_hash.hpp"
#include "net/fetch/part_file.hpp"

namespace tandem::net::fetch {
namespace {

constexpr std::size_t copy_block_bytes = std::size_t{4} << 20;

struct PartName {
  std::string_view whole;
  int number = 0;
};

// Splits "X.part07" into X and 7; nothing if the name is of another kind.
std::optional<PartName> split_part_name(std::string_view path) {
  const std::size_t digits_begin = path.find_last_not_of("0123456789") + 1;
  const std::string_view digits = path.substr(digits_begin);
  if (digits.size() < 2 || digits.size() > 3) return std::nullopt;
  PartName name;
  std::from_chars(digits.data(), digits.data() + digits.size(), name.number);
  const std::string_view front = path.substr(0, digits_begin);
  for (const std::string_view mark : {".part", ".part-", "."}) {
    if (!front.ends_with(mark) || front.size() == mark.size()) continue;
    name.whole = front.substr(0, front.size() - mark.size());
    return name;
  }
  return std::nullopt;
}

Result<Join> make_join(const gpu::ManifestEntry& whole, const std::map<int, gpu::ManifestEntry>& numbered) {
  Join join{whole, {}};
  int expected = std::min(numbered.begin()->first, 1);
  std::uint64_t bytes = 0;
  for (const auto& [number, part] : numbered) {
    if (number != expected)
      return Error{ErrorCode::bad_format, whole.path, fmt::format("no part {:02}", expected), "parts without a gap"};
    ++expected;
    bytes += part.bytes;
    join.parts.push_back(part);
  }
  if (bytes == whole.bytes) return join;
  return Error{ErrorCode::mismatch, whole.path, fmt::format("parts of {} bytes together", bytes),
               fmt::format("{} bytes", whole.bytes)};
}

// Copies one part behind the others and hashes it on the way.
class PartCopy {
 public:
  PartCopy(PartFile& out, gpu::FastSha256& whole, std::stop_token stop)
      : out_(out), whole_(whole), stop_(std::move(stop)), block_(copy_block_bytes) {}

  Result<void> append(const std::filesystem::path& path, const gpu::ManifestEntry& entry) {
    const auto file = engram::open_buffered(path);
    if (!file) return file.error();
    gpu::FastSha256 hash;
    for (std::uint64_t from = 0; from < entry.bytes;) {
      if (stop_.stop_requested()) return Error{ErrorCode::cancelled, path.string(), "stopped while joining", ""};
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(block_.size(), entry.bytes - from));
      const auto bytes = std::span(block_).first(count);
      if (auto read = engram::read_exactly(**file, from, bytes); !read) return read;
      hash.update(bytes);
      whole_.update(bytes);
      if (auto written = out_.write_at(at_ + from, bytes); !written) return written;
      from += count;
    }
    at_ += entry.bytes;
    const std::string digest = hash.finish();
    if (entry.sha256.empty() || digest == entry.sha256) return {};
    return Error{ErrorCode::mismatch, path.string(), "sha256 " + digest, entry.sha256};
  }

 private:
  PartFile& out_;
  gpu::FastSha256& whole_;
  std::stop_token stop_;
  std::vector<std::byte> block_;
  std::uint64_t at_ = 0;
};

// All parts must be there before a byte is copied.
Result<void> check_parts(const std::filesystem::path& folder, const Join& join, const std::string& command) {
  std::string missing;
  for (const gpu::ManifestEntry& part : join.parts) {
    const auto state = gpu::file_state(folder / part.path);
    if (!state && state.error().code != ErrorCode::not_found) return state.error();
    if (!state || state->bytes != part.bytes) missing += (missing.empty() ? "" : ", ") + part.path;
  }
  if (missing.empty()) return {};
  return Error{ErrorCode::not_found, (folder / join.whole.path).string(),
               fmt::format("not there, and neither are its parts {}; run: {}", missing, command), ""};
}

Result<void> remove_file(const std::filesystem::path& path) {
  std::error_code failed;
  std::filesystem::remove(path, failed);
  if (failed) return Error{ErrorCode::io, path.string(), "remove: " + failed.message(), ""};
  return {};
}

Result<std::string> copy_parts(const std::filesystem::path& folder, const Join& join, PartFile& out,
                               const std::stop_token& stop) {
  gpu::FastSha256 hash;
  PartCopy copy(out, hash, stop);
  for (const gpu::ManifestEntry& part : join.parts) {
    if (auto appended = copy.append(folder / part.path, part); !appended) return appended.error();
  }
  return hash.finish();
}

}  // namespace

Result<std::vector<Join>> find_joins(const gpu::Manifest& manifest) {
  std::map<std::string_view, const gpu::ManifestEntry*> known;
  for (const gpu::ManifestEntry& entry : manifest.files) known.emplace(entry.path, &entry);
  std::map<std::string_view, std::map<int, gpu::ManifestEntry>> groups;
  for (const gpu::ManifestEntry& entry : manifest.files) {
    const auto name = split_part_name(entry.path);
    if (!name || !known.contains(name->whole)) continue;
    if (!groups[name->whole].emplace(name->number, entry).second)
      return Error{ErrorCode::bad_format, entry.path, fmt::format("part {} twice", name->number), "each part once"};
  }
  std::vector<Join> joins;
  for (const auto& [whole, numbered] : groups) {
    auto join = make_join(*known.at(whole), numbered);
    if (!join) return join.error();
    joins.push_back(std::move(*join));
  }
  return joins;
}

Result<JoinOutcome> join_parts(const std::filesystem::path& folder, const Join& join, VerifiedFiles& verified,
                               const JoinOptions& options) {
  const auto present = verified.look_at(join.whole, options.stop);
  if (!present) return present.error();
  JoinOutcome outcome{present->state == PresentFile::State::right, present->sha256};
  if (outcome.was_there) {
    if (auto tidied = remove_part(folder / join.whole.path); !tidied) return tidied.error();
  } else {
    if (auto there = check_parts(folder, join, options.fetch_command); !there) return there.error();
    if (options.announce) options.announce(fmt::format("{}: joining {} parts", join.whole.path, join.parts.size()));
    const auto path = folder / join.whole.path;
    auto out = PartFile::open({path, join.whole.bytes, std::max<std::uint64_t>(join.whole.bytes, 1), "joining"});
    if (!out) return out.error();
    auto hash = copy_parts(folder, join, *out, options.stop);
    if (!hash) return hash.error();
    if (!join.whole.sha256.empty() && *hash != join.whole.sha256) {
      if (auto removed = remove_file(part_path(path)); !removed) return removed.error();
      return Error{ErrorCode::mismatch, path.string(), "sha256 " + *hash + " of its parts together", join.whole.sha256};
    }
    if (auto published = out->publish(); !published) return published.error();
    const auto state = gpu::file_state(path);
    if (!state) return state.error();
    if (auto noted = verified.note(join.whole.path, {*state, *hash}); !noted) return noted.error();
    outcome.sha256 = std::move(*hash);
  }
  // Without a hash nothing says that the whole is right: the parts stay.
  if (options.keep_parts || join.whole.sha256.empty()) return outcome;
  if (auto removed = remove_parts(folder, join); !removed) return removed.error();
  return outcome;
}

Result<void> remove_parts(const std::filesystem::path& folder, const Join& join) {
  for (const gpu::ManifestEntry& part : join.parts) {
    if (auto removed = remove_file(folder / part.path); !removed) return removed;
    if (auto removed = remove_part(folder / part.path); !removed) return removed;
  }
  return {};
}

}  // namespace tandem::net::fetch
