// What stands where a file should be: it is opened, refused by its name or absent, and nobody waits for it. A defect
// here shows as a test that does not end.
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "engram/input_file.hpp"
#include "engram/pack/journal.hpp"
#include "engram/pack/receipt.hpp"
#include "engram/text_file.hpp"
#include "engram/token_map.hpp"
#include "tests/engram/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::engram;

namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A folder with one of everything that is no regular file.
struct Oddities {
  test::TemporaryFolder folder;

  Oddities() {
    BOOST_REQUIRE_EQUAL(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
    fs::create_directory(folder.path() / "folder");
    fs::create_symlink("nothing", folder.path() / "dangling");
    fs::create_symlink("looping", folder.path() / "looping");
    fs::create_symlink("/dev/null", folder.path() / "device");
  }
  static std::vector<std::string> names() { return {"pipe", "folder", "dangling", "looping", "device"}; }
  fs::path operator/(const std::string& name) const { return folder.path() / name; }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(input_file)

BOOST_AUTO_TEST_CASE(whatever_is_not_a_regular_file_is_refused_by_its_name_and_never_waited_for) {
  const Oddities there;
  for (const std::string& name : Oddities::names()) {
    BOOST_TEST_CONTEXT(name) {
      for (const Error& error : {open_buffered(there / name).error(), open_direct(there / name).error(),
                                 read_text(there / name, 100).error()}) {
        BOOST_TEST((error.code == ErrorCode::io), error.message());
        BOOST_TEST(error.where == (there / name).string());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(only_an_entry_that_is_not_there_is_not_found) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("file", bytes("x"));
  BOOST_TEST((open_buffered(folder.path() / "none").error().code == ErrorCode::not_found));
  BOOST_TEST((open_buffered(folder.path() / "no folder" / "none").error().code == ErrorCode::not_found));
  BOOST_TEST((open_buffered(file / "below a file").error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_CASE(a_link_to_a_file_is_that_file) {
  const test::TemporaryFolder folder;
  folder.write("file", bytes("text"));
  fs::create_symlink("file", folder.path() / "link");
  BOOST_TEST(read_text(folder.path() / "link", 4).value() == "text");
}

BOOST_AUTO_TEST_CASE(a_text_is_read_whole_up_to_its_limit_and_not_one_byte_further) {
  const test::TemporaryFolder folder;
  BOOST_TEST(read_text(folder.write("empty", {}), 0).value().empty());
  const auto file = folder.write("file", bytes("12345"));
  BOOST_TEST(read_text(file, 5).value() == "12345");
  BOOST_TEST((read_text(file, 4).error().code == ErrorCode::out_of_range));
}

BOOST_AUTO_TEST_CASE(reading_past_the_end_says_where_the_file_ended) {
  const test::TemporaryFolder folder;
  const auto file = open_buffered(folder.write("file", bytes("12345")));
  std::array<std::byte, 4> out{};
  BOOST_TEST(read_exactly(**file, 1, out).has_value());
  const Error error = read_exactly(**file, 3, out).error();
  BOOST_TEST((error.code == ErrorCode::io));
  BOOST_TEST(error.found == "the end of the file at byte 5");
}

// The file of a token map wins: one that is there and cannot be read is never replaced by another source.
BOOST_AUTO_TEST_CASE(a_token_map_or_tokenizer_that_is_no_file_is_an_error_and_not_an_absent_one) {
  for (const char* file : {"engram_token_map.i32", "tokenizer.json"}) {
    for (const std::string& name : Oddities::names()) {
      const Oddities there;
      fs::rename(there / name, there / file);
      if (name == "looping") fs::create_symlink(file, there / name);
      BOOST_TEST_CONTEXT(file << " is " << name) {
        const Error error = TokenMap::open(there.folder.path(), {}, {3, 2}).error();
        BOOST_TEST((error.code == ErrorCode::io), error.message());
        BOOST_TEST(error.where == (there / file).string());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_pipe_as_receipt_is_an_error_and_as_journal_no_journal) {
  const Oddities there;
  const auto packed = there / "rows.bin";
  fs::rename(there / "pipe", receipt_path(packed));
  BOOST_TEST((read_receipt(packed).error().code == ErrorCode::io));
  BOOST_TEST(PackJournal::read(receipt_path(packed), "identity", 9).empty());
}

BOOST_AUTO_TEST_SUITE_END()
