// Packed rows are used where they are right; other tables' files are announced and passed over; damage stops.
#include "engram/pack/open_table.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <random>

#include "engram/pack/packer.hpp"
#include "tests/engram/table_fixture.hpp"

using namespace tandem;
using namespace tandem::engram;
using test::KnownTable;

BOOST_AUTO_TEST_SUITE(open_table_of_a_layer)

namespace {

constexpr int head_dim = 64;
constexpr std::int64_t rows = 1000, half = 480;
constexpr std::int64_t row_bytes = head_dim + head_dim / scale_columns;

// A table and its packed halves, as two ranks would have them.
struct Setup {
  test::TemporaryFolder folder;
  KnownTable table{rows, head_dim};
  TableRequest request;
  std::vector<std::string> said;

  Setup() {
    request.layer = 14;
    request.source = table.write_shard(folder, 777);
    request.packed = {{folder.path() / packed_file_name(14, 0, 2), 0, half},
                      {folder.path() / packed_file_name(14, 1, 2), half, rows}};
  }

  static std::shared_ptr<Storage> storage() {
    StorageOptions options;
    options.threads = 2;
    options.depth = 8;
    return std::make_shared<Storage>(options);
  }
  void pack(std::size_t half_index) const {
    const PackedCandidate& candidate = request.packed[half_index];
    PackOptions options;
    options.block_rows = 40;
    const PackJob job{
        request.source, {14, {{head_dim}, rows, candidate.first_row, candidate.last_row}}, candidate.file};
    const auto packed = pack_table(job, options, storage());
    BOOST_REQUIRE_MESSAGE(packed.has_value(), (packed ? "" : packed.error().message()));
  }
  Result<std::unique_ptr<RowStore>> open() {
    return open_table(request, storage(), [this](const std::string& text) { said.push_back(text); });
  }
  void require_all_rows(RowStore& store) const {
    std::vector<RowId> ids;
    std::mt19937 random(3);
    for (int i = 0; i < 3000; ++i) ids.push_back(RowId{static_cast<std::int32_t>(random() % rows)});
    ids[7] = no_row;
    BOOST_REQUIRE(test::read_and_compare(store, table, ids).has_value());
    BOOST_REQUIRE(test::read_and_compare(store, table, {RowId{0}, RowId{half - 1}, RowId{half}, RowId{rows - 1}}));
  }
  // Changes one byte of a packed file in place.
  void damage(std::size_t half_index, std::int64_t at) const {
    std::fstream file(request.packed[half_index].file, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(at);
    const char before = static_cast<char>(file.get());
    file.seekp(at);
    file.put(static_cast<char>(before ^ 1));
  }
  // Makes a change look as if it had always been there.
  void restore_time(std::size_t half_index) const {
    const auto& file = request.packed[half_index].file;
    auto receipt = read_receipt(file);
    BOOST_REQUIRE(receipt.has_value());
    receipt->modified_ns = *modified_ns(file);
    BOOST_REQUIRE(write_receipt(file, *receipt).has_value());
  }
  bool has_said(const std::string& text) const {
    return std::any_of(said.begin(), said.end(),
                       [&](const auto& line) { return line.find(text) != std::string::npos; });
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_the_same_with_none_one_or_all_ranges_packed) {
  for (const std::vector<std::size_t>& halves : {std::vector<std::size_t>{}, {0}, {1}, {0, 1}}) {
    Setup s;
    for (const std::size_t i : halves) s.pack(i);
    auto store = s.open();
    BOOST_REQUIRE_MESSAGE(store.has_value(), (store ? "" : store.error().message()));
    s.require_all_rows(**store);
    BOOST_TEST(s.said.empty());
    BOOST_TEST((test::read_and_compare(**store, s.table, {RowId{rows}}).error().code == ErrorCode::out_of_range));
  }
}

BOOST_AUTO_TEST_CASE(a_packed_file_is_really_read) {
  Setup s;
  s.pack(0);
  auto store = s.open();
  BOOST_REQUIRE(store.has_value());
  std::filesystem::resize_file(s.request.packed[0].file, 4096 + 10);
  BOOST_TEST((test::read_and_compare(**store, s.table, {RowId{half - 1}}).error().code == ErrorCode::io));
  BOOST_TEST(test::read_and_compare(**store, s.table, {RowId{half}}).has_value());
}

BOOST_AUTO_TEST_CASE(a_file_of_another_layer_rank_shape_or_format_is_announced_and_passed_over) {
  const struct {
    std::int64_t byte;
    const char* field;
  } cases[] = {{0, "magic"},
               {8, "layer"},
               {16, "first row"},
               {24, "last row"},
               {32, "rows of the layer"},
               {40, "bytes of a row"},
               {100, "reserved byte 100"}};
  for (const auto& [byte, field] : cases) {
    Setup s;
    s.pack(1);
    s.damage(1, byte);
    auto store = s.open();
    BOOST_REQUIRE(store.has_value());
    s.require_all_rows(**store);
    BOOST_REQUIRE(s.said.size() == 1U);
    BOOST_TEST(s.has_said(field));
    BOOST_TEST(s.has_said("read from the checkpoint instead"));
  }
}

BOOST_AUTO_TEST_CASE(a_file_of_another_model_of_the_same_shape_is_announced_and_passed_over) {
  Setup s;
  s.pack(0);
  s.table = KnownTable(rows, head_dim, 77);
  s.request.source = s.table.write_shard(s.folder, 777);
  auto store = s.open();
  BOOST_REQUIRE(store.has_value());
  s.require_all_rows(**store);
  BOOST_TEST(s.has_said("another model"));
}

BOOST_AUTO_TEST_CASE(without_a_receipt_rows_decide_whose_file_it_is) {
  Setup s;
  s.pack(0);
  std::filesystem::remove(receipt_path(s.request.packed[0].file));
  auto store = s.open();
  BOOST_REQUIRE(store.has_value());
  s.require_all_rows(**store);
  BOOST_TEST(s.has_said("no receipt"));
  std::filesystem::resize_file(s.request.packed[0].file, 4096 + half * row_bytes);
  s.table = KnownTable(rows, head_dim, 77);
  s.request.source = s.table.write_shard(s.folder, 777);
  auto other = s.open();
  BOOST_REQUIRE(other.has_value());
  s.require_all_rows(**other);
  BOOST_TEST(s.has_said("rows that differ"));
}

BOOST_AUTO_TEST_CASE(a_truncated_or_lengthened_file_stops) {
  for (const std::int64_t bytes : {4096 + half * row_bytes - 1, 4096 + half * row_bytes + 1, std::int64_t{4096},
                                   std::int64_t{4095}, std::int64_t{47}, std::int64_t{0}}) {
    Setup s;
    s.pack(0);
    std::filesystem::resize_file(s.request.packed[0].file, static_cast<std::uintmax_t>(bytes));
    const auto store = s.open();
    BOOST_REQUIRE(!store);
    BOOST_TEST((store.error().code == ErrorCode::bad_format));
  }
}

BOOST_AUTO_TEST_CASE(a_changed_byte_anywhere_stops_and_is_located) {
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{137}, half - 1}) {
    Setup s;
    s.pack(0);
    s.damage(0, 4096 + row * row_bytes + 5);
    const auto store = s.open();
    BOOST_REQUIRE(!store);
    BOOST_TEST((store.error().code == ErrorCode::corrupt));
    const auto block = std::to_string(row / 40);
    BOOST_TEST(store.error().where.find("block " + block + " ") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(damage_that_kept_the_files_time_is_found_by_the_samples) {
  Setup s;
  s.pack(0);
  for (std::int64_t row = 0; row < half; ++row) s.damage(0, 4096 + row * row_bytes);
  s.restore_time(0);
  BOOST_TEST((s.open().error().code == ErrorCode::corrupt));
}

BOOST_AUTO_TEST_CASE(a_touched_file_is_checked_whole_once) {
  Setup s;
  s.pack(0);
  std::filesystem::last_write_time(s.request.packed[0].file, std::filesystem::file_time_type::clock::now());
  BOOST_TEST(s.open().has_value());
  BOOST_TEST(s.has_said("checking all 12 blocks"));
  s.said.clear();
  BOOST_TEST(s.open().has_value());
  BOOST_TEST(s.said.empty());
}

BOOST_AUTO_TEST_CASE(a_receipt_that_makes_no_sense_stops) {
  Setup s;
  s.pack(0);
  const auto path = receipt_path(s.request.packed[0].file);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  BOOST_TEST((s.open().error().code == ErrorCode::bad_format));
}

BOOST_AUTO_TEST_SUITE_END()
