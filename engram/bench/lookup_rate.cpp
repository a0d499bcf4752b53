// A window of tickets over random rows, and the table they are looked up in.
#include "engram/bench/lookup_rate.hpp"

#include <algorithm>
#include <deque>
#include <random>

#include "engram/pack/output_file.hpp"
#include "engram/packed_header.hpp"

namespace tandem::engram {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds ticket_timeout{60};

struct Pending {
  Ticket ticket;
  Clock::time_point asked;
};

}  // namespace

Result<Rate> measure_lookups(Reader& reader, const Lookups& lookups) {
  std::mt19937_64 random(lookups.seed);
  std::uniform_int_distribution<std::int32_t> row(static_cast<std::int32_t>(lookups.first_row),
                                                  static_cast<std::int32_t>(lookups.last_row - 1));
  std::deque<Pending> window;
  std::vector<double> durations_us;
  std::uint64_t rows = 0;
  const auto begin = Clock::now();
  while (true) {
    while (window.size() < std::max<std::size_t>(lookups.in_flight, 1) && Clock::now() < begin + lookups.duration) {
      std::vector<RowId> ids(lookups.rows);
      for (RowId& id : ids) id = RowId{row(random)};
      const auto asked = Clock::now();
      const auto ticket = reader.prefetch(0, std::move(ids));
      if (!ticket) return ticket.error();
      window.push_back({*ticket, asked});
    }
    if (window.empty()) break;
    const Pending first = window.front();
    window.pop_front();
    if (const auto got = reader.wait(first.ticket, ticket_timeout); !got) return got.error();
    durations_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - first.asked).count());
    rows += lookups.rows;
  }
  return make_rate(rows, std::chrono::duration<double>(Clock::now() - begin).count(), std::move(durations_us));
}

Result<void> write_random_table(const std::filesystem::path& path, const PackedTable& table) {
  auto file = OutputFile::open(path);
  if (!file) return file.error();
  const std::uint64_t total = packed_file_bytes(table.info);
  if (auto sized = file->resize(total); !sized) return sized;
  if (auto written = file->write_at(0, encode_packed_header(table)); !written) return written;
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> words(1 << 20);               // 8 MiB
  constexpr std::uint64_t no_nan = 0xFEFE'FEFE'FEFE'FEFE;  // a byte of all ones is no code and no scale
  for (auto& word : words) word = random() & no_nan;
  const auto bytes = std::as_bytes(std::span(words));
  constexpr std::uint64_t flush_every = 256ULL << 20;
  std::uint64_t flushed = 0;
  for (std::uint64_t at = packed_header_bytes; at < total; at += bytes.size()) {
    // Every piece differs, so that no storage below can fold them into one.
    for (std::size_t i = 0; i < words.size(); i += 512) words[i] ^= (at * 0x9E3779B97F4A7C15ULL) & no_nan;
    const auto piece = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), total - at)));
    if (auto written = file->write_at(at, piece); !written) return written;
    if (at - flushed < flush_every) continue;
    if (auto synced = file->sync(); !synced) return synced;
    flushed = at;
  }
  return file->sync();
}

}  // namespace tandem::engram
