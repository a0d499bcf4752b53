// How much memory this process held at most since a moment: what the kernel counted as resident, allocators and stacks
// included. Nothing to go by under a sanitizer, which keeps what was freed.
#pragma once

#include <malloc.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <fstream>
#include <string>

namespace tandem::gpu::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif
#else
inline constexpr bool is_sanitized = false;
#endif

class PeakMemory {
 public:
  PeakMemory() {
    ::malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
    before_ = kib_of("VmRSS:");
    is_known_ = !is_sanitized && before_ > 0 && kib_of("VmHWM:") < before_ + 1024;
  }
  // Whether there is anything to compare here; says so otherwise.
  bool is_known() const {
    if (!is_known_) BOOST_TEST_MESSAGE("skipped: the peak of memory cannot be told here");
    return is_known_;
  }
  // Bytes above those of the beginning.
  std::int64_t most() const { return (kib_of("VmHWM:") - before_) * 1024; }

 private:
  static std::int64_t kib_of(const std::string& name) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      std::int64_t kib = 0;
      if (word == name && status >> kib) return kib;
    }
    return 0;
  }

  std::int64_t before_ = 0;
  bool is_known_ = false;
};

}  // namespace tandem::gpu::test
