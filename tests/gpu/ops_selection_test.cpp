// Index selection against a plain sort, attention over rings and pages, and the row rules of experts and attention.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "gpu/cpu/cpu_ops.hpp"
#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/cpu/top_k.hpp"
#include "gpu/index_order.hpp"
#include "tests/gpu/golden_ops_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

BOOST_AUTO_TEST_SUITE(ops_selection)

namespace {

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

Tensor matrix(std::vector<float>& values, std::int64_t rows) {
  return Tensor::f32(values.data(), rows, static_cast<std::int64_t>(values.size()) / rows);
}

// A paged cache of random records whose pages lie in reverse order.
struct Cache {
  Cache(RecordFormat format, int n, int entries, unsigned seed)
      : values(random_floats(static_cast<std::size_t>(n) * static_cast<std::size_t>(entries), seed)) {
    const int count = (entries + page_entries - 1) / page_entries;
    for (int p = 0; p < count; ++p) pages.push_back(count - 1 - p);
    pool.resize(static_cast<std::size_t>(count * page_entries) * record_bytes(format, n));
    view = {pool.data(), pages.data(), n, format};
    for (int j = 0; j < entries; ++j) {
      const std::span<float> row(values.data() + static_cast<std::size_t>(j * n), static_cast<std::size_t>(n));
      write_record(format, row, view.at(j));
      read_record(format, view.at(j), row);
    }
  }
  std::vector<float> values;  // as stored
  std::vector<std::int32_t> pages;
  std::vector<std::byte> pool;
  PagedRecords view;
};

constexpr int heads = 5, dim = 32, topk = 16, block = 8;

struct Selection {
  std::vector<std::int32_t> selected = std::vector<std::int32_t>(topk, -7);
  std::int32_t count = -7;
  std::vector<std::uint64_t> mask = std::vector<std::uint64_t>(8, ~std::uint64_t{0});
};

// Runs the indexer for rows that see visible[t] entries.
std::vector<Selection> select(int threads, const Cache& cache, std::vector<float> iq, std::vector<float> weights,
                              const std::vector<std::int32_t>& visible, const std::uint64_t* candidates) {
  std::vector<Selection> out(visible.size());
  std::vector<IndexRow> rows(visible.size());
  for (std::size_t t = 0; t < rows.size(); ++t) {
    rows[t] = {cache.view, visible[t], candidates, out[t].mask.data(), out[t].selected.data(), &out[t].count};
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  make_cpu_ops(threads)->index_select({matrix(iq, count), matrix(weights, count), rows, heads, dim, topk, block, 4});
  return out;
}

std::vector<float> plain_scores(const Cache& cache, const std::vector<float>& iq, const std::vector<float>& weights,
                                std::size_t t, int visible) {
  std::vector<float> scores;
  for (int j = 0; j < visible; ++j) {
    double sum = 0;
    for (int h = 0; h < heads; ++h) {
      double dot = 0;
      for (int i = 0; i < dim; ++i)
        dot += double{iq[(t * heads + static_cast<std::size_t>(h)) * dim + static_cast<std::size_t>(i)]} *
               cache.values[static_cast<std::size_t>(j * dim + i)];
      sum += weights[t * heads + static_cast<std::size_t>(h)] * std::max(dot, 0.0);
    }
    scores.push_back(static_cast<float>(sum));
  }
  return scores;
}

std::vector<std::int32_t> plain_top(const std::vector<float>& scores, std::size_t count) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(count, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

BOOST_AUTO_TEST_CASE(top_k_prefers_high_scores_then_low_indices_and_never_takes_minus_infinity_or_nan) {
  TopK top;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto chosen = [&](std::vector<float> scores, std::int64_t k) {
    const auto span = top.select(scores, k);
    return std::vector<std::int32_t>(span.begin(), span.end());
  };
  BOOST_TEST((chosen({0, 1, 1, 1, 2}, 3) == std::vector<std::int32_t>{1, 2, 4}));
  BOOST_TEST((chosen({-0.0F, 0, 0}, 1) == std::vector<std::int32_t>{0}));
  BOOST_TEST((chosen({-inf, nan, -3, inf}, 4) == std::vector<std::int32_t>{2, 3}));
  BOOST_TEST(chosen({}, 4).empty());
  BOOST_TEST(chosen({1, 2}, 0).empty());
}

BOOST_AUTO_TEST_CASE(top_k_of_a_million_equals_a_sort) {
  auto scores = random_floats(1'000'000, 3);
  for (std::size_t i = 0; i < scores.size(); i += 3) scores[i] = 0;  // relu makes many exact ties
  TopK top;
  const auto span = top.select(scores, 400'000);
  const std::vector<std::int32_t> chosen(span.begin(), span.end());
  BOOST_TEST((chosen == plain_top(scores, 400'000)));
}

namespace {

// gpu/index_order.hpp, word for word.
float ordered_score(const std::vector<float>& q, const std::vector<float>& weights, const float* key, std::size_t n) {
  std::array<float, index_lanes> sums{};
  for (std::size_t h = 0; h < weights.size(); ++h) {
    float dot_product = 0;
    for (std::size_t first = 0; first < n; first += index_dims) {
      float part = 0;
      for (std::size_t i = first; i < std::min(first + index_dims, n); ++i) part = std::fma(q[h * n + i], key[i], part);
      dot_product += part;
    }
    float& sum = sums[h % index_lanes];
    sum = std::fma(weights[h], std::max(dot_product, 0.0F), sum);
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace

BOOST_AUTO_TEST_CASE(scores_have_the_bits_of_the_written_order_for_every_shape) {
  for (const std::size_t n : {1U, 31U, 32U, 33U, 96U, 128U}) {
    for (const std::size_t count : {1U, 3U, 4U, 7U, 8U, 9U, 32U}) {
      const auto q = random_floats(count * n, 50), weights = random_floats(count, 51);
      const auto keys = random_floats(simd::index_block * n, 52);
      std::vector<float> transposed(keys.size()), scores(simd::index_block);
      simd::transpose_keys(keys.data(), static_cast<int>(n), transposed.data());
      simd::score_index_block(
          {q.data(), weights.data(), transposed.data(), static_cast<int>(count), static_cast<int>(n), scores.data()});
      std::vector<float> expected;
      for (std::size_t t = 0; t < scores.size(); ++t) {
        expected.push_back(ordered_score(q, weights, keys.data() + t * n, n));
      }
      BOOST_TEST((scores == expected), "dimensions " << n << ", heads " << count);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_indexer_selects_what_plain_scores_select_for_every_visible_length) {
  const Cache cache(RecordFormat::x4, dim, 300, 4);
  const std::vector<std::int32_t> visible = {0, 1, 15, 16, 17, 63, 64, 65, 130, 300};
  const auto iq = random_floats(visible.size() * heads * dim, 5), weights = random_floats(visible.size() * heads, 6);
  const auto chosen = select(2, cache, iq, weights, visible, nullptr);
  for (std::size_t t = 0; t < visible.size(); ++t) {
    const auto scores = plain_scores(cache, iq, weights, t, visible[t]);
    const auto expected = plain_top(scores, topk);
    BOOST_TEST(chosen[t].count == static_cast<std::int32_t>(expected.size()));
    BOOST_TEST(std::equal(expected.begin(), expected.end(), chosen[t].selected.begin()), "visible " << visible[t]);
    BOOST_TEST(std::all_of(chosen[t].selected.begin() + chosen[t].count, chosen[t].selected.end(),
                           [](std::int32_t i) { return i == -1; }));
  }
}

BOOST_AUTO_TEST_CASE(published_blocks_are_the_best_ones_with_the_newest_pinned_and_bound_later_choices) {
  const Cache cache(RecordFormat::x4, dim, 300, 7);
  const std::vector<std::int32_t> visible = {300, 7, 131};
  const auto iq = random_floats(3 * heads * dim, 8), weights = random_floats(3 * heads, 9);
  const auto published = select(2, cache, iq, weights, visible, nullptr);
  const auto scores = plain_scores(cache, iq, weights, 0, 300);
  std::vector<float> best(38, -std::numeric_limits<float>::infinity());
  for (std::size_t j = 0; j < 300; ++j) best[j / block] = std::max(best[j / block], scores[j]);
  best[37] = std::numeric_limits<float>::infinity();
  std::uint64_t expected = 0;
  for (const std::int32_t b : plain_top(best, 4)) expected |= std::uint64_t{1} << b;
  BOOST_TEST(published[0].mask[0] == expected);
  BOOST_TEST(published[1].mask[0] == 1U);  // seven entries: one block, everything
  const auto bounded = select(2, cache, iq, weights, {300, 300, 300}, published[0].mask.data());
  auto inside = scores;
  for (std::size_t j = 0; j < 300; ++j)
    if ((expected >> (j / block) & 1U) == 0) inside[j] = -std::numeric_limits<float>::infinity();
  const auto wanted = plain_top(inside, topk);
  BOOST_TEST(std::equal(wanted.begin(), wanted.end(), bounded[0].selected.begin()));
}

BOOST_AUTO_TEST_CASE(a_rows_selection_does_not_depend_on_other_rows_or_threads_and_survives_nan) {
  const Cache cache(RecordFormat::x4, dim, 300, 10);
  auto iq = random_floats(3 * heads * dim, 11);
  const auto weights = random_floats(3 * heads, 12);
  const auto clean = select(1, cache, iq, weights, {300, 299, 200}, nullptr);
  std::fill_n(iq.begin(), heads * dim, std::numeric_limits<float>::quiet_NaN());
  const auto broken = select(3, cache, iq, weights, {300, 299, 200}, nullptr);
  BOOST_TEST((broken[1].selected == clean[1].selected));
  BOOST_TEST((broken[2].selected == clean[2].selected));
  BOOST_TEST(broken[0].count <= topk);
}

BOOST_AUTO_TEST_CASE(attention_reads_rings_and_pages_and_a_rows_bits_are_its_own) {
  constexpr int d = 64, h = 20, slots = 40;
  std::vector<std::byte> ring_bytes(slots * record_bytes(RecordFormat::w8, d));
  const RecordRing ring{ring_bytes.data(), slots, d, RecordFormat::w8};
  const auto window = random_floats(200 * d, 20);
  std::vector<float> stored(200 * d);
  for (int p = 160; p < 200; ++p) {
    write_record(RecordFormat::w8, {window.data() + p * d, d}, ring.at(p));
    read_record(RecordFormat::w8, ring.at(p), {stored.data() + p * d, d});
  }
  const Cache cache(RecordFormat::n4, d, 150, 21);
  std::vector<std::int32_t> selected(90);
  std::iota(selected.begin(), selected.end(), 30);
  const std::vector<AttentionRow> rows = {{ring, 165, 199, cache.view, selected.data(), 90},
                                          {ring, 180, 180, cache.view, nullptr, 0}};
  auto q = random_floats(2 * h * d, 22);
  const auto sink = random_floats(h, 23);
  std::vector<float> out(q.size()), alone(q.size() / 2);
  make_cpu_ops(3)->attention({matrix(q, 2), rows, sink.data(), h, d, false, matrix(out, 2)});
  make_cpu_ops(1)->attention(
      {matrix(q, 2).slice_rows(0, 1), std::span(rows).first(1), sink.data(), h, d, false, matrix(alone, 1)});
  BOOST_TEST(std::equal(alone.begin(), alone.end(), out.begin()));
  std::vector<const float*> keys;
  for (int p = 165; p < 200; ++p) keys.push_back(stored.data() + p * d);
  for (const std::int32_t j : selected) keys.push_back(cache.values.data() + j * d);
  std::vector<float> expected;
  for (int head = 0; head < h; ++head) {
    double total = std::exp(double{sink[static_cast<std::size_t>(head)]});
    std::vector<double> sum(d);
    for (const float* key : keys) {
      double dot = 0;
      for (int i = 0; i < d; ++i) dot += double{q[static_cast<std::size_t>(head * d + i)]} * key[i];
      const double p = std::exp(dot / 8);
      total += p;
      for (int i = 0; i < d; ++i) sum[static_cast<std::size_t>(i)] += p * key[i];
    }
    for (const double value : sum) expected.push_back(static_cast<float>(value / total));
  }
  BOOST_TEST(relative_l2(alone, expected) < 1e-6);
}

BOOST_AUTO_TEST_CASE(expert_slices_sum_to_the_finished_output_and_rows_are_independent) {
  constexpr std::int64_t width = 64, inter = 32, rows = 9, experts = 5, slots = 2;
  unsigned seed = 30;
  const auto linear = [&](std::int64_t n, std::int64_t k) {
    Linear w;
    w.format = WeightFormat::f32;
    w.n = n;
    w.k = k;
    w.codes = buffer_of(random_floats(static_cast<std::size_t>(n * k), seed++));
    return w;
  };
  const auto expert = [&] {
    return ExpertWeights{linear(inter, width),
                         linear(inter, width),
                         {{linear(width, inter / 2), linear(width, inter / 2)}, width, inter}};
  };
  MoeWeights weights;
  for (int e = 0; e < experts; ++e) weights.experts.push_back(expert());
  weights.shared = expert();
  auto x = random_floats(rows * width, 90);
  std::vector<std::int32_t> ids;
  std::vector<float> shares;
  for (int t = 0; t < rows; ++t) {
    ids.insert(ids.end(), {t % 5, (t + 2) % 5});
    shares.insert(shares.end(), {0.75F, 0.5F});
  }
  const auto run = [&](int threads, std::int64_t first, std::int64_t count, bool partials) {
    std::vector<float> out(static_cast<std::size_t>((partials ? 2 : 1) * count * width));
    MoeCall call;
    call.x = matrix(x, rows).slice_rows(first, count);
    call.routing = {Tensor::i32(ids.data() + first * slots, count, slots),
                    Tensor::f32(shares.data() + first * slots, count, slots)};
    call.weights = &weights;
    call.numerics = {.bf16_activations = false, .kv_quantisers = false, .q8 = false, .fp32_partials = partials};
    call.out = Tensor::f32(out.data(), (partials ? 2 : 1) * count, width);
    make_cpu_ops(threads)->moe(call);
    return out;
  };
  const auto finished = run(2, 0, rows, false), partial = run(3, 0, rows, true), alone = run(1, 4, 1, true);
  std::vector<float> sum(finished.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = partial[i] + partial[sum.size() + i];
  BOOST_TEST(relative_l2(sum, finished) < 1e-6);
  BOOST_TEST(std::equal(alone.begin(), alone.begin() + width, partial.begin() + 4 * width));
  BOOST_TEST(std::equal(alone.begin() + width, alone.end(), partial.begin() + (rows + 4) * width));
}

BOOST_AUTO_TEST_SUITE_END()
