// Records and the indexer on the device: bytes and choices equal the CPU's.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>

#include "tests/cuda/record_caches.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

void check_bytes(const std::string& what, const Buffer& host, const Buffer& device) {
  const std::vector<std::byte> found = bytes_on_host(device.data.get(), device.bytes);
  BOOST_TEST(std::memcmp(found.data(), host.data.get(), host.bytes) == 0, what);
}

struct IndexCase {
  int heads, dim, topk, block, blocks;
  std::vector<std::int32_t> visible;
  bool ties = false;
  bool alternates = false;  // every five rows belong to the other of two sequences
  int octaves = 0;          // every 32 dimensions have a scale of their own, so many powers of two up or down
};

// Runs a publishing layer and then one that obeys the candidates; compares choices, counts and masks.
void check_index(const IndexCase& test, RecordFormat format) {
  Random random(22);
  const auto rows = static_cast<std::int64_t>(test.visible.size());
  const int most = *std::max_element(test.visible.begin(), test.visible.end());
  const Cache first(random, format, test.dim, most, test.octaves), second(random, format, test.dim, most);
  const std::int64_t words = (most / test.block + 1 + 63) / 64;
  Floats iq = random.activations(rows * test.heads * test.dim), weights = random.activations(rows * test.heads);
  if (test.octaves > 0) iq = with_wild_scales(random, iq, test.octaves);
  if (format == RecordFormat::x4) backends().cpu->quantise_x4(matrix(iq, rows));
  if (test.ties) weights.assign(weights.size(), 0.0F);
  const DeviceMatrix device_iq(iq, rows), device_weights(weights, rows);
  std::vector<std::uint64_t> masks(static_cast<std::size_t>(rows * words));
  const DeviceMatrix device_masks(rows, words, DType::i64);
  for (const bool publishes : {true, false}) {
    std::vector<std::int32_t> selected(static_cast<std::size_t>(rows * test.topk), -7), counts(test.visible.size(), -7);
    const DeviceMatrix device_selected(selected, rows), device_counts(counts, rows);
    std::vector<IndexRow> plain(test.visible.size()), on_device(test.visible.size());
    for (std::size_t t = 0; t < plain.size(); ++t) {
      const auto row = static_cast<std::int64_t>(t);
      const Cache& cache = test.alternates && t / 5 % 2 == 1 ? second : first;
      std::uint64_t* mask = masks.data() + row * words;
      auto* device_mask = device_masks.tensor().row<std::uint64_t>(row);
      plain[t] = {cache.plain,
                  test.visible[t],
                  publishes ? nullptr : mask,
                  publishes ? mask : nullptr,
                  selected.data() + row * test.topk,
                  &counts[t]};
      on_device[t] = {cache.on_device,
                      test.visible[t],
                      publishes ? nullptr : device_mask,
                      publishes ? device_mask : nullptr,
                      device_selected.tensor().row<std::int32_t>(row),
                      device_counts.tensor().row<std::int32_t>(row)};
    }
    backends().cpu->index_select(
        {matrix(iq, rows), matrix(weights, rows), plain, test.heads, test.dim, test.topk, test.block, test.blocks});
    backends().cuda->index_select(
        {device_iq, device_weights, on_device, test.heads, test.dim, test.topk, test.block, test.blocks});
    BOOST_TEST(device_counts.ints() == counts, boost::test_tools::per_element());
    BOOST_TEST((device_selected.ints() == selected), "choice of " << most << " entries, publishes " << publishes);
    BOOST_TEST((device_masks.words() == masks), "masks of " << most << " entries");
  }
}

std::vector<std::int32_t> halves_of(const std::vector<std::uint64_t>& words) {
  std::vector<std::int32_t> halves(2 * words.size());
  std::memcpy(halves.data(), words.data(), words.size() * sizeof(std::uint64_t));
  return halves;
}

