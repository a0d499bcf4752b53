// Rows from every kind of file through every engine are the rows on storage, byte for byte, or the read is an error.
#include "engram/row_store.hpp"

#include <boost/test/unit_test.hpp>
#include <random>
#include <thread>

#include "tests/engram/table_fixture.hpp"

using namespace tandem;
using namespace tandem::engram;
using test::KnownTable;

namespace {

// Build folders are on a real file system, where direct I/O works; the folder for temporary files often is not.
const std::filesystem::path here = std::filesystem::current_path();

struct Way {
  const char* name;
  bool uring, direct;
};
constexpr Way ways[] = {{"io_uring direct", true, true},
                        {"io_uring buffered", true, false},
                        {"pread direct", false, true},
                        {"pread buffered", false, false}};

std::shared_ptr<Storage> storage_of(const Way& way, int depth = 8) {
  StorageOptions options;
  options.uring = way.uring;
  options.direct = way.direct;
  options.depth = depth;
  options.threads = 4;
  return std::make_shared<Storage>(options);
}

std::unique_ptr<RowStore> open_shard(const ShardTable& table, const std::shared_ptr<Storage>& storage) {
  auto opened = open_shard_store(table, storage);
  BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message()));
  return std::move(*opened);
}

std::vector<RowId> random_ids(std::int64_t first, std::int64_t last, std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<RowId> ids;
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = first + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(last - first));
    ids.push_back(random() % 11 == 0 ? no_row : RowId{static_cast<std::int32_t>(row)});
  }
  return ids;
}

const std::vector<RowId> edges{RowId{0}, RowId{999}, RowId{0}, no_row, RowId{1}, RowId{998}, RowId{999}};

}  // namespace

BOOST_AUTO_TEST_SUITE(row_store)

BOOST_AUTO_TEST_CASE(shard_rows_are_the_same_through_every_engine) {
  const test::TemporaryFolder folder(here);
  const KnownTable table(1000, 256);
  const ShardTable shard = table.write_shard(folder, 777);
  for (const Way& way : ways) {
    BOOST_TEST_CONTEXT(way.name) {
      const auto store = open_shard(shard, storage_of(way));
      BOOST_TEST(test::read_and_compare(*store, table, edges).has_value());
      BOOST_TEST(test::read_and_compare(*store, table, random_ids(0, 1000, 3000, 5)).has_value());
      BOOST_TEST(test::read_and_compare(*store, table, {}).has_value());
      BOOST_TEST(test::read_and_compare(*store, table, {no_row}).has_value());
      BOOST_TEST(test::read_and_compare(*store, table, {RowId{500}}).has_value());
    }
  }
}

BOOST_AUTO_TEST_CASE(packed_rows_are_the_same_through_every_engine) {
  const test::TemporaryFolder folder(here);
  const KnownTable table(1000, 256);
  PackedTable packed;
  const auto path = table.write_packed(folder, 300, 801, packed);
  for (const Way& way : ways) {
    BOOST_TEST_CONTEXT(way.name) {
      auto opened = open_packed_store(path, packed, storage_of(way));
      BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message()));
      BOOST_TEST(test::read_and_compare(**opened, table, {RowId{300}, RowId{800}}).has_value());
      BOOST_TEST(test::read_and_compare(**opened, table, random_ids(300, 801, 2000, 6)).has_value());
    }
  }
}

