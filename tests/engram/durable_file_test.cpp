// A durable file takes the place of a regular file or of nothing, never of anything else.
#include "engram/durable_file.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "engram/pack/output_file.hpp"
#include "engram/text_file.hpp"
#include "tests/engram/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::engram;

namespace {

namespace fs = std::filesystem;

Result<void> write(const fs::path& path, const std::string& text) {
  auto file = DurableFile::create(path);
  if (!file) return file.error();
  if (auto written = file->append(std::as_bytes(std::span(text))); !written) return written;
  return file->commit();
}

std::size_t entries_of(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// A process that is killed while it writes the file.
void write_and_die(const fs::path& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto file = DurableFile::create(path);
    if (file) (void)file->append(std::as_bytes(std::span("half of it")));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
  BOOST_REQUIRE(WIFSIGNALED(status));
}

void sweep(const fs::path& folder, const std::string& name) {
  remove_stale_temporaries(folder, [&name](std::string_view replaced) { return replaced == name; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(durable_file)

BOOST_AUTO_TEST_CASE(a_new_file_and_a_replaced_one_are_whole) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "file";
  for (const char* text : {"a long first text", "short"}) {
    BOOST_TEST(write(file, text).has_value());
    BOOST_TEST(read_text(file, 100).value() == text);
  }
  BOOST_TEST(entries_of(folder.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(what_a_killed_writer_left_goes_when_the_file_is_written_again) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "file";
  BOOST_REQUIRE(write(file, "before").has_value());
  write_and_die(file);
  write_and_die(folder.path() / "another file");
  BOOST_TEST(read_text(file, 100).value() == "before");
  BOOST_TEST(entries_of(folder.path()) == 3U, "the kill left something");
  BOOST_TEST(write(file, "after").has_value());
  BOOST_TEST(read_text(file, 100).value() == "after");
  BOOST_TEST(entries_of(folder.path()) == 2U);
  sweep(folder.path(), "another file");
  BOOST_TEST(entries_of(folder.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(a_file_that_somebody_writes_is_not_taken_for_a_dead_ones) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "file";
  auto first = DurableFile::create(path), second = DurableFile::create(path);
  BOOST_REQUIRE(first && second);
  sweep(folder.path(), "file");
  BOOST_TEST(entries_of(folder.path()) == 2U);
  BOOST_TEST(second->append(std::as_bytes(std::span("2", 1))).has_value());
  BOOST_TEST(second->commit().has_value());
  BOOST_TEST(first->append(std::as_bytes(std::span("1", 1))).has_value());
  BOOST_TEST(first->commit().has_value());
  BOOST_TEST(read_text(path, 100).value() == "1");
  BOOST_TEST(entries_of(folder.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_whole_is_locked_by_nobody) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "file";
  auto file = DurableFile::create(path);
  BOOST_REQUIRE(file);
  BOOST_REQUIRE(file->commit().has_value());
  BOOST_TEST(OutputFile::open(path).has_value(), "while the first one's object lives");
}

BOOST_AUTO_TEST_CASE(only_names_of_temporary_files_are_taken_for_those) {
  BOOST_TEST(replaced_name("file.aBc123.tandem-new") == "file");
  BOOST_TEST(replaced_name("a.json.000000.tandem-new") == "a.json");
  const test::TemporaryFolder folder;
  for (const char* name :
       {"file", "file.backup", "file.tandem-new", "file.aBc1234.tandem-new", "file.aB.c12.tandem-new",
        ".aBc123.tandem-new", "fileXaBc123.tandem-new", "other.aBc123.tandem-new.backup"}) {
    BOOST_TEST(replaced_name(name).empty(), name);
    folder.write(name, {});
  }
  const std::size_t before = entries_of(folder.path());
  remove_stale_temporaries(folder.path(), [](std::string_view) { return true; });
  BOOST_TEST(entries_of(folder.path()) == before);
}

BOOST_AUTO_TEST_CASE(a_pipe_or_folder_of_that_name_is_refused_and_stays_what_it_is) {
  const test::TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe", inner = folder.path() / "folder";
  BOOST_REQUIRE_EQUAL(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_directory(inner);
  fs::create_symlink(pipe, folder.path() / "link to the pipe");
  for (const auto& path : {pipe, inner, folder.path() / "link to the pipe", fs::path("/dev/null")}) {
    BOOST_TEST_CONTEXT(path) {
      const auto written = write(path, "text");
      BOOST_REQUIRE(!written);
      BOOST_TEST((written.error().code == ErrorCode::io));
      BOOST_TEST(written.error().message().find("not a regular file") != std::string::npos);
    }
  }
  BOOST_TEST(fs::is_fifo(pipe));
  BOOST_TEST(fs::is_directory(inner));
  BOOST_TEST(fs::is_character_file("/dev/null"));
  BOOST_TEST(entries_of(folder.path()) == 3U);
}

BOOST_AUTO_TEST_CASE(a_link_stays_a_link_and_the_file_behind_it_gets_the_bytes) {
  const test::TemporaryFolder folder, elsewhere;
  fs::create_symlink(elsewhere.write("target", {}), folder.path() / "link");
  BOOST_TEST(write(folder.path() / "link", "text").has_value());
  BOOST_TEST(fs::is_symlink(folder.path() / "link"));
  BOOST_TEST(read_text(elsewhere.path() / "target", 100).value() == "text");
  BOOST_TEST(entries_of(folder.path()) == 1U);
}

BOOST_AUTO_TEST_CASE(a_link_that_leads_nowhere_is_refused) {
  const test::TemporaryFolder folder;
  fs::create_symlink("nothing", folder.path() / "link");
  BOOST_TEST((write(folder.path() / "link", "text").error().code == ErrorCode::io));
  BOOST_TEST(fs::is_symlink(folder.path() / "link"));
}

BOOST_AUTO_TEST_SUITE_END()
