// A tensor is read whole; the embedding is the largest.
#include "gpu/exl3/native_tensors.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <set>

#include "gpu/checkpoint/safetensors_writer.hpp"
#include "gpu/exl3/pack_shard.hpp"
#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu::exl3 {
namespace {

constexpr std::uint64_t shard_bytes_max = std::uint64_t{1} << 30;

struct Native {
  DType dtype = DType::f32;
  std::vector<std::byte> bytes;
};

// BF16 values as F16, or nothing if one of them would change.
std::vector<std::byte> exact_halves(const std::vector<std::byte>& bytes) {
  std::vector<std::byte> halves(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += 2) {
    std::uint16_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    const float number = bf16_to_float(value);
    const std::uint16_t half = float_to_f16(number);
    if (!(f16_to_float(half) == number)) return {};
    std::memcpy(halves.data() + at, &half, sizeof half);
  }
  return halves;
}

Result<Native> read_native(const TensorPlace& place) {
  auto bytes = place.shard->read_all(place.entry->name);
  if (!bytes) return bytes.error();
  if (place.entry->dtype != DType::bf16) return Native{place.entry->dtype, std::move(*bytes)};
  std::vector<std::byte> halves = exact_halves(*bytes);
  if (halves.empty()) return Native{DType::bf16, std::move(*bytes)};
  return Native{DType::f16, std::move(halves)};
}

Result<void> write_shard(const std::filesystem::path& path, std::span<const TensorPlace* const> tensors,
                         const PackJob& job) {
  const auto exists = is_pack_shard_of(path, job.identity);
  if (!exists) return exists.error();
  if (*exists) return {};
  std::vector<Native> natives;
  std::vector<TensorData> data;
  for (const TensorPlace* place : tensors) {
    if (job.is_stopped()) return job.stopped();
    auto native = read_native(*place);
    if (!native) return native.error();
    natives.push_back(std::move(*native));
    data.push_back({place->entry->name, natives.back().dtype, place->entry->shape, natives.back().bytes});
  }
  return write_safetensors(path, data, shard_metadata(job.identity));
}

}  // namespace

NativeList list_natives(const PackJob& job) {
  std::set<std::string, std::less<>> left_out;
  for (const PackMatrix& matrix : job.plan.matrices) {
    left_out.insert(matrix.source + ".weight");
    left_out.insert(matrix.source + ".scale");
  }
  for (const ExpectedTensor& tensor : job.inventory) {
    if (tensor.group != TensorGroup::engram_table) continue;
    left_out.insert(tensor.name);
    left_out.insert(tensor.scale_name());
  }
  NativeList list;
  for (const auto& [name, place] : job.checkpoint.tensors()) {
    if (left_out.contains(name)) continue;
    list.tensors.push_back(&place);
    list.bytes += place.entry->bytes;
  }
  return list;
}

Result<std::vector<std::string>> write_natives(const PackJob& job) {
  const NativeList list = list_natives(job);
  std::vector<std::string> files;
  for (std::size_t first = 0; first < list.tensors.size();) {
    std::size_t last = first;
    std::uint64_t bytes = 0;
    while (last < list.tensors.size() && (last == first || bytes + list.tensors[last]->entry->bytes <= shard_bytes_max))
      bytes += list.tensors[last++]->entry->bytes;
    files.push_back(fmt::format("native-{:05}.safetensors", files.size() + 1));
    const auto part = std::span(list.tensors).subspan(first, last - first);
    if (auto ok = write_shard(job.options.out / files.back(), part, job); !ok) return ok.error();
    first = last;
  }
  return files;
}

}  // namespace tandem::gpu::exl3
