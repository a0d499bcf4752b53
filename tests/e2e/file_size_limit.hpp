// A disk that is full after so many bytes of a file, for a process that is started meanwhile.
#pragma once

#include <sys/resource.h>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdint>

namespace tandem::test {

// While it lives, a process that is started cannot make any file larger than `bytes`: its writes fail as on a full
// disk. This process must write no large file meanwhile.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);  // an ignored signal stays so in a started process
    BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

}  // namespace tandem::test
