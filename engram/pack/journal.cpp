// Lines in, lines out. The journal is rewritten whole when it is opened, so that a cut line never stays in its middle.
#include "engram/pack/journal.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "engram/durable_file.hpp"
#include "engram/text_file.hpp"

namespace tandem::engram {
namespace {

constexpr std::uint64_t journal_bytes_max = std::uint64_t{64} << 20;  // the released tables have 24 k lines

std::string line_of(std::size_t block, std::uint32_t checksum) {
  return fmt::format("{} {:08x}\n", block, checksum);
}

std::optional<FinishedBlock> parse_line(std::string_view line) {
  FinishedBlock finished;
  const char* end = line.data() + line.size();
  const auto number = std::from_chars(line.data(), end, finished.block);
  if (number.ec != std::errc() || end - number.ptr != 9 || *number.ptr != ' ') return std::nullopt;
  const auto checksum = std::from_chars(number.ptr + 1, end, finished.checksum, 16);
  if (checksum.ec != std::errc() || checksum.ptr != end) return std::nullopt;
  return finished;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

std::map<std::size_t, std::uint32_t> PackJournal::read(const std::filesystem::path& path, const std::string& identity,
                                                       std::size_t blocks) {
  std::map<std::size_t, std::uint32_t> finished;
  const auto text = read_text(path, journal_bytes_max);
  if (!text || !text->starts_with(identity + '\n')) return finished;
  // What stands behind the last newline was cut.
  std::size_t begin = identity.size() + 1;
  for (std::size_t end; (end = text->find('\n', begin)) != std::string::npos; begin = end + 1) {
    const auto parsed = parse_line(std::string_view(*text).substr(begin, end - begin));
    if (!parsed || parsed->block >= blocks) break;
    finished[parsed->block] = parsed->checksum;
  }
  return finished;
}

Result<PackJournal> PackJournal::create(const std::filesystem::path& path, const std::string& identity,
                                        const std::map<std::size_t, std::uint32_t>& finished) {
  std::string text = identity + '\n';
  for (const auto& [block, checksum] : finished) text += line_of(block, checksum);
  auto whole = DurableFile::create(path);
  if (!whole) return whole.error();
  if (auto written = whole->append(bytes_of(text)); !written) return written.error();
  if (auto committed = whole->commit(); !committed) return committed.error();
  auto file = OutputFile::open(path);
  if (!file) return file.error();
  return PackJournal(std::move(*file), text.size());
}

Result<void> PackJournal::append(const std::vector<FinishedBlock>& blocks) {
  std::string text;
  for (const FinishedBlock& finished : blocks) text += line_of(finished.block, finished.checksum);
  if (auto written = file_.write_at(end_, bytes_of(text)); !written) return written;
  end_ += text.size();
  return file_.sync();
}

}  // namespace tandem::engram
