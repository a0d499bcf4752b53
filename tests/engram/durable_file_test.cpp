// A durable file takes the place of a regular file or of nothing, never of anything else.
#include "engram/durable_file.hpp"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

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
