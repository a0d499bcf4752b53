// What the guard reads from /proc, against files of our own.
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <fstream>

#include "actors/memory_guard.hpp"

using namespace tandem::actors;
namespace fs = std::filesystem;

namespace {

struct FakeProc {
  fs::path folder = fs::temp_directory_path() / ("tandem-proc-" + std::to_string(::getpid()));
  FakeProc() { fs::create_directories(folder / "self"); }
  ~FakeProc() { fs::remove_all(folder); }
  void write(const char* name, const std::string& text) const { std::ofstream{folder / name} << text; }
  tandem::Result<MemorySample> sample() const {
    MemoryGuardOptions options;
    options.proc = folder;
    return sample_memory(options);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_guard)

BOOST_AUTO_TEST_CASE(levels_follow_what_is_available) {
  FakeProc proc;
  proc.write("self/status", "Name: x\nVmRSS:      1234 kB\n");
  for (const auto& [kib, level] :
       {std::pair{4194304, "ok"}, {3145728, "ok"}, {3145727, "low"}, {1048576, "low"}, {1048575, "critical"}}) {
    proc.write("meminfo", "MemTotal: 8388608 kB\nMemAvailable: " + std::to_string(kib) + " kB\n");
    const auto sample = proc.sample();
    BOOST_REQUIRE(sample.has_value());
    BOOST_TEST(sample->level == level);
    BOOST_TEST(sample->rss_bytes == 1234U * 1024);
  }
}

BOOST_AUTO_TEST_CASE(missing_and_broken_files_are_named) {
  FakeProc proc;
  BOOST_TEST((proc.sample().error().code == tandem::ErrorCode::io));
  for (const char* text : {"", "MemTotal: 5 kB\n", "MemTotal: x kB\nMemAvailable: 1 kB\n"}) {
    proc.write("meminfo", text);
    const auto sample = proc.sample();
    BOOST_REQUIRE(sample.has_error());
    BOOST_TEST((sample.error().code == tandem::ErrorCode::bad_format));
    BOOST_TEST(sample.error().where.find("meminfo") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(this_machine_can_be_sampled) {
  const auto sample = sample_memory({});
  BOOST_REQUIRE(sample.has_value());
  BOOST_TEST(sample->total_bytes >= sample->available_bytes);
  BOOST_TEST(sample->rss_bytes > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
