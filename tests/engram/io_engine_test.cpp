// A read that the kernel refuses fails its batch by name, in both engines, and the engine works on; without a ring
// threads read.
#include "engram/io_engine.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <thread>

#include "engram/storage.hpp"
#include "tests/engram/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::engram;

namespace {

// A folder opened like a file: every read of it fails in the kernel (EISDIR), however it is submitted.
class UnreadableFile final : public InputFile {
 public:
  explicit UnreadableFile(const std::filesystem::path& folder)
      : name_(folder.string()), descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  UnreadableFile(const UnreadableFile&) = delete;
  UnreadableFile& operator=(const UnreadableFile&) = delete;
  ~UnreadableFile() override { ::close(descriptor_); }
  const std::string& name() const noexcept override { return name_; }
  std::uint64_t size() const noexcept override { return 1 << 20; }
  std::size_t alignment() const noexcept override { return 1; }
  int descriptor() const noexcept override { return descriptor_; }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0) return Error{ErrorCode::io, name_, "refused by the kernel", ""};
    return static_cast<std::size_t>(got);
  }

 private:
  std::string name_;
  int descriptor_;
};

std::vector<std::unique_ptr<IoEngine>> engines() {
  std::vector<std::unique_ptr<IoEngine>> all;
  all.push_back(make_pread_engine(3));
  auto uring = make_uring_engine(4);
  if (uring) all.push_back(std::move(*uring));
  if (!uring) BOOST_TEST_MESSAGE("no io_uring here: only the pool of threads is tested");
  return all;
}

// Refuses new rings to the calling thread and the threads that it starts, as containers do; false where the kernel
// knows no such filters. (A limit on descriptors would refuse them too, but UBSan's checks need some of their own.)
bool refuse_rings() {
  std::array filter{
      sock_filter(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))),
      sock_filter(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1)),
      sock_filter(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)),
      sock_filter(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)),
  };
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(io_engine)

BOOST_AUTO_TEST_CASE(one_refused_read_fails_its_batch_by_name_and_the_next_batch_works) {
  const test::TemporaryFolder folder;
  const std::vector<std::byte> content(100'000, std::byte{7});
  const auto good = open_buffered(folder.write("good.bin", content));
  BOOST_REQUIRE(good.has_value());
  const UnreadableFile bad(folder.path());
  for (const auto& engine : engines()) {
    BOOST_TEST_CONTEXT(engine->name()) {
      std::vector<ReadRequest> requests;
      for (std::uint64_t i = 0; i < 20; ++i) requests.push_back({good->get(), i * 4096, 4096, 4096});
      std::atomic<int> arrived = 0;
      const auto count = [&](std::size_t, std::span<const std::byte> bytes) {
        arrived += bytes.size() == 4096 && bytes[0] == std::byte{7} ? 1 : 0;
      };
      for (const std::size_t place : {std::size_t{0}, std::size_t{10}, std::size_t{19}}) {
        auto spoiled = requests;
        spoiled[place].file = &bad;
        const auto failed = engine->run(spoiled, count);
        BOOST_REQUIRE(!failed);
        BOOST_TEST((failed.error().code == ErrorCode::io));
        BOOST_TEST(failed.error().where == bad.name());
      }
      arrived = 0;
      BOOST_TEST(engine->run(requests, count).has_value());
      BOOST_TEST(arrived == 20);
      BOOST_TEST(engine->run({}, count).has_value());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_read_beyond_the_end_is_a_short_read_and_says_where) {
  const test::TemporaryFolder folder;
  const auto file = open_buffered(folder.write("short.bin", std::vector<std::byte>(5000)));
  BOOST_REQUIRE(file.has_value());
  for (const auto& engine : engines()) {
    const std::vector<ReadRequest> requests{{file->get(), 4096, 4096, 905}};
    const auto failed = engine->run(requests, [](std::size_t, std::span<const std::byte>) {});
    BOOST_REQUIRE(!failed);
    BOOST_TEST((failed.error().code == ErrorCode::io));
    BOOST_TEST(failed.error().found == "short read at 4096: 904 bytes");
    const std::vector<ReadRequest> enough{{file->get(), 4096, 4096, 904}};
    BOOST_TEST(engine->run(enough, [](std::size_t, std::span<const std::byte>) {}).has_value());
  }
}

BOOST_AUTO_TEST_CASE(where_the_kernel_gives_no_ring_threads_read_and_it_is_said_once) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("good.bin", std::vector<std::byte>(8192, std::byte{7}));
  int said = 0;
  StorageOptions options;
  options.threads = 5;
  options.announce = [&](const std::string& text) {
    said += text.find("io_uring") != std::string::npos && text.find("5 threads") != std::string::npos ? 1 : 0;
  };
  bool is_refused = false;
  std::unique_ptr<Storage> storage;
  std::thread([&] {
    is_refused = refuse_rings();
    storage = std::make_unique<Storage>(options);
  }).join();
  BOOST_REQUIRE(is_refused);
  BOOST_TEST(storage->engine().name() == std::string("pread"));
  for (int round = 0; round < 2; ++round) {
    const auto file = storage->open(path);
    BOOST_REQUIRE(file.has_value());
    const ReadRequest request{file->get(), 4096, 4096, 4096};
    bool is_right = false;
    const auto look = [&](std::size_t, std::span<const std::byte> bytes) { is_right = bytes.back() == std::byte{7}; };
    BOOST_TEST(storage->engine().run({&request, 1}, look).has_value());
    BOOST_TEST(is_right);
  }
  BOOST_TEST(said == 1);
}

BOOST_AUTO_TEST_SUITE_END()
