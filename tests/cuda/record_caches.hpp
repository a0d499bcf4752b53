// Caches and rings of random records, the same on both sides.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/cuda/device_fixture.hpp"

namespace tandem::gpu::test {

// Gives every 32 values a power of two of their own, 2^-octaves to 2^octaves.
inline Floats with_wild_scales(Random& random, Floats values, int octaves) {
  float scale = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 32 == 0) scale = std::ldexp(1.0F, static_cast<int>(random.below(2 * octaves + 1)) - octaves);
    values[i] *= scale;
  }
  return values;
}

// A paged cache; its pages lie in reverse order.
struct Cache {
  Cache(Random& random, RecordFormat format, int n, int entries, int octaves = 0) : bytes(record_bytes(format, n)) {
    const int count = (entries + page_entries - 1) / page_entries;
    for (int p = 0; p < count; ++p) pages.push_back(count - 1 - p);
    host = Buffer::host(static_cast<std::size_t>(std::max(count, 1) * page_entries) * bytes);
    plain = {host.data.get(), pages.data(), n, format, nullptr};
    for (int j = 0; j < entries; ++j) {
      const Floats values = random.floats(n);
      write_record(format, octaves > 0 ? with_wild_scales(random, values, octaves) : values, plain.at(j));
    }
    device = copy_of(host);
    Memory& memory = backends().cuda->memory();
    memory.place(device);
    placed_pages = memory.allocate(std::max<std::size_t>(pages.size(), 1) * sizeof(std::int32_t));
    memory.upload(std::as_bytes(std::span(pages)), placed_pages.data.get());
    on_device = {device.data.get(), pages.data(), n, format, placed_pages.as<std::int32_t>()};
  }
  std::size_t bytes;
  std::vector<std::int32_t> pages;
  Buffer host, device, placed_pages;
  PagedRecords plain, on_device;
};

struct Ring {
  Ring(Random& random, RecordFormat format, int n, int slots) {
    host = Buffer::host(static_cast<std::size_t>(slots) * record_bytes(format, n));
    plain = {host.data.get(), slots, n, format};
    for (int s = 0; s < slots; ++s) write_record(format, random.floats(n), plain.at(s));
    device = copy_of(host);
    backends().cuda->memory().place(device);
    on_device = plain;
    on_device.base = device.data.get();
  }
  Buffer host, device;
  RecordRing plain, on_device;
};

}  // namespace tandem::gpu::test
