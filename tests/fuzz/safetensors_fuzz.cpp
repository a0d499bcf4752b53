// Fuzzes what is read of a checkpoint before a tensor is believed: the header of a safetensors file and the index of
// shards.
//
// A header that is accepted must describe a file without holes: what its entries say is added up again here, by a
// plainer rule. The first byte of the input chooses: 'i' index, 'f' a whole file, anything else the JSON of a header
// whose data have as many bytes as the next two bytes say.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/checkpoint/index.hpp"
#include "gpu/checkpoint/safetensors.hpp"
#include "tests/fuzz/memory_source.hpp"

namespace {

using namespace tandem;
using namespace tandem::gpu;
using fuzz::MemorySource;
using fuzz::require;

// Every byte of [data_start, file_bytes) belongs to exactly one tensor, whose size is that of its shape.
void check_entries(std::span<const TensorEntry> tensors, std::uint64_t data_start, std::uint64_t file_bytes) {
  std::uint64_t sum = data_start;
  std::set<std::string> names;
  std::set<std::uint64_t> ends{data_start};
  for (const TensorEntry& entry : tensors) {
    require(names.insert(entry.name).second && *names.rbegin() == entry.name);
    std::uint64_t bytes = element_bytes(entry.dtype);
    for (const std::int64_t dim : entry.shape) {
      require(dim >= 0);
      bytes *= static_cast<std::uint64_t>(dim);
    }
    require(bytes == entry.bytes && entry.offset >= data_start && entry.offset + entry.bytes <= file_bytes);
    require(!describe(entry.dtype, entry.shape).empty());
    ends.insert(entry.offset + entry.bytes);
    sum += bytes;
  }
  require(sum == file_bytes);
  for (const TensorEntry& entry : tensors) require(ends.contains(entry.offset));
}

void check_header(std::string_view json, std::uint64_t data_bytes) {
  const std::uint64_t data_start = 8 + json.size();
  const auto header = parse_safetensors_header({json, "fuzz", data_start, data_start + data_bytes});
  if (!header) return require(!header.error().message().empty());
  check_entries(header->tensors, data_start, data_start + data_bytes);
}

void check_file(std::span<const std::uint8_t> bytes) {
  const auto file = SafetensorsFile::open("fuzz", [&](const auto&) -> Result<std::unique_ptr<ByteSource>> {
    return std::unique_ptr<ByteSource>(std::make_unique<MemorySource>(std::as_bytes(bytes)));
  });
  if (!file) return;
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | bytes[i];
  check_entries(file->tensors(), 8 + length, bytes.size());
  for (const TensorEntry& entry : file->tensors()) {
    require(file->find(entry.name) == &entry);
    const auto all = file->read_all(entry.name);
    require(all.has_value() && all->size() == entry.bytes);
    std::byte one{};
    require(!file->read(entry, entry.bytes, {&one, 1}));
    require(!file->read(entry, ~std::uint64_t{0}, {&one, 1}));
  }
}

void check_index(std::string_view json) {
  const auto index = parse_shard_index(json, "fuzz");
  if (!index) return require(index.error().code == ErrorCode::bad_format);
  require(!index->tensors.empty() && std::is_sorted(index->shards.begin(), index->shards.end()));
  std::set<std::size_t> used;
  for (const auto& [name, shard] : index->tensors) {
    require(shard < index->shards.size());
    used.insert(shard);
  }
  require(used.size() == index->shards.size());
  for (const std::string& shard : index->shards) {
    require(shard.find('/') == std::string::npos && shard.front() != '.' && shard.ends_with(".safetensors"));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  const auto text = [](std::span<const std::uint8_t> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  if (data[0] == 'i') {
    check_index(text(rest));
  } else if (data[0] == 'f') {
    check_file(rest);
  } else {
    check_header(text(rest.subspan(2)), rest[0] + 256U * rest[1]);
  }
  return 0;
}
