// The pinned areas and their device twins.
#include "gpu/cuda/staging.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace tandem::gpu::cuda {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t step_bytes = std::size_t{4} << 20;  // 64 rows of 40 layers name some 2 MiB of addresses

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

std::shared_ptr<std::byte> pinned_memory(Stream& stream, std::size_t bytes) {
  void* pinned = nullptr;
  stream.check(cudaMallocHost(&pinned, bytes), "pinned staging memory");
  if (pinned == nullptr) return nullptr;
  return {static_cast<std::byte*>(pinned), [](std::byte* area) { cudaFreeHost(area); }};
}

std::shared_ptr<std::byte> device_memory(Stream& stream, std::size_t bytes) {
  void* device = nullptr;
  stream.check(cudaMalloc(&device, bytes), "device staging memory");
  if (device == nullptr) return nullptr;
  return {static_cast<std::byte*>(device), [](std::byte* area) { cudaFree(area); }};
}

std::shared_ptr<CUevent_st> event(Stream& stream) {
  cudaEvent_t made = nullptr;
  stream.check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "event");
  if (made == nullptr) return nullptr;
  return {made, [](cudaEvent_t one) { cudaEventDestroy(one); }};
}

cudaError_t copy_inside(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

}  // namespace

Staging::Staging(Stream& stream, std::size_t bytes) : stream_(stream), bytes_(bytes) {
  pinned_ = pinned_memory(stream_, bytes);
  device_ = device_memory(stream_, bytes);
  for (StepHalf& half : halves_) half = {pinned_memory(stream_, step_bytes), event(stream_)};
  step_device_ = device_memory(stream_, step_bytes);
}

std::size_t Staging::take(std::size_t bytes) {
  const std::size_t size = aligned(bytes);
  if (used_ + size > bytes_) {
    (void)stream_.wait();  // keeps a failure itself
    used_ = 0;
  }
  const std::size_t offset = used_;
  used_ += size;
  return offset;
}

const void* Staging::send_bytes(std::span<const std::byte> bytes) {
  if (bytes.empty() || !stream_.is_sound()) return nullptr;
  if (is_collecting_) return collect(bytes);
  if (bytes.size() > bytes_) {
    stream_.fail({ErrorCode::resource, "staging area", std::to_string(bytes.size()) + " bytes in one list",
                  "at most " + std::to_string(bytes_)});
    return nullptr;
  }
  const std::size_t offset = take(bytes.size());
  std::byte* to = device_.get() + offset;
  std::memcpy(pinned_.get() + offset, bytes.data(), bytes.size());
  stream_.check(cudaMemcpyAsync(to, pinned_.get() + offset, bytes.size(), cudaMemcpyHostToDevice, stream_.handle()),
                "staging");
  return to;
}

const void* Staging::collect(std::span<const std::byte> bytes) {
  is_too_much_ = is_too_much_ || step_used_ + bytes.size() > step_bytes;
  if (is_too_much_) return nullptr;
  const std::size_t offset = step_used_;
  if (expects_late_) note_late(bytes, offset);
  std::memcpy(halves_[half_].pinned.get() + offset, bytes.data(), bytes.size());
  step_used_ += aligned(bytes.size());
  return step_device_.get() + offset;
}

void Staging::send_to(std::span<const std::byte> bytes, void* to) {
  if (is_collecting_) {
    if (!bytes.empty()) stream_.run("upload", copy_inside, to, send_bytes(bytes), bytes.size());
    return;
  }
  auto* place = static_cast<std::byte*>(to);
  while (!bytes.empty() && stream_.is_sound()) {
    const auto part = bytes.first(std::min(bytes.size(), bytes_ / 4));
    const std::size_t offset = take(part.size());
    std::memcpy(pinned_.get() + offset, part.data(), part.size());
    stream_.check(cudaMemcpyAsync(place, pinned_.get() + offset, part.size(), cudaMemcpyHostToDevice, stream_.handle()),
                  "upload");
    place += part.size();
    bytes = bytes.subspan(part.size());
  }
}

void Staging::begin_step() {
  if (!stream_.is_sound()) return;
  stream_.check(cudaEventSynchronize(halves_[half_].is_free.get()), "waiting for a staging half");
  step_used_ = step_sent_ = 0;
  for (LateList& list : late_) list.times = 0;
  is_too_much_ = false;
  is_collecting_ = true;
}

void Staging::expect(std::span<const std::span<const std::byte>> late) {
  expects_late_ = !late.empty();
  if (!expects_late_) return;
  late_.clear();
  for (const auto place : late) late_.push_back({place});
}

void Staging::note_late(std::span<const std::byte> bytes, std::size_t offset) noexcept {
  for (LateList& list : late_) {
    if (bytes.data() != list.place.data() || bytes.size() != list.place.size()) continue;
    list.offset = offset;
    ++list.times;
  }
}

bool Staging::has_late() const noexcept {
  return std::all_of(late_.begin(), late_.end(), [](const LateList& list) { return list.times == 1; });
}

bool Staging::tell_late(std::span<const std::span<const std::byte>> contents) noexcept {
  const auto same_size = [](const LateList& list, std::span<const std::byte> one) {
    return list.place.size() == one.size();
  };
  if (step_sent_ > 0 || !has_late()) return false;
  if (!std::equal(late_.begin(), late_.end(), contents.begin(), contents.end(), same_size)) return false;
  for (std::size_t i = 0; i < late_.size(); ++i) {
    std::memcpy(halves_[half_].pinned.get() + late_[i].offset, contents[i].data(), contents[i].size());
  }
  return true;
}

bool Staging::end_step() noexcept {
  is_collecting_ = false;
  return !is_too_much_;
}

void Staging::send_step() {
  const std::size_t from = step_sent_, end = std::min(step_used_, step_bytes);
  step_sent_ = end;
  if (from >= end || !stream_.is_sound()) return;
  stream_.check(cudaMemcpyAsync(step_device_.get() + from, halves_[half_].pinned.get() + from, end - from,
                                cudaMemcpyHostToDevice, stream_.handle()),
                "staging of a step");
}

void Staging::free_step() {
  if (!stream_.is_sound()) return;
  stream_.check(cudaEventRecord(halves_[half_].is_free.get(), stream_.handle()), "end of a step");
  half_ = 1 - half_;
}

}  // namespace tandem::gpu::cuda
