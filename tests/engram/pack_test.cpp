// Packing gives the source's rows whatever kills it on the way, never a half file under the final name, and says why it
// cannot.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>

#include "engram/pack/open_table.hpp"
#include "engram/pack/packer.hpp"
#include "tests/engram/table_fixture.hpp"

using namespace tandem;
using namespace tandem::engram;
using test::KnownTable;

BOOST_AUTO_TEST_SUITE(pack)

namespace {

constexpr int head_dim = 64;
constexpr std::int64_t rows = 1000, first_row = 130, last_row = 931;

// Packing flushes often; where flushing costs nothing, hundreds of crashes are tried in a second.
std::filesystem::path fast_folder() {
  const std::filesystem::path memory = "/dev/shm";
  return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
}

struct Setup {
  test::TemporaryFolder folder{fast_folder()};
  KnownTable table{rows, head_dim};
  PackJob job{table.write_shard(folder, 777), {3, {{head_dim}, rows, first_row, last_row}}, folder.path() / "out.bin"};
  PackOptions options = small_steps();
  std::vector<std::string> said;

  Setup() {
    options.announce = [this](const std::string& text) { said.push_back(text); };
  }

  // 17 blocks, flushed every second one, one worker: the same order every time.
  static PackOptions small_steps() {
    PackOptions options;
    options.threads = 1;
    options.block_rows = 50;
    options.blocks_per_sync = 2;
    return options;
  }

  static std::shared_ptr<Storage> storage(std::shared_ptr<test::FaultPlan> plan = nullptr) {
    StorageOptions options;
    options.uring = false;
    options.direct = false;
    options.threads = 1;
    if (plan) options.open_file = test::failing_opener(std::move(plan));
    return std::make_shared<Storage>(options);
  }

  Result<PackOutcome> pack() { return pack_table(job, options, storage()); }
  bool is_there() const { return std::filesystem::exists(job.out); }

