// Scores of the indexer for many rows, bit by bit: keys, queries and weights on both sides of every bound that decides
// which matrix instructions form them (gpu/cuda/index_integers.cuh).
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "gpu/cuda/index_kernels.hpp"
#include "gpu/index_order.hpp"
#include "gpu/kv_record.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::cuda;
using namespace tandem::gpu::test;

namespace {

constexpr int key_dim = 128, key_blocks = key_dim / index_dims, page_keys = 64;
constexpr std::array<float, 8> digits{0, 0.5F, 1, 1.5F, 2, 3, 4, 6};

// The digits of a block of 32 dimensions: at random, all the largest one, zeros, or zeros with a sign.
enum class Digits { random, largest, zero, minus_zero };

struct KeyShape {
  std::array<int, key_blocks> scales;  // bytes
  Digits digits = Digits::random;
  int zero_block = -1;
};

// Those that are integers, then those that are not. Zeros have the scale that quantising gives them.
const std::vector<KeyShape> near_keys{
    {{127, 127, 127, 127}},
    {{125, 128, 126, 127}},
    {{96, 97, 98, 99}},
    {{163, 160, 160, 162}},
    {{130, 127, 130, 130}, Digits::largest},
    {{1, 1, 1, 1}, Digits::zero},
    {{0, 0, 0, 0}, Digits::zero},
};
const std::vector<KeyShape> far_keys{
    {{127, 131, 127, 127}},
    {{95, 95, 96, 98}},
    {{161, 161, 162, 161}},
    {{110, 140, 127, 120}},
    {{127, 1, 127, 128}, Digits::random, 1},
    {{131, 127, 131, 131}, Digits::largest},
    {{1, 1, 1, 1}, Digits::minus_zero},
};

int random_code(Random& random, Digits kind) {
  const int sign = random.below(2) == 0 ? 0 : 8;
  if (kind == Digits::largest) return 7 | sign;
  if (kind == Digits::minus_zero) return 8;
  return kind == Digits::zero ? 0 : static_cast<int>(random.below(8)) | sign;
}

void write_key(Random& random, const KeyShape& shape, std::byte* record) {
  for (int i = 0; i < key_dim; i += 2) {
    const Digits kind = i / index_dims == shape.zero_block ? Digits::zero : shape.digits;
    record[i / 2] = static_cast<std::byte>(random_code(random, kind) | random_code(random, kind) << 4);
  }
  for (std::size_t b = 0; b < key_blocks; ++b) record[key_dim / 2 + b] = static_cast<std::byte>(shape.scales[b]);
}

// Eight tiles of integers, then one tile of three may have keys of any kind.
Buffer random_keys(Random& random, int count) {
  const std::size_t bytes = record_bytes(RecordFormat::x4, key_dim);
  Buffer keys = Buffer::host(static_cast<std::size_t>((count + page_keys - 1) / page_keys * page_keys) * bytes);
  for (int j = 0; j < count; ++j) {
    const bool is_far = j >= page_keys && j / 8 % 3 == 0 && random.below(3) == 0;
    const std::vector<KeyShape>& shapes = is_far ? far_keys : near_keys;
    const auto any = static_cast<std::size_t>(random.below(static_cast<std::int64_t>(shapes.size())));
    write_key(random, shapes[any], keys.data.get() + static_cast<std::size_t>(j) * bytes);
  }
  return keys;
}

struct ScoreCase {
  int rows, heads;
  int visible;           // of row 0; others see fewer
  int octaves = 3;       // between the blocks of the heads
  int far_row = -1;      // one row with a head whose blocks are four octaves apart
  int query_scale = 0;   // exponent
  int last_weight = 0;   // exponent of row 1's first weight times 2^(u_h + 22), if not 0
  bool narrows = false;  // one block of eight entries in six is a candidate
  int moved_from = -1;   // rows from here on have the pages the other way round
  int taking_row = -1;   // takes all: its scores are 0
};

// Head 0 has the largest digits, head 1 none.
Floats random_queries(Random& random, const ScoreCase& test, int row) {
  Floats queries;
  for (int head = 0; head < test.heads; ++head) {
    for (int b = 0; b < key_blocks; ++b) {
      const int most = row == test.far_row && head == 2 ? 4 : test.octaves;
      const int octaves = b < 2 ? b * most : static_cast<int>(random.below(most + 1));
      for (int i = 0; i < index_dims; ++i) {
        const Digits kind = head == 0 ? Digits::largest : head == 1 ? Digits::zero : Digits::random;
        const int code = random_code(random, kind);
        const float value = std::ldexp(digits[static_cast<std::size_t>(code % 8)], test.query_scale + octaves);
        queries.push_back(code < 8 ? value : -value);
      }
    }
  }
  return queries;
}

Floats random_weights(Random& random, const ScoreCase& test) {
  Floats weights = random.activations(std::int64_t{test.rows} * test.heads);
  for (std::size_t i = 0; i < weights.size(); i += 5) weights[i] = i % 2 == 0 ? 0.0F : -0.0F;
  if (test.last_weight == 0) return weights;
  const int exponent = 2 + test.query_scale + test.octaves;  // of head 0's largest value, 6 * 2^...
  weights[static_cast<std::size_t>(test.heads)] = std::ldexp(-1.0F, test.last_weight - (exponent - 6 + 22));
  return weights;
}

float plain_score(const ScoreCase& test, const float* queries, const float* weights, const Floats& key) {
  std::array<float, index_lanes> lanes{};
  for (int head = 0; head < test.heads; ++head) {
    float dot = 0;
    for (int first = 0; first < key_dim; first += index_dims) {
      float part = 0;
      for (int i = first; i < first + index_dims; ++i) {
        part = std::fma(queries[head * key_dim + i], key[static_cast<std::size_t>(i)], part);
      }
      dot += part;
    }
    float& lane = lanes[static_cast<std::size_t>(head % index_lanes)];
    lane = std::fma(weights[head], std::max(dot, 0.0F), lane);
  }
  for (std::size_t step = index_lanes / 2; step > 0; step /= 2) {
    for (std::size_t l = 0; l < step; ++l) lanes[l] += lanes[l + step];
  }
  return lanes[0];
}

// Words of every row's mask; bits behind its last entry are set as well.
std::vector<std::uint64_t> random_masks(Random& random, const ScoreCase& test, std::size_t words) {
  std::vector<std::uint64_t> masks(static_cast<std::size_t>(test.rows) * words);
  for (std::uint64_t& mask : masks) {
    for (int bit = 0; bit < 64; ++bit) mask |= std::uint64_t{random.below(6) == 0} << bit;
  }
  return masks;
}

int visible_of(const ScoreCase& test, int row) {
  return std::max(1, test.visible - (row < 8 ? 3 : 10) * row);
}

// The pages of the rows, and those of rows from moved_from on.
std::array<std::vector<std::int32_t>, 2> pages_of(const ScoreCase& test) {
  std::array<std::vector<std::int32_t>, 2> pages;
  for (int page = 0; page * page_keys < test.visible; ++page) pages[0].push_back(page);
  pages[1].assign(pages[0].rbegin(), pages[0].rend());
  return pages;
}
bool is_moved(const ScoreCase& test, int row) {
  return test.moved_from >= 0 && row >= test.moved_from;
}

void score(IndexWork work, const std::vector<IndexSource>& rows) {
  Buffer sources = Buffer::host(rows.size() * sizeof rows[0]);
  std::memcpy(sources.data.get(), rows.data(), sources.bytes);
  backends().cuda->memory().place(sources);
  BOOST_REQUIRE(backends().cuda->wait().has_value());
  work.rows = sources.as<IndexSource>();
  BOOST_REQUIRE((score_entries(nullptr, work) == cudaSuccess));
  BOOST_REQUIRE((cudaStreamSynchronize(nullptr) == cudaSuccess));
}

// Scores of listed candidate blocks, at the places that their entries have in `expected`.
Floats listed_scores(const ScoreCase& test, IndexWork work, std::vector<IndexSource> rows) {
  const int blocks = (test.visible + listed_block_entries - 1) / listed_block_entries;
  const DeviceMatrix scores(test.rows, blocks * listed_block_entries), listed(test.rows, blocks, DType::i32),
      counts(test.rows, 1, DType::i32);
  for (IndexSource& row : rows) {
    row.scores = scores.tensor().row<float>(row.row);
    row.listed = listed.tensor().row<std::int32_t>(row.row);
    row.listed_count = counts.tensor().row<std::int32_t>(row.row);
  }
  work.listed_most = blocks;
  score(work, rows);
  const Floats values = scores.floats();
  const std::vector<std::int32_t> numbers = listed.ints(), many = counts.ints();
  Floats found(static_cast<std::size_t>(test.rows * test.visible));
  for (int row = 0; row < test.rows; ++row) {
    const int visible = visible_of(test, row), count = many[static_cast<std::size_t>(row)];
    float* own = found.data() + std::ptrdiff_t{row} * test.visible;
    std::fill_n(own, visible, -std::numeric_limits<float>::infinity());
    BOOST_REQUIRE((count >= 0 && count <= blocks));
    for (int i = 0; i < count * listed_block_entries; ++i) {
      const int block = numbers[static_cast<std::size_t>(row * blocks + i / listed_block_entries)];
      const int entry = block * listed_block_entries + i % listed_block_entries;
      const float value = values[static_cast<std::size_t>(row * blocks * listed_block_entries + i)];
      if (entry < visible) own[entry] = value;
      if (entry >= visible)
        BOOST_TEST(value == -std::numeric_limits<float>::infinity(), "behind the end of row " << row);
    }
  }
  return found;
}

void check_scores(const ScoreCase& test, std::uint32_t seed) {
  Random random(seed);
  const auto pages = pages_of(test);
  const int page_count = static_cast<int>(pages[0].size());
  const Buffer keys = random_keys(random, test.moved_from < 0 ? test.visible : page_count * page_keys);
  Floats queries, weights = random_weights(random, test);
  for (int row = 0; row < test.rows; ++row) {
    const Floats own = random_queries(random, test, row);
    queries.insert(queries.end(), own.begin(), own.end());
  }
  const auto width = static_cast<std::size_t>(test.visible), words = width / 512 + 1;
  std::vector<std::uint64_t> masks = random_masks(random, test, words);
  Floats expected(static_cast<std::size_t>(test.rows) * width);
  for (std::size_t j = 0; j < width; ++j) {
    std::array<Floats, 2> both;
    for (std::size_t list = 0; list < both.size(); ++list) {
      both[list].resize(key_dim);
      if (list == 1 && test.moved_from < 0) continue;
      const std::size_t place = static_cast<std::size_t>(pages[list][j / page_keys]) * page_keys + j % page_keys;
      read_record(RecordFormat::x4, keys.data.get() + place * record_bytes(RecordFormat::x4, key_dim), both[list]);
    }
    for (int row = 0; row < test.rows; ++row) {
      if (static_cast<int>(j) >= visible_of(test, row)) continue;
      const auto r = static_cast<std::size_t>(row);
      float& score = expected[r * width + j];
      score = -std::numeric_limits<float>::infinity();
      if (test.narrows && (masks[r * words + j / 512] >> (j / 8 % 64) & 1U) == 0) continue;
      score = row == test.taking_row
                  ? 0.0F
                  : plain_score(test, queries.data() + std::ptrdiff_t{row} * test.heads * key_dim,
                                weights.data() + row * test.heads, both[is_moved(test, row) ? 1 : 0]);
    }
  }
  const DeviceMatrix device_queries(queries, test.rows), device_weights(weights, test.rows),
      scores(test.rows, test.visible);
  const DeviceMatrix device_pages(pages[0], 1), moved_pages(pages[1], 1);
  Buffer device_keys = copy_of(keys), device_masks = Buffer::host(masks.size() * sizeof masks[0]);
  std::memcpy(device_masks.data.get(), masks.data(), device_masks.bytes);
  backends().cuda->memory().place(device_masks);
  backends().cuda->memory().place(device_keys);
  std::vector<IndexSource> sources;
  for (int row = 0; row < test.rows; ++row) {
    IndexSource source;
    source.pool = device_keys.data.get();
    const DeviceMatrix& own_pages = is_moved(test, row) ? moved_pages : device_pages;
    source.pages = static_cast<const std::int32_t*>(own_pages.tensor().data);
    source.takes_all = row == test.taking_row;
    source.row = row;
    source.visible = visible_of(test, row);
    if (test.narrows) source.candidates = device_masks.as<std::uint64_t>() + static_cast<std::size_t>(row) * words;
    source.scores = scores.tensor().row<float>(row);
    sources.push_back(source);
  }
  IndexWork work{device_queries, device_weights, nullptr, test.rows, test.visible};
  work.narrows = test.narrows;
  work.heads = test.heads;
  work.head_dim = key_dim;
  work.block_size = 8;
  score(work, sources);
  const std::string what = ", seed " + std::to_string(seed) + ", " + std::to_string(test.rows) + " rows";
  check_same("scores" + what, expected, scores.floats());
  if (test.narrows) check_same("listed scores" + what, expected, listed_scores(test, work, sources));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(index_scores)

BOOST_AUTO_TEST_CASE(keys_that_are_integers_score_what_the_order_says) {
  if (!has_device()) return;
  check_scores({8, 32, 64}, 1);
  check_scores({11, 32, 63, 0}, 2);
  check_scores({9, 9, 33, 1}, 3);
}

BOOST_AUTO_TEST_CASE(keys_of_any_scales_score_what_the_order_says) {
  if (!has_device()) return;
  check_scores({17, 32, 701}, 4);
  check_scores({8, 31, 2120, 2}, 5);
  check_scores({9, 17, 333, 3, -1, -30}, 6);
  check_scores({9, 32, 333, 3, -1, 30}, 7);
}

BOOST_AUTO_TEST_CASE(candidates_score_what_the_order_says) {
  if (!has_device()) return;
  check_scores({9, 32, 701, 3, 4, 0, 0, true}, 12);
  check_scores({12, 9, 3000, 0, -1, 0, 47, true}, 13);
}

// Of eight neighbours some are of another sequence, or take all that they see.
BOOST_AUTO_TEST_CASE(rows_among_others_score_what_the_order_says) {
  if (!has_device()) return;
  check_scores({16, 32, 701, 3, -1, 0, 0, false, 3}, 14);
  check_scores({16, 32, 701, 3, 5, 0, 0, false, 3, 4}, 15);
  check_scores({8, 9, 2120, 3, -1, 0, 0, false, -1, 0}, 16);
  check_scores({1, 32, 65, 3, -1, 0, 0, false, -1, 0}, 17);
  check_scores({9, 32, 333, 3, -1, 0, 0, false, 8, 8}, 18);
}

// The row decides for all rows of its block.
BOOST_AUTO_TEST_CASE(rows_of_far_scales_score_what_the_order_says) {
  if (!has_device()) return;
  check_scores({8, 32, 333, 3, 7}, 8);
  check_scores({17, 32, 333, 3, 16}, 9);
  check_scores({8, 32, 333, 4}, 10);
  check_scores({8, 32, 333, 12}, 11);
}

BOOST_AUTO_TEST_CASE(weights_of_any_size_score_what_the_order_says) {
  if (!has_device()) return;
  for (const int exponent : {-60, -49, -48, -47, 47, 48, 49, 60}) {
    check_scores({8, 32, 333, 3, -1, 0, exponent}, static_cast<std::uint32_t>(100 + exponent));
  }
}

BOOST_AUTO_TEST_SUITE_END()
