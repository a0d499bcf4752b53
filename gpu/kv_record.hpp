// Records of the caches: how one window entry, compressed entry or index key lies in memory, and where entry j is.
//
// Formats (values per record n): w8  n e4m3 + n/32 e8m0          (window, 528 B at n = 512)
//                                n4  n/2 e2m1 + n/16 e4m3 scales (compressed KV, 288 B at n = 512)
//                                x4  n/2 e2m1 + n/32 e8m0        (index keys, 68 B at n = 128)
//                                f32 4n bytes                    (numeric mode fp32 only)
// Writing a record quantises exactly as the model does; reading gives the model's dequantised values: nothing is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::gpu {

enum class RecordFormat : std::uint8_t { f32, w8, n4, x4 };

// Returns the bytes of one record of n values.
std::size_t record_bytes(RecordFormat format, int n) noexcept;
// Quantises x into a record of x.size() values (even).
void write_record(RecordFormat format, std::span<const float> x, std::byte* record) noexcept;
// Returns the record's values in x.
void read_record(RecordFormat format, const std::byte* record, std::span<float> x) noexcept;

// Window entries by position: slot = position mod slots. slots >= window + the most rows one step writes for one
// sequence, so that a step may write all its rows before any of them attends, and rejected rows never overwrite a live
// entry.
struct RecordRing {
  std::byte* base = nullptr;
  std::int64_t slots = 0;
  int n = 0;
  RecordFormat format = RecordFormat::f32;
  std::byte* at(std::int64_t position) const noexcept {
    return base + static_cast<std::size_t>(position % slots) * record_bytes(format, n);
  }
};

inline constexpr int page_entries = 64;

// Entries by number through a page table: entry j lives in page pages[j / 64].
struct PagedRecords {
  std::byte* pool = nullptr;
  const std::int32_t* pages = nullptr;  // for the host
  int n = 0;
  RecordFormat format = RecordFormat::f32;
  const std::int32_t* pages_in_memory = nullptr;  // the same table where the operations read; null in host memory
  std::byte* at(std::int64_t entry) const noexcept {
    const std::size_t bytes = record_bytes(format, n);
    const auto page = static_cast<std::size_t>(pages[entry / page_entries]);
    return pool + (page * page_entries + static_cast<std::size_t>(entry % page_entries)) * bytes;
  }
};

}  // namespace tandem::gpu