  std::string packed_bytes() const {
    std::ifstream file(job.out, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // What another program that writes this format would have made.
  std::string expected_bytes() const {
    PackedTable header;
    std::ifstream file(table.write_packed(folder, first_row, last_row, header, 3), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void require_right() const { BOOST_REQUIRE((packed_bytes() == expected_bytes())); }
};

// Runs `work` in a child process and returns how that ended.
template <class Work>
int status_of_child(Work work) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) ::_exit(work());
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_packed_file_has_exactly_the_bytes_of_the_format) {
  for (const int threads : {1, 4}) {
    for (const std::int64_t block_rows : {1, 50, 800, 801, 100'000}) {
      Setup s;
      s.options.threads = threads;
      s.options.block_rows = block_rows;
      const auto packed = s.pack();
      BOOST_REQUIRE_MESSAGE(packed.has_value(), (packed ? "" : packed.error().message()));
      s.require_right();
      BOOST_TEST(packed->bytes == s.packed_bytes().size());
      BOOST_TEST(packed->bytes_resumed == 0U);
      BOOST_TEST(!std::filesystem::exists(s.job.out.string() + ".part"));
      BOOST_TEST(!std::filesystem::exists(s.job.out.string() + ".part.journal"));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_million_random_ids_give_the_same_rows_packed_and_from_the_shards) {
  Setup s;
  BOOST_REQUIRE(s.pack().has_value());
  const auto storage = std::make_shared<Storage>();
  auto packed = open_packed_store(s.job.out, s.job.table, storage);
  auto source = open_shard_store(s.job.source, storage);
  BOOST_REQUIRE((packed.has_value() && source.has_value()));
  std::mt19937 random(11);
  std::vector<RowId> ids(50'000);
  std::vector<E4m3> ours(ids.size() * head_dim), theirs(ours.size());
  std::vector<E8m0> our_scales(ids.size() * head_dim / scale_columns), their_scales(our_scales.size());
  for (int batch = 0; batch < 20; ++batch) {
    for (RowId& id : ids) id = RowId{static_cast<std::int32_t>(first_row + random() % (last_row - first_row))};
    BOOST_REQUIRE((*packed)->read(ids, {ours, our_scales}).has_value());
    BOOST_REQUIRE((*source)->read(ids, {theirs, their_scales}).has_value());
    BOOST_REQUIRE((ours == theirs && our_scales == their_scales));
  }
}

BOOST_AUTO_TEST_CASE(tables_of_one_row_can_be_packed) {
  const test::TemporaryFolder folder;
  const KnownTable table(1, 32);
  const PackJob job{table.write_shard(folder, 0), {1, {{32}, 1, 0, 1}}, folder.path() / "out.bin"};
  BOOST_REQUIRE(pack_table(job, {}, Setup::storage()).has_value());
  auto store = open_packed_store(job.out, job.table, Setup::storage());
  BOOST_REQUIRE(store.has_value());
  BOOST_TEST(test::read_and_compare(**store, table, {RowId{0}}).has_value());
}

BOOST_AUTO_TEST_CASE(what_is_packed_is_not_packed_again_unless_forced) {
  Setup s;
  BOOST_REQUIRE(s.pack().has_value());
  BOOST_TEST(bytes_missing(s.job) == 0U);
  BOOST_TEST(s.pack()->was_there);
  s.options.is_forced = true;
  BOOST_TEST(!s.pack()->was_there);
  s.require_right();
}

BOOST_AUTO_TEST_CASE(a_file_of_another_model_is_replaced) {
  Setup s;
  BOOST_REQUIRE(s.pack().has_value());
  s.table = KnownTable(rows, head_dim, 99);
  s.table.write_shard(s.folder, 777);
  const auto packed = s.pack();
  BOOST_REQUIRE(packed.has_value());
  BOOST_TEST(!packed->was_there);
  s.require_right();
}

BOOST_AUTO_TEST_CASE(killed_at_any_read_the_next_call_finishes_with_the_same_bytes) {
  int resumed = 0;
  for (int n = 0;; ++n) {
    Setup s;
    const auto plan = std::make_shared<test::FaultPlan>();
    plan->kind = test::FaultPlan::Kind::kill;
    plan->fail_at = n;
    const int status =
        status_of_child([&] { return pack_table(s.job, s.options, Setup::storage(plan)).has_value() ? 0 : 1; });
    const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    BOOST_TEST(s.is_there() == !was_killed);
    if (!was_killed) {
      BOOST_TEST(WEXITSTATUS(status) == 0);
      BOOST_TEST(n > 50);  // fingerprint, 17 blocks twice and their verification were among the reads
      break;
    }
    const auto packed = s.pack();
    BOOST_REQUIRE_MESSAGE(packed.has_value(), (packed ? "" : packed.error().message()));
    s.require_right();
    resumed += packed->bytes_resumed > 0 ? 1 : 0;
  }
  BOOST_TEST(resumed > 30);
}

BOOST_AUTO_TEST_CASE(killed_again_and_again_it_still_ends) {
  Setup s;
  int runs = 0;
  for (bool is_done = false; !is_done; ++runs) {
    BOOST_REQUIRE(runs < 100);
    s.options.progress = [calls = 0](const PackProgress&) mutable {
      if (++calls == 2) ::kill(::getpid(), SIGKILL);
      return true;
    };
    const int status = status_of_child([&] { return s.pack().has_value() ? 0 : 1; });
    is_done = !WIFSIGNALED(status);
    BOOST_TEST(s.is_there() == is_done);
  }
  BOOST_TEST(runs > 3);
  s.require_right();
}

BOOST_AUTO_TEST_CASE(a_journal_with_a_cut_line_or_of_another_job_is_not_believed) {
  Setup s;
  const auto stop_early = [calls = 0](const PackProgress&) mutable { return ++calls < 4; };
  const auto journal = s.job.out.string() + ".part.journal";
  s.options.progress = stop_early;
  BOOST_TEST((s.pack().error().code == ErrorCode::cancelled));
  BOOST_TEST(!s.is_there());
  const auto bytes = std::filesystem::file_size(journal);
  std::filesystem::resize_file(journal, bytes - 3);
  s.options.progress = nullptr;
  const auto resumed = s.pack();
  BOOST_REQUIRE(resumed.has_value());
  BOOST_TEST(resumed->bytes_resumed > 0U);
  s.require_right();

  Setup other;
  other.options.progress = stop_early;
  BOOST_TEST((other.pack().error().code == ErrorCode::cancelled));
  other.options.progress = nullptr;
  other.options.block_rows = 51;
  const auto afresh = other.pack();
  BOOST_REQUIRE(afresh.has_value());
  BOOST_TEST(afresh->bytes_resumed == 0U);
  other.require_right();
}

BOOST_AUTO_TEST_CASE(finished_blocks_that_were_lost_are_found_before_the_file_appears) {
  Setup s;
  s.options.progress = [calls = 0](const PackProgress&) mutable { return ++calls < 4; };
  BOOST_TEST((s.pack().error().code == ErrorCode::cancelled));
  const std::string part = s.job.out.string() + ".part";
  const auto size = std::filesystem::file_size(part);
  std::filesystem::resize_file(part, packed_header_bytes + 10);
  std::filesystem::resize_file(part, size);  // what the journal promises is gone, the length is right
  s.options.progress = nullptr;
  BOOST_TEST((s.pack().error().code == ErrorCode::corrupt));
  BOOST_TEST(!s.is_there());
  BOOST_REQUIRE(s.pack().has_value());
  s.require_right();
}

BOOST_AUTO_TEST_CASE(whichever_read_fails_packing_says_so_and_goes_on_later) {
  for (const auto kind : {test::FaultPlan::Kind::error, test::FaultPlan::Kind::end_of_file}) {
    Setup s;
    for (int n = 0;; n += 3) {
      const auto plan = std::make_shared<test::FaultPlan>();
      plan->kind = kind;
      plan->fail_at = n;
      const auto packed = pack_table(s.job, s.options, Setup::storage(plan));
      if (!plan->fired) {
        BOOST_TEST(packed.has_value());
        break;
      }
      BOOST_REQUIRE(!packed);
      BOOST_TEST((packed.error().code == ErrorCode::io));
      BOOST_TEST(!s.is_there());
    }
    s.require_right();
  }
}

BOOST_AUTO_TEST_CASE(a_disk_that_fills_up_is_a_named_error_and_no_file) {
  Setup s;
  const int status = status_of_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20'000, 20'000};  // the packed file needs 56 kB
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const auto packed = s.pack();
    return !packed && packed.error().code == ErrorCode::resource ? 0 : 1;
  });
  BOOST_TEST(WEXITSTATUS(status) == 0);
  BOOST_TEST(!s.is_there());
}

BOOST_AUTO_TEST_CASE(too_little_free_space_is_refused_before_the_work) {
  const test::TemporaryFolder folder;
  BOOST_TEST(check_free_space(folder.path(), 1).has_value());
  const Error lacks = check_free_space(folder.path(), 1ULL << 60).error();
  BOOST_TEST((lacks.code == ErrorCode::resource));
  BOOST_TEST(lacks.message().find("expected 1181116006.4 GiB") != std::string::npos, lacks.message());
  BOOST_TEST((check_free_space(folder.path() / "none", 1).error().code == ErrorCode::io));
}

BOOST_AUTO_TEST_CASE(two_processes_do_not_pack_the_same_file) {
#if defined(__SANITIZE_THREAD__)
  std::puts("skipped: ThreadSanitizer cannot follow a fork of a process with threads");
  return;
#endif
  Setup s;
  bool was_refused = false;
  s.options.progress = [&](const PackProgress&) {
    const int status = status_of_child([&] {
      PackOptions options = Setup::small_steps();
      const auto packed = pack_table(s.job, options, Setup::storage());
      return !packed && packed.error().code == ErrorCode::unavailable ? 0 : 1;
    });
    was_refused = WEXITSTATUS(status) == 0;
    return false;
  };
  BOOST_TEST((s.pack().error().code == ErrorCode::cancelled));
  BOOST_TEST(was_refused);
}

BOOST_AUTO_TEST_CASE(progress_only_grows_and_ends_at_the_total) {
  Setup s;
  std::vector<PackProgress> seen;
  s.options.progress = [&](const PackProgress& progress) {
    seen.push_back(progress);
    return true;
  };
  BOOST_REQUIRE(s.pack().has_value());
  BOOST_REQUIRE(seen.size() > 2U);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    if (seen[i].phase == seen[i - 1].phase) BOOST_TEST(seen[i].bytes_done >= seen[i - 1].bytes_done);
    BOOST_TEST(seen[i].bytes_done <= seen[i].bytes_total);
  }
  BOOST_TEST(seen.back().bytes_done == static_cast<std::uint64_t>(last_row - first_row) * 66);
  BOOST_TEST((seen.back().phase == PackProgress::Phase::verifying));
}

BOOST_AUTO_TEST_SUITE_END()