// Rows that may choose among the blocks of masks that nobody published: each block with a chance of some
// percent, at most `most` a row, and bits behind the last visible one.
void check_candidates(int topk, int most, const std::vector<std::int32_t>& visible, int percent) {
  Random random(24);
  constexpr int heads = 32, dim = 128, block = 8;
  const auto rows = static_cast<std::int64_t>(visible.size());
  const int entries = std::max(1, *std::max_element(visible.begin(), visible.end()));
  const Cache cache(random, RecordFormat::x4, dim, entries);
  const std::int64_t words = (entries / block + 1 + 63) / 64 + 1;
  Floats iq = random.activations(rows * heads * dim), weights = random.activations(rows * heads);
  backends().cpu->quantise_x4(matrix(iq, rows));
  std::vector<std::uint64_t> masks(static_cast<std::size_t>(rows * words));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t blocks = (visible[static_cast<std::size_t>(row)] + block - 1) / block;
    int set = 0;
    for (std::int64_t b = 0; b < words * 64; ++b) {
      const bool is_set = b >= blocks || (set < most && random.below(100) < percent);
      set += b < blocks && is_set ? 1 : 0;
      if (is_set) masks[static_cast<std::size_t>(row * words + b / 64)] |= std::uint64_t{1} << (b % 64);
    }
  }
  const DeviceMatrix device_iq(iq, rows), device_weights(weights, rows), device_masks(halves_of(masks), rows);
  std::vector<std::int32_t> selected(static_cast<std::size_t>(rows * topk), -7), counts(visible.size(), -7);
  const DeviceMatrix device_selected(selected, rows), device_counts(counts, rows);
  std::vector<IndexRow> plain(visible.size()), on_device(visible.size());
  for (std::size_t t = 0; t < plain.size(); ++t) {
    const auto row = static_cast<std::int64_t>(t);
    plain[t] = {cache.plain, visible[t], masks.data() + row * words, nullptr, selected.data() + row * topk, &counts[t]};
    on_device[t] = {cache.on_device,
                    visible[t],
                    reinterpret_cast<const std::uint64_t*>(device_masks.tensor().row<std::int32_t>(row)),
                    nullptr,
                    device_selected.tensor().row<std::int32_t>(row),
                    device_counts.tensor().row<std::int32_t>(row)};
  }
  backends().cpu->index_select({matrix(iq, rows), matrix(weights, rows), plain, heads, dim, topk, block, most});
  backends().cuda->index_select({device_iq, device_weights, on_device, heads, dim, topk, block, most});
  BOOST_TEST(device_counts.ints() == counts, boost::test_tools::per_element());
  BOOST_TEST((device_selected.ints() == selected),
             "choice among blocks of " << entries << " entries, " << percent << " %");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(selection)

BOOST_AUTO_TEST_CASE(records_written_on_the_device_are_the_hosts_bytes) {
  if (!has_device()) return;
  Random random(20);
  for (const RecordFormat format : {RecordFormat::f32, RecordFormat::w8, RecordFormat::n4, RecordFormat::x4}) {
    for (const int n : {32, 128, 512}) {
      const Ring ring(random, format, n, 40);
      const Cache cache(random, format, n, 200);
      Floats x = random.floats(6 * n, 3.0F);
      std::fill_n(x.begin(), n, 0.0F);                                          // a row of zeros
      for (int i = 0; i < n; ++i) x[static_cast<std::size_t>(n + i)] *= 1e-6F;  // one below every floor
      x[static_cast<std::size_t>(2 * n)] = 6e4F;                                // one dominated by a single value
      const DeviceMatrix device_x(x, 6);
      const std::vector<std::int64_t> positions{0, 39, 42, 81, 1000003, 7};  // no slot twice
      const std::vector<std::int32_t> entries{0, 63, 64, 199, 130, 5};
      const std::vector<RecordRing> rings(6, ring.plain), device_rings(6, ring.on_device);
      const std::vector<PagedRecords> caches(6, cache.plain), device_caches(6, cache.on_device);
      backends().cpu->write_window(matrix(x, 6), rings, positions);
      backends().cuda->write_window(device_x, device_rings, positions);
      check_bytes("window records", ring.host, ring.device);
      backends().cpu->write_entries(matrix(x, 6), caches, entries);
      backends().cuda->write_entries(device_x, device_caches, entries);
      check_bytes("entry records", cache.host, cache.device);
    }
  }
}

BOOST_AUTO_TEST_CASE(quantised_index_queries_equal_the_cpu) {
  if (!has_device()) return;
  Random random(23);
  Floats x = random.floats(5 * 256);
  const DeviceMatrix device_x(x, 5);
  backends().cpu->quantise_x4(matrix(x, 5));
  backends().cuda->quantise_x4(device_x);
  check_same("x4", x, device_x.floats());
}

BOOST_AUTO_TEST_CASE(chosen_entries_and_published_blocks_equal_the_cpu) {
  if (!has_device()) return;
  check_index({5, 32, 16, 8, 4, {1, 15, 16, 17, 18, 64, 65, 200, 700}}, RecordFormat::x4);
  check_index({32, 128, 512, 8, 40, {511, 512, 513, 5000, 4097}}, RecordFormat::x4);
  check_index({8, 128, 16, 8, 4, {0, 40, 129}}, RecordFormat::f32);
}