BOOST_AUTO_TEST_CASE(tables_of_one_row_and_of_narrow_rows_work) {
  for (const int head_dim : {32, 96}) {
    for (const std::int64_t rows : {1, 2, 129}) {
      const test::TemporaryFolder folder(here);
      const KnownTable table(rows, head_dim);
      for (const Way& way : ways) {
        const auto store = open_shard(table.write_shard(folder, 0), storage_of(way, 1));
        BOOST_TEST(test::read_and_compare(*store, table, random_ids(0, rows, 40, 7)).has_value());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(more_reads_than_the_engine_has_slots_are_served) {
  const test::TemporaryFolder folder(here);
  const KnownTable table(40'000, 32);
  std::vector<RowId> sparse;
  for (int row = 0; row < 40'000; row += 333) sparse.push_back(RowId{row});
  for (const Way& way : ways) {
    const auto store = open_shard(table.write_shard(folder, 100), storage_of(way, 2));
    BOOST_TEST(test::read_and_compare(*store, table, sparse).has_value());
  }
}

BOOST_AUTO_TEST_CASE(an_id_outside_the_store_is_an_error_whatever_else_is_asked) {
  const test::TemporaryFolder folder;
  const KnownTable table(1000, 64);
  PackedTable packed;
  const auto path = table.write_packed(folder, 300, 801, packed);
  auto store = open_packed_store(path, packed, storage_of(ways[1]));
  BOOST_REQUIRE(store.has_value());
  for (const int id : {299, 801, 1000, -2, 2'147'483'647}) {
    const auto read = test::read_and_compare(**store, table, {RowId{300}, RowId{id}});
    BOOST_REQUIRE(!read);
    BOOST_TEST((read.error().code == ErrorCode::out_of_range));
  }
}

BOOST_AUTO_TEST_CASE(room_of_the_wrong_size_is_refused) {
  const test::TemporaryFolder folder;
  const KnownTable table(10, 64);
  const auto store = open_shard(table.write_shard(folder, 0), storage_of(ways[3]));
  std::vector<E4m3> codes(64);
  std::vector<E8m0> scales(1);
  const std::vector<RowId> ids{RowId{0}};
  BOOST_TEST((store->read(ids, {codes, scales}).error().code == ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_CASE(extents_that_do_not_fit_table_or_file_are_refused) {
  const test::TemporaryFolder folder;
  const KnownTable table(10, 64);
  const ShardTable good = table.write_shard(folder, 5);
  const auto code_of = [&](auto spoil) {
    ShardTable bad = good;
    spoil(bad);
    return open_shard_store(bad, storage_of(ways[3])).error().code;
  };
  BOOST_TEST((code_of([](ShardTable& t) { t.codes.bytes -= 1; }) == ErrorCode::mismatch));
  BOOST_TEST((code_of([](ShardTable& t) { t.rows = 11; }) == ErrorCode::mismatch));
  BOOST_TEST((code_of([](ShardTable& t) { t.scales.offset += 6; }) == ErrorCode::bad_format));
  BOOST_TEST((code_of([](ShardTable& t) { t.codes.offset = ~0ULL; }) == ErrorCode::bad_format));
  BOOST_TEST((code_of([](ShardTable& t) { t.codes.file += ".none"; }) == ErrorCode::not_found));
  BOOST_TEST((code_of([](ShardTable& t) { t.shape.head_dim = 0; }) == ErrorCode::invalid_argument));
  BOOST_TEST((code_of([](ShardTable& t) { t.rows = 0; }) == ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_CASE(packed_files_of_anything_else_are_refused) {
  const test::TemporaryFolder folder;
  const KnownTable table(100, 64);
  PackedTable packed;
  const auto path = table.write_packed(folder, 10, 60, packed);
  const auto code_of = [&](auto spoil) {
    PackedTable other = packed;
    spoil(other);
    return open_packed_store(path, other, storage_of(ways[3])).error().code;
  };
  BOOST_TEST(open_packed_store(path, packed, storage_of(ways[3])).has_value());
  BOOST_TEST((code_of([](PackedTable& t) { t.layer = 14; }) == ErrorCode::mismatch));
  BOOST_TEST((code_of([](PackedTable& t) { t.info.first_row = 9; }) == ErrorCode::mismatch));
  BOOST_TEST((code_of([](PackedTable& t) { t.info.last_row = 61; }) == ErrorCode::mismatch));
  BOOST_TEST((code_of([](PackedTable& t) { t.info.rows = 101; }) == ErrorCode::mismatch));
  BOOST_TEST((code_of([](PackedTable& t) { t.info.shape.head_dim = 32; }) == ErrorCode::mismatch));

  const auto size = std::filesystem::file_size(path);
  for (const std::uintmax_t wrong :
       {size + 1, size - 1, std::uintmax_t{4096}, std::uintmax_t{4095}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path, wrong);
    BOOST_TEST((open_packed_store(path, packed, storage_of(ways[3])).error().code == ErrorCode::bad_format));
  }
}

BOOST_AUTO_TEST_CASE(a_refused_header_names_the_field_and_its_byte) {
  const PackedTable packed{14, {{256}, 1000, 500, 900}};
  const auto error_of = [&](std::size_t byte) {
    auto header = encode_packed_header(packed);
    header[byte] ^= std::byte{1};
    return check_packed_header(header, packed, "file").error();
  };
  const std::pair<std::size_t, const char*> fields[] = {{0, "file, magic at byte 0"},
                                                        {8, "file, layer at byte 8"},
                                                        {16, "file, first row at byte 16"},
                                                        {31, "file, last row at byte 24"},
                                                        {32, "file, rows of the layer at byte 32"},
                                                        {47, "file, bytes of a row at byte 40"},
                                                        {48, "file, reserved byte 48"},
                                                        {4095, "file, reserved byte 4095"}};
  for (const auto& [byte, where] : fields) {
    BOOST_TEST(error_of(byte).where == where);
    BOOST_TEST((error_of(byte).code == ErrorCode::mismatch));
  }
  BOOST_TEST(error_of(0).found == "0x31344e4531565345");
}

BOOST_AUTO_TEST_CASE(a_header_cut_anywhere_is_damage_and_not_another_table) {
  const PackedTable packed{1, {{64}, 100, 10, 60}};
  const auto header = encode_packed_header(packed);
  for (std::size_t bytes = 0; bytes < packed_header_bytes; ++bytes) {
    const auto checked = check_packed_header(std::span(header).first(bytes), packed, "file");
    BOOST_REQUIRE(!checked);
    BOOST_REQUIRE((checked.error().code == ErrorCode::bad_format));
  }
  BOOST_TEST(check_packed_header(header, packed, "file").has_value());
}

BOOST_AUTO_TEST_CASE(the_packed_header_has_the_bytes_that_other_programs_expect) {
  const auto header = encode_packed_header({14, {{256}, 384'016'682, 192'007'016, 384'016'682}});
  BOOST_TEST(header.size() == 4096U);
  const std::string start(reinterpret_cast<const char*>(header.data()), 8);
  BOOST_TEST(start == "DSV1EN41");
  BOOST_TEST(std::to_integer<int>(header[8]) == 14);
  BOOST_TEST(std::to_integer<int>(header[40]) == 8);  // 264 = 0x108
  BOOST_TEST(std::to_integer<int>(header[41]) == 1);
}

BOOST_AUTO_TEST_CASE(a_file_cut_after_opening_is_an_io_error_not_zeros) {
  for (const Way& way : ways) {
    BOOST_TEST_CONTEXT(way.name) {
      const test::TemporaryFolder folder(here);
      const KnownTable table(4000, 64);
      PackedTable packed;
      const auto path = table.write_packed(folder, 0, 4000, packed);
      auto store = open_packed_store(path, packed, storage_of(way));
      BOOST_REQUIRE(store.has_value());
      std::filesystem::resize_file(path, packed_header_bytes + 66 * 2000 + 33);
      const auto whole = test::read_and_compare(**store, table, random_ids(0, 4000, 500, 8));
      BOOST_REQUIRE(!whole);
      BOOST_TEST((whole.error().code == ErrorCode::io));
      BOOST_TEST((test::read_and_compare(**store, table, {RowId{2000}}).error().code == ErrorCode::io));
      BOOST_TEST(
          test::read_and_compare(**store, table, {RowId{1999}}).has_value());  // the engine works on after errors
    }
  }
}

BOOST_AUTO_TEST_CASE(whichever_operation_fails_the_error_is_clean_and_named) {
  const test::TemporaryFolder folder;
  const KnownTable table(3000, 64);
  const ShardTable shard = table.write_shard(folder, 50);
  for (const auto kind : {test::FaultPlan::Kind::error, test::FaultPlan::Kind::end_of_file}) {
    for (int n = 0;; ++n) {
      const auto plan = std::make_shared<test::FaultPlan>();
      plan->kind = kind;
      plan->fail_at = n;
      StorageOptions options;
      options.open_file = test::failing_opener(plan);
      options.threads = 1 + n % 3;
      auto store = open_shard_store(shard, std::make_shared<Storage>(options));
      const auto read =
          store ? test::read_and_compare(**store, table, random_ids(0, 3000, 60, 9)) : Result<void>(store.error());
      if (!plan->fired) {
        BOOST_TEST(read.has_value());
        BOOST_TEST(n > 10);
        break;
      }
      BOOST_REQUIRE(!read);
      BOOST_TEST((read.error().code == ErrorCode::io));
      BOOST_TEST(read.error().where == shard.codes.file.string());
    }
  }
}

BOOST_AUTO_TEST_CASE(reads_that_come_in_pieces_are_completed) {
  const test::TemporaryFolder folder;
  const KnownTable table(300, 64);
  const auto plan = std::make_shared<test::FaultPlan>();
  plan->kind = test::FaultPlan::Kind::short_read;
  plan->fail_at = 3;
  StorageOptions options;
  options.open_file = test::failing_opener(plan);
  options.threads = 2;
  auto store = open_shard_store(table.write_shard(folder, 50), std::make_shared<Storage>(options));
  BOOST_REQUIRE(store.has_value());
  BOOST_TEST(test::read_and_compare(**store, table, random_ids(0, 300, 200, 10)).has_value());
  BOOST_TEST(test::read_and_compare(**store, table, {RowId{0}, RowId{299}}).has_value());
  BOOST_TEST(plan->fired);
}

BOOST_AUTO_TEST_CASE(several_threads_may_read_one_store) {
  const test::TemporaryFolder folder(here);
  const KnownTable table(2000, 64);
  for (const Way& way : ways) {
    const auto store = open_shard(table.write_shard(folder, 9), storage_of(way));
    std::vector<std::jthread> readers;
    std::mutex mutex;
    int good = 0;
    for (unsigned seed = 0; seed < 4; ++seed) {
      readers.emplace_back([&, seed] {
        const auto ids = random_ids(0, 2000, 300, seed);
        std::vector<E4m3> codes(ids.size() * 64);
        std::vector<E8m0> scales(ids.size() * 2);
        const bool done = store->read(ids, {codes, scales}).has_value();
        const auto* expected = table.codes.data() + (ids[0] == no_row ? 0 : index_of(ids[0]) * 64);
        const bool same =
            ids[0] == no_row || std::equal(expected, expected + 64, std::as_bytes(std::span(codes)).data());
        const std::lock_guard lock(mutex);
        good += done && same ? 1 : 0;
      });
    }
    readers.clear();
    BOOST_TEST(good == 4);
  }
}

BOOST_AUTO_TEST_CASE(a_refused_direct_open_is_announced_once_and_read_buffered) {
  const std::filesystem::path memory = "/dev/shm";  // tmpfs: refuses direct I/O on most kernels
  if (!std::filesystem::is_directory(memory)) return;
  const test::TemporaryFolder folder(memory);
  const KnownTable table(100, 64);
  const ShardTable shard = table.write_shard(folder, 9);
  const bool is_refused = !open_direct(shard.codes.file);
  int announced = 0;
  StorageOptions options;
  options.announce = [&](const std::string& text) {
    announced += text.find("page cache") != std::string::npos ? 1 : 0;
  };
  const auto store = open_shard(shard, std::make_shared<Storage>(options));
  BOOST_TEST(announced == (is_refused ? 1 : 0));
  BOOST_TEST(test::read_and_compare(*store, table, {RowId{0}, RowId{99}}).has_value());
}

BOOST_AUTO_TEST_CASE(the_row_check_passes_embeddings_and_stops_what_cannot_be_rows) {
  const test::TemporaryFolder folder;
  const auto check = [&](auto spoil) {
    KnownTable table(500, 64);
    spoil(table);
    const auto store = open_shard(table.write_shard(folder, 0), storage_of(ways[3]));
    return check_rows(*store).has_value();
  };
  BOOST_TEST(check([](KnownTable&) {}));
  BOOST_TEST(!check([](KnownTable& t) {
    for (auto& code : t.codes) code &= std::byte{0x7F};
  }));  // one sign
  BOOST_TEST(!check([](KnownTable& t) { std::fill(t.codes.begin(), t.codes.end(), std::byte{0}); }));
  BOOST_TEST(!check([](KnownTable& t) { t.codes[499 * 64] = std::byte{0x7F}; }));  // NaN in the last row
  BOOST_TEST(!check([](KnownTable& t) { t.scales[0] = std::byte{255}; }));
}

BOOST_AUTO_TEST_CASE(a_row_with_a_nan_is_refused_by_file_and_row_and_its_neighbours_are_served) {
  for (const std::byte nan : {std::byte{0x7F}, std::byte{0xFF}}) {
    for (const bool in_codes : {true, false}) {
      if (!in_codes && nan != std::byte{0xFF}) continue;  // 0x7F is 2^0
      KnownTable table(500, 64);
      (in_codes ? table.codes[123 * 64 + 63] : table.scales[123 * 2 + 1]) = nan;
      const test::TemporaryFolder folder;
      const auto shard = table.write_shard(folder, 0);
      const auto store = open_shard(shard, storage_of(ways[3]));
      BOOST_TEST(test::read_and_compare(*store, table, {RowId{122}, RowId{124}}).has_value());
      const auto read = test::read_and_compare(*store, table, {RowId{7}, RowId{123}, no_row});
      BOOST_REQUIRE(!read);
      BOOST_TEST((read.error().code == ErrorCode::corrupt));
      BOOST_TEST(read.error().where == shard.codes.file.string());
      BOOST_TEST(read.error().found == std::string("row 123: a ") + (in_codes ? "code" : "scale") + " that is NaN");
    }
  }
}

// 4,096 samples of 20,000 rows would miss one row in five.
BOOST_AUTO_TEST_CASE(a_small_table_is_checked_to_its_last_row) {
  KnownTable table(20'000, 32);
  table.scales[11'111] = std::byte{0xFF};
  const test::TemporaryFolder folder;
  const auto store = open_shard(table.write_shard(folder, 0), storage_of(ways[3]));
  const auto checked = check_rows(*store);
  BOOST_REQUIRE(!checked);
  BOOST_TEST(checked.error().found == "row 11111: a scale that is NaN");
}

BOOST_AUTO_TEST_SUITE_END()
