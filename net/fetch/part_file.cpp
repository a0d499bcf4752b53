// The journal's text: a line of identity, one with the size of a segment, one with the version, and a line for each
// finished segment.
#include "net/fetch/part_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "engram/text_file.hpp"

namespace tandem::net::fetch {
namespace {

constexpr std::uint64_t journal_bytes_max = std::uint64_t{64} << 20;
constexpr std::string_view segment_prefix = "segments of ", version_prefix = "version ";
// A file of more is cut into larger ones: the journal, a line for each, must stay one that is read.
constexpr std::uint64_t segments_max = std::uint64_t{1} << 22;

std::filesystem::path journal_path(const std::filesystem::path& final_path) {
  return part_path(final_path).string() + ".journal";
}

std::filesystem::path fresh_journal_path(const std::filesystem::path& final_path) {
  return journal_path(final_path).string() + ".new";
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Takes a whole line off the front; nothing if its end is missing: a crash cut it.
std::optional<std::string_view> take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

// Of a journal that is believed: no file is larger, and sums with it do not wrap.
constexpr std::uint64_t segment_bytes_max = std::uint64_t{1} << 50;

std::uint64_t smallest_segment(std::uint64_t file_bytes) {
  return std::max<std::uint64_t>(1, (file_bytes + segments_max - 1) / segments_max);
}

template <class Number>
std::optional<Number> parse_whole(std::string_view text) {
  Number number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Returns what stands behind the prefix of a line; nothing if it is another line.
std::optional<std::string_view> field_of(std::optional<std::string_view> line, std::string_view prefix) {
  if (!line || !line->starts_with(prefix)) return std::nullopt;
  return line->substr(prefix.size());
}

Result<void> remove_journal(const std::filesystem::path& final_path) {
  for (const auto& path : {journal_path(final_path), fresh_journal_path(final_path)}) {
    std::error_code failed;
    std::filesystem::remove(path, failed);
    if (failed) return Error{ErrorCode::io, path.string(), "remove: " + failed.message(), ""};
  }
  return engram::sync_folder_of(final_path);
}

}  // namespace

std::filesystem::path part_path(const std::filesystem::path& final_path) {
  return final_path.parent_path() / (".tandem-" + final_path.filename().string() + ".part");
}

// The journal goes first, as in start_over(). A folder is flushed only where something was removed from it.
Result<void> remove_part(const std::filesystem::path& final_path) {
  std::error_code failed;
  const auto part = part_path(final_path);
  const bool has_journal = std::filesystem::exists(journal_path(final_path), failed) ||
                           std::filesystem::exists(fresh_journal_path(final_path), failed);
  if (has_journal) {
    if (auto removed = remove_journal(final_path); !removed) return removed;
  }
  std::filesystem::remove(part, failed);
  if (failed) return Error{ErrorCode::io, part.string(), "remove: " + failed.message(), ""};
  return {};
}

Result<PartFile> PartFile::open(const PartPlan& plan) {
  auto file = engram::OutputFile::open(part_path(plan.final_path));
  if (!file) return file.error();
  const auto extent = file->extent();
  if (!extent) return extent.error();
  PartFile part(plan, std::move(*file));
  part.plan_.segment_bytes = std::max(plan.segment_bytes, smallest_segment(plan.bytes));
  if (extent->bytes == plan.bytes) part.read_journal();
  if (!part.finished_.empty()) {
    // Written anew, so that a cut line never stays in its middle.
    if (auto begun = part.begin(std::string(part.version_)); !begun) return begun.error();
    return part;
  }
  if (auto started = part.start_over(); !started) return started.error();
  return part;
}

void PartFile::read_journal() {
  const auto text = engram::read_text(journal_path(plan_.final_path), journal_bytes_max);
  if (!text) return;
  std::string_view rest = *text;
  const auto identity = take_line(rest);
  const auto size = field_of(take_line(rest), segment_prefix);
  const auto segment_bytes = size ? parse_whole<std::uint64_t>(*size) : std::nullopt;
  const auto version = field_of(take_line(rest), version_prefix);
  if (!identity || *identity != plan_.identity || !version) return;
  if (!segment_bytes || *segment_bytes < smallest_segment(plan_.bytes) || *segment_bytes > segment_bytes_max) return;
  plan_.segment_bytes = *segment_bytes;
  version_ = *version;
  while (const auto line = take_line(rest)) {
    const auto index = parse_whole<std::size_t>(*line);
    if (!index || *index >= segments()) break;
    finished_.insert(*index);
  }
}

std::size_t PartFile::segments() const noexcept {
  return static_cast<std::size_t>((plan_.bytes + plan_.segment_bytes - 1) / plan_.segment_bytes);
}

PartFile::Extent PartFile::segment(std::size_t index) const noexcept {
  const std::uint64_t begin = index * plan_.segment_bytes;
  return {begin, std::min(begin + plan_.segment_bytes, plan_.bytes)};
}

std::uint64_t PartFile::bytes_finished() const noexcept {
  std::uint64_t bytes = 0;
  for (const std::size_t index : finished_) bytes += segment(index).end - segment(index).begin;
  return bytes;
}

// By a temporary file whose name is always the same: one that a kill left is written over, and goes with the journal.
Result<engram::OutputFile> PartFile::replace_journal(const std::string& text) const {
  const auto path = journal_path(plan_.final_path);
  auto fresh = engram::OutputFile::open(fresh_journal_path(plan_.final_path));
  if (!fresh) return fresh.error();
  if (auto emptied = fresh->resize(0); !emptied) return emptied.error();
  if (auto written = fresh->write_at(0, bytes_of(text)); !written) return written.error();
  if (auto synced = fresh->sync(); !synced) return synced.error();
  std::error_code failed;
  std::filesystem::rename(fresh_journal_path(plan_.final_path), path, failed);
  if (failed) return Error{ErrorCode::io, path.string(), "rename to: " + failed.message(), ""};
  if (auto synced = engram::sync_folder_of(path); !synced) return synced.error();
  return fresh;
}

Result<void> PartFile::begin(const std::string& version) {
  version_ = version;
  if (segments() < 2) return {};
  std::string text =
      fmt::format("{}\n{}{}\n{}{}\n", plan_.identity, segment_prefix, plan_.segment_bytes, version_prefix, version_);
  for (const std::size_t index : finished_) text += fmt::format("{}\n", index);
  journal_.reset();
  auto written = replace_journal(text);
  if (!written) return written.error();
  journal_.emplace(std::move(*written));
  journal_end_ = text.size();
  return {};
}

Result<void> PartFile::finish_segment(std::size_t index) {
  if (auto synced = file_.sync(); !synced) return synced;
  if (journal_) {
    const std::string line = fmt::format("{}\n", index);
    if (auto written = journal_->write_at(journal_end_, bytes_of(line)); !written) return written;
    journal_end_ += line.size();
    if (auto synced = journal_->sync(); !synced) return synced;
  }
  finished_.insert(index);
  return {};
}

// The journal goes first: one that outlived its bytes would pass off empty segments as finished.
Result<void> PartFile::start_over() {
  journal_.reset();
  finished_.clear();
  version_.clear();
  if (auto removed = remove_journal(plan_.final_path); !removed) return removed;
  if (auto emptied = file_.resize(0); !emptied) return emptied;
  return file_.resize(plan_.bytes);
}

Result<void> PartFile::publish() {
  if (auto synced = file_.sync(); !synced) return synced;
  std::error_code failed;
  std::filesystem::rename(part_path(plan_.final_path), plan_.final_path, failed);
  if (failed) return Error{ErrorCode::io, plan_.final_path.string(), "rename to: " + failed.message(), ""};
  journal_.reset();
  return remove_journal(plan_.final_path);
}

}  // namespace tandem::net::fetch