BOOST_AUTO_TEST_CASE(rows_of_a_chunk_choose_what_the_cpu_chooses) {
  if (!has_device()) return;
  std::vector<std::int32_t> visible;
  for (int row = 0; row < 37; ++row) visible.push_back(row < 5 ? 3 * row : 100 + 7 * row);
  check_index({32, 128, 16, 8, 4, visible}, RecordFormat::x4);
  check_index({8, 128, 16, 8, 4, visible, true}, RecordFormat::x4);
  check_index({16, 128, 64, 8, 9, visible, false, true}, RecordFormat::x4);
  check_index({8, 128, 512, 8, 40, std::vector<std::int32_t>(16, 1500)}, RecordFormat::x4);
}

BOOST_AUTO_TEST_CASE(any_number_of_rows_and_heads_chooses_what_the_cpu_chooses) {
  if (!has_device()) return;
  const std::vector<std::int32_t> visible{1, 2, 63, 64, 65, 127, 128, 129, 700, 31, 32, 33, 2047, 2048, 2049, 600, 601};
  for (const std::size_t rows : {1, 7, 8, 9, 16, 17}) {
    check_index({32, 128, 1, 8, 2, {visible.begin(), visible.begin() + static_cast<std::ptrdiff_t>(rows)}},
                RecordFormat::x4);
  }
  for (const int heads : {1, 9, 31, 33}) check_index({heads, 128, 16, 8, 4, visible}, RecordFormat::x4);
  check_index({32, 128, 16, 5, 4, visible, false, true}, RecordFormat::x4);
  check_index({3, 96, 16, 8, 4, visible}, RecordFormat::x4);
  check_index({3, 40, 16, 8, 4, visible}, RecordFormat::f32);
}

BOOST_AUTO_TEST_CASE(any_mask_of_candidates_is_obeyed) {
  if (!has_device()) return;
  const std::vector<std::int32_t> visible{0, 1, 7, 8, 9, 255, 256, 257, 2047, 2048, 2049, 3000, 4095, 4096, 4097};
  for (const int percent : {0, 2, 50, 100}) check_candidates(64, 513, visible, percent);
  check_candidates(1, 1, visible, 30);
  check_candidates(512, 64, {visible.begin(), visible.begin() + 3}, 100);
  check_candidates(512, 500, std::vector<std::int32_t>(37, 4001), 90);  // several passes a share
  // The longest shares, of rows that do not have room beside each other; each has some 20 candidates.
  check_candidates(512, 2048, std::vector<std::int32_t>(1000, 16400), 1);
  check_candidates(512, 2048, {33001}, 40);  // more scores than a shortlist holds
}

// Where blocks of 32 dimensions differ by many powers of two the order of their sums shows in the result.
BOOST_AUTO_TEST_CASE(blocks_of_far_scales_are_summed_in_the_cpus_order) {
  if (!has_device()) return;
  const std::vector<std::int32_t> visible(11, 3000);
  check_index({32, 128, 512, 8, 40, visible, false, false, 20}, RecordFormat::x4);
  check_index({32, 128, 512, 8, 40, {3000, 2999}, false, false, 20}, RecordFormat::x4);
  check_index({5, 64, 512, 8, 40, {3000}, false, false, 20}, RecordFormat::x4);
}

// Scales of one or two powers of two leave sums exact, of three and more they do so for some keys.
BOOST_AUTO_TEST_CASE(rows_of_near_scales_choose_what_the_cpu_chooses) {
  if (!has_device()) return;
  for (const int octaves : {1, 2, 3, 5}) {
    check_index({32, 128, 512, 8, 40, std::vector<std::int32_t>(11, 3000), false, false, octaves}, RecordFormat::x4);
  }
}

BOOST_AUTO_TEST_CASE(equal_scores_go_to_the_lower_entry) {
  if (!has_device()) return;
  check_index({4, 32, 16, 8, 4, {17, 300, 5000}, true}, RecordFormat::x4);
}

BOOST_AUTO_TEST_CASE(a_context_that_needs_a_shortlist_is_searched_exactly) {
  if (!has_device()) return;
  check_index({32, 128, 512, 8, 2048, {70001}}, RecordFormat::x4);
  check_index({4, 32, 512, 8, 40, {65536, 3, 513, 66001}, true}, RecordFormat::x4);
  check_index({4, 32, 16, 8, 4, {70001, 0, 17, 4096, 4097, 8191, 8192, 8193, 16384, 32768, 32769}}, RecordFormat::x4);
}

BOOST_AUTO_TEST_CASE(a_long_context_is_searched_exactly) {
  if (!has_device()) return;
  check_index({32, 128, 512, 8, 2048, {270001}}, RecordFormat::x4);
  check_index({4, 32, 512, 8, 40, {262144, 3, 513, 263001}, true}, RecordFormat::x4);
  check_index({4, 32, 16, 8, 4, {270001, 0, 17}}, RecordFormat::x4);
}

BOOST_AUTO_TEST_SUITE_END()
