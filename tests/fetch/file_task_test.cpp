// The bookkeeping of pieces: what one that became worthless may still change.
#include "net/fetch/file_task.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/engram/temporary_folder.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_file_task)

struct Begun {
  engram::test::TemporaryFolder folder;
  FileTask file{FileJob{{}, folder.path() / "x", {"x", 10, ""}, "r"}};

  Begun() {
    auto part = PartFile::open({file.job.final_path, 10, 4, "whose"});
    BOOST_REQUIRE(part);
    file.part.emplace(std::move(*part));
    file.lay_out();
  }
  // Takes a piece and receives so many of its bytes.
  Piece receive(std::uint64_t bytes) {
    Piece piece = file.take_pending();
    piece.at += bytes;
    file.received += bytes;
    return piece;
  }
};

BOOST_FIXTURE_TEST_CASE(bytes_that_are_taken_back_no_longer_count, Begun) {
  Piece piece = receive(3);
  file.take_back(piece, 1);
  BOOST_TEST(file.received == 1U);
  BOOST_TEST(piece.at == 1U);
}

// It may wake up long after the file started over: what it takes back was never counted anew.
BOOST_FIXTURE_TEST_CASE(a_piece_of_before_the_file_started_over_takes_nothing_back, Begun) {
  Piece stale = receive(3);
  file.invalidate();
  file.lay_out();
  BOOST_TEST(file.received == 0U);
  file.take_back(stale, 0);
  BOOST_TEST(file.received == 0U);
  file.finish(stale);
  BOOST_TEST(!file.is_complete());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
