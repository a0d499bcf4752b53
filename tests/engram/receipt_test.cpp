// A receipt comes back as it was written; anything else in its place is refused by the name of the field.
#include "engram/pack/receipt.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/engram/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::engram;

namespace {

PackedReceipt known_receipt() {
  PackedReceipt receipt;
  receipt.table = {14, {{256}, 1000, 100, 900}};
  receipt.source = std::string(64, 'a');
  receipt.block_rows = 300;
  receipt.modified_ns = 1'796'000'000'123'456'789;
  receipt.checksums = {0x00C0FFEE, 0, 0xFFFFFFFF};
  return receipt;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  BOOST_REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(packed_receipt)

BOOST_AUTO_TEST_CASE(a_receipt_comes_back_as_it_was_written) {
  const test::TemporaryFolder folder;
  const auto packed = folder.path() / "engram-l14-r0of1.bin";
  const PackedReceipt receipt = known_receipt();
  BOOST_REQUIRE(write_receipt(packed, receipt).has_value());
  const auto read = read_receipt(packed);
  BOOST_REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().message()));
  BOOST_TEST(read->table.layer == 14);
  BOOST_TEST((read->table.info.shape == receipt.table.info.shape));
  BOOST_TEST(read->table.info.rows == 1000);
  BOOST_TEST(read->table.info.first_row == 100);
  BOOST_TEST(read->table.info.last_row == 900);
  BOOST_TEST(read->source == receipt.source);
  BOOST_TEST(read->block_rows == 300);
  BOOST_TEST(read->modified_ns == receipt.modified_ns);
  BOOST_TEST(read->checksums == receipt.checksums);
  BOOST_TEST((read_receipt(folder.path() / "other.bin").error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_CASE(a_wrong_field_is_named) {
  const std::string good = format_receipt(known_receipt());
  const struct {
    const char *from, *to, *field;
  } cases[] = {{"\"format\": 1", "\"format\": 2", "format"},
               {"\"layer\": 14", "\"layer\": \"14\"", "layer"},
               {"\"rows\": 1000", "\"rows\": 3000000000", "rows"},
               {"\"last_row\": 900", "\"last_row\": 1001", "last_row"},
               {"\"first_row\": 100", "\"first_row\": -1", "first_row"},
               {"\"first_row\": 100", "\"first_row\": 900", "last_row"},
               {"\"head_dim\": 256", "\"head_dim\": 250", "last_row"},
               {"\"block_rows\": 300", "\"block_rows\": 0", "block_rows"},
               {"\"block_rows\": 300", "\"block_rows\": 200", "crc32c"},
               {"\"source\"", "\"sauce\"", "source"},
               {"\"00c0ffee\"", "\"0c0ffee\"", "crc32c"},
               {"\"00c0ffee\"", "\"00c0ffex\"", "crc32c"},
               {"\"00c0ffee\", ", "", "crc32c"},
               {"\"modified_ns\": 1796000000123456789", "\"modified_ns\": 1.5", "modified_ns"}};
  for (const auto& [from, to, field] : cases) {
    const auto parsed = parse_receipt(replaced(good, from, to), "r");
    BOOST_REQUIRE_MESSAGE(!parsed, to);
    BOOST_TEST((parsed.error().code == ErrorCode::bad_format));
    BOOST_TEST(parsed.error().where == std::string("r, ") + field);
  }
}

BOOST_AUTO_TEST_CASE(a_receipt_cut_anywhere_is_refused) {
  const std::string good = format_receipt(known_receipt());
  const std::size_t end = good.find_last_of('}');
  for (std::size_t bytes = 0; bytes <= end; ++bytes) {
    BOOST_REQUIRE((parse_receipt(good.substr(0, bytes), "r").error().code == ErrorCode::bad_format));
  }
  BOOST_TEST(parse_receipt(good, "r").has_value());
  BOOST_TEST((parse_receipt("[]", "r").error().code == ErrorCode::bad_format));
}

BOOST_AUTO_TEST_CASE(blocks_cover_every_row_once) {
  for (const std::int64_t rows : {1, 299, 300, 301, 900}) {
    const TableInfo info{{32}, 5000, 7, 7 + rows};
    std::int64_t next = 0;
    for (std::size_t block = 0; block < block_count(info, 300); ++block) {
      const BlockRange range = block_range(info, 300, block);
      BOOST_TEST(range.first == next);
      BOOST_TEST(range.last > range.first);
      next = range.last;
    }
    BOOST_TEST(next == rows);
  }
}

BOOST_AUTO_TEST_SUITE_END()
