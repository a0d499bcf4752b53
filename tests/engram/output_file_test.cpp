// A file under construction on a disk that fills up: the space that could be had is given back with the refusal.
#include "engram/pack/output_file.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cerrno>

#include "tests/engram/temporary_folder.hpp"

namespace {

bool is_disk_full = false;

}  // namespace

// Stands before the C library's own. A full disk: half of the space is taken, then there is no more, as ext4 does it.
extern "C" int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  const off_t granted = is_disk_full ? bytes / 2 : bytes;
  const auto result = static_cast<int>(::syscall(SYS_fallocate, descriptor, mode, offset, granted));
  if (!is_disk_full) return result;
  errno = ENOSPC;
  return -1;
}

namespace tandem::engram {

BOOST_AUTO_TEST_SUITE(engram_output_file)

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

struct FullDisk {
  FullDisk() { is_disk_full = true; }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() { is_disk_full = false; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_that_does_not_fit_takes_no_space) {
  const test::TemporaryFolder folder;
  auto part = OutputFile::open(folder.path() / "part").value();
  const FullDisk full;
  const auto refused = part.resize(8 * mib);
  BOOST_TEST((refused.error().code == ErrorCode::resource));
  BOOST_TEST(part.extent()->bytes == 0U);
  BOOST_TEST(part.extent()->allocated == 0U);
}

BOOST_AUTO_TEST_CASE(a_file_has_one_writer_and_a_new_one_after_its_name_was_given_away) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "part";
  const auto first = OutputFile::open(path).value();
  BOOST_TEST((OutputFile::open(path).error().code == ErrorCode::unavailable));
  std::filesystem::remove(path);
  const auto second = OutputFile::open(path);
  BOOST_TEST(second.has_value());
  BOOST_TEST((OutputFile::open(path).error().code == ErrorCode::unavailable));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_grow_keeps_what_it_had) {
  const test::TemporaryFolder folder;
  auto part = OutputFile::open(folder.path() / "part").value();
  BOOST_REQUIRE(part.resize(mib));
  const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  BOOST_REQUIRE(part.write_at(mib - bytes.size(), bytes));
  BOOST_REQUIRE(part.sync());
  {
    const FullDisk full;
    BOOST_TEST(!part.resize(8 * mib).has_value());
  }
  BOOST_TEST(part.extent()->bytes == mib);
  BOOST_TEST(part.extent()->allocated <= mib);
  BOOST_TEST(part.resize(2 * mib).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::engram
