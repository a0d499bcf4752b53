// Staging: how small host arrays reach kernels in stream order.
//
// A span is copied to pinned memory at once (the caller's copy may then change) and from there to its device twin at
// the same offset. When the area is full the stream is waited for and the area starts over; it is sized so that a step
// fits.
//
// While a step is walked (step_graphs.hpp) spans only collect, from offset 0 of an area of its own, and go to the
// device together in front of the step's graph. Two pinned halves take turns, so that a step may be walked while the
// one before it runs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gpu/cuda/stream.hpp"

namespace tandem::gpu::cuda {

class Staging {
 public:
  // `stream` must outlive this. Failures are kept by the stream.
  Staging(Stream& stream, std::size_t bytes);

  std::size_t capacity() const noexcept { return bytes_; }

  // Returns where kernels launched from now on find the values; null if there are none or on failure.
  template <class T>
  const T* send(std::span<const T> values) {
    return static_cast<const T*>(send_bytes(std::as_bytes(values)));
  }
  // Copies bytes of any length to `to`, in stream order.
  void send_to(std::span<const std::byte> bytes, void* to);

  // From here to end_step() spans collect. Waits until the half of the step before the last one is free.
  void begin_step();
  // Returns false if the step had more bytes than a half.
  bool end_step() noexcept;
  // The contents of the lists at these places will be told after a step has collected them: it must be told of them
  // before, until `expect({})`.
  void expect(std::span<const std::span<const std::byte>> late);
  // Whether the step has collected each of them once.
  bool has_late() const noexcept;
  // Tells the contents, before anything of the step is sent. Returns false if those are not its late lists.
  bool tell_late(std::span<const std::span<const std::byte>> contents) noexcept;
  // Whether everything since begin_step() had room.
  bool fits() const noexcept { return !is_too_much_; }
  // Sends what the step has collected since the last call, before what reads it is launched; free_step() follows the
  // last launch.
  void send_step();
  void free_step();

 private:
  struct StepHalf {
    std::shared_ptr<std::byte> pinned;
    std::shared_ptr<CUevent_st> is_free;
  };
  struct LateList {
    std::span<const std::byte> place;
    std::size_t offset = 0;
    int times = 0;  // collected
  };
  const void* send_bytes(std::span<const std::byte> bytes);
  const void* collect(std::span<const std::byte> bytes);
  void note_late(std::span<const std::byte> bytes, std::size_t offset) noexcept;
  // Returns the offset of `bytes` bytes of the area.
  std::size_t take(std::size_t bytes);

  Stream& stream_;
  std::size_t bytes_;
  std::size_t used_ = 0;
  std::shared_ptr<std::byte> pinned_;
  std::shared_ptr<std::byte> device_;

  StepHalf halves_[2];
  std::shared_ptr<std::byte> step_device_;
  int half_ = 0;
  std::size_t step_used_ = 0, step_sent_ = 0;
  std::vector<LateList> late_;
  bool expects_late_ = false;
  bool is_collecting_ = false;
  bool is_too_much_ = false;
};

}  // namespace tandem::gpu::cuda
