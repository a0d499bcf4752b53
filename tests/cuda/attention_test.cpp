// Attention over window and entries: the CPU's bits in FP32; on matrix units close to the CPU's numbers, and the same
// bits for a row whatever is attended to beside it.
#include <boost/test/unit_test.hpp>

#include "gpu/rope_table.hpp"
#include "tests/cuda/record_caches.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

struct Attended {
  std::int64_t last = 0;  // window_last
  std::int64_t window = 0;
  std::vector<std::int32_t> selected;
};

std::vector<std::int32_t> every_third(int count) {
  std::vector<std::int32_t> entries;
  for (int i = 0; i < count; ++i) entries.push_back(3 * i + 1);
  return entries;
}

const std::vector<Attended>& six_rows() {
  static const std::vector<Attended> rows{{0, 1, {}},
                                          {127, 128, {}},
                                          {500, 128, every_third(200)},
                                          {149, 1, {699}},
                                          {300, 100, every_third(63)},
                                          {1000003, 64, every_third(64)}};
  return rows;
}

struct AttentionCase {
  RecordFormat window, entry;
  int heads, dim;
  std::vector<Attended> rows;
  std::int64_t topk = 200;
};

// Rows of one case with their records on both sides.
class AttentionPair {
 public:
  explicit AttentionPair(const AttentionCase& test)
      : test_(test),
        random_(21),
        ring_(random_, test.window, test.dim, 150),
        cache_(random_, test.entry, test.dim, 700),
        selected_(test.rows.size() * static_cast<std::size_t>(test.topk), -1) {
    for (std::size_t t = 0; t < test.rows.size(); ++t) {
      std::copy(test.rows[t].selected.begin(), test.rows[t].selected.end(),
                selected_.begin() + static_cast<std::ptrdiff_t>(t) * test.topk);
    }
    device_selected_ = std::make_unique<DeviceMatrix>(selected_, count());
    for (std::size_t t = 0; t < test.rows.size(); ++t) add_row(t);
    q_ = random_.activations(count() * width(), 2.0F);
    sink_ = dense(random_.floats(test.heads), 1);
    device_sink_ = placed(sink_);
    angles_.place(backends().cuda->memory());
  }

  Floats on_cpu(bool round) {
    Floats q = q_, out(q.size());
    backends().cpu->attention(
        {matrix(q, count()), plain_, sink_.data(), test_.heads, test_.dim, round, matrix(out, count())});
    return out;
  }

  // The rows `piece` at a time, each time as a call of its own.
  Floats on_device(bool round, std::int64_t piece, bool turns = false) {
    const DeviceMatrix q(q_, count()), out(count(), width());
    for (std::int64_t first = 0; first < count(); first += piece) {
      const std::int64_t rows = std::min(piece, count() - first);
      const std::span<const AttentionRow> sources(on_device_.data() + first, static_cast<std::size_t>(rows));
      const AttentionCall call{
          q.tensor().slice_rows(first, rows),  sources, device_sink_.data(), test_.heads, test_.dim, round,
          out.tensor().slice_rows(first, rows)};
      const AttentionAngles angles{std::span(positions_).subspan(static_cast<std::size_t>(first), sources.size()),
                                   angles_.view()};
      turns ? backends().cuda->rotated_attention(call, angles) : backends().cuda->attention(call);
    }
    return out.floats();
  }

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(test_.rows.size()); }

 private:
  std::int64_t width() const noexcept { return std::int64_t{test_.heads} * test_.dim; }

  void add_row(std::size_t t) {
    AttentionRow row;
    row.window = ring_.plain;
    row.window_last = test_.rows[t].last;
    row.window_first = row.window_last - test_.rows[t].window + 1;
    row.compressed = cache_.plain;
    row.selected = selected_.data() + static_cast<std::ptrdiff_t>(t) * test_.topk;
    row.selected_count = test_.topk;
    plain_.push_back(row);
    row.window = ring_.on_device;
    row.compressed = cache_.on_device;
    row.selected = device_selected_->tensor().row<std::int32_t>(static_cast<std::int64_t>(t));
    on_device_.push_back(row);
    positions_.push_back(row.window_last % 4096);
  }

  AttentionCase test_;
  Random random_;
  Ring ring_;
  Cache cache_;
  std::vector<std::int32_t> selected_;
  std::unique_ptr<DeviceMatrix> device_selected_;
  std::vector<AttentionRow> plain_, on_device_;
  std::vector<std::int64_t> positions_;
  Floats q_;
  DenseF32 sink_, device_sink_;
  RopeTable angles_{RopeConfig{}, 64, RopeKind::compressed, 4096};
};

std::string title_of(const AttentionCase& test) {
  return "attention " + std::to_string(test.rows.size()) + "x" + std::to_string(test.heads) + "x" +
         std::to_string(test.dim);
}

void check_bits(const AttentionCase& test, bool round) {
  AttentionPair pair(test);
  check_same(title_of(test), pair.on_cpu(round), pair.on_device(round, pair.count()));
}

void check_numbers(const AttentionCase& test) {
  AttentionPair pair(test);
  check_near(title_of(test), test.dim, pair.on_cpu(true), pair.on_device(true, pair.count()));
}

std::vector<Attended> repeated(const std::vector<Attended>& rows, int times) {
  std::vector<Attended> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(attention_in_fp32_has_the_cpus_bits) {
  if (!has_device()) return;
  for (const bool round : {true, false}) {
    check_bits({RecordFormat::w8, RecordFormat::n4, 3, 64, six_rows()}, round);
    check_bits({RecordFormat::f32, RecordFormat::f32, 9, 128, six_rows()}, round);
    check_bits({RecordFormat::f32, RecordFormat::f32, 1, 512, {six_rows()[2]}}, round);
    check_bits({RecordFormat::w8, RecordFormat::x4, 2, 512, six_rows()}, round);
    // Enough rows and heads that a head has one warp instead of eight.
    check_bits({RecordFormat::w8, RecordFormat::n4, 9, 64, repeated(six_rows(), 20)}, round);
  }
  check_bits({RecordFormat::w8, RecordFormat::n4, 8, 512, six_rows()}, false);  // weights are not rounded
}

BOOST_AUTO_TEST_CASE(attention_on_matrix_units_is_close_to_the_cpus) {
  if (!has_device()) return;
  check_numbers({RecordFormat::w8, RecordFormat::n4, 8, 512, six_rows()});
  check_numbers({RecordFormat::w8, RecordFormat::w8, 33, 512, six_rows()});
  check_numbers({RecordFormat::w8, RecordFormat::n4, 32, 512, {six_rows()[2]}});
  check_numbers({RecordFormat::w8, RecordFormat::n4, 9, 512, repeated(six_rows(), 20)});
}

BOOST_AUTO_TEST_CASE(a_row_has_one_result_whatever_is_attended_to_beside_it) {
  if (!has_device()) return;
  struct Pieces {
    RecordFormat entry;
    bool turns;
    std::vector<std::int64_t> rows;
  };
  const Pieces all[] = {
      {RecordFormat::n4, false, {17, 25}}, {RecordFormat::n4, true, {1, 24}}, {RecordFormat::w8, true, {1}}};
  for (const Pieces& pieces : all) {
    // Rows times heads choose between two kernels: 24 rows of 21 heads are still few.
    AttentionPair pair({RecordFormat::w8, pieces.entry, 21, 512, repeated(six_rows(), 5)});
    const Floats together = pair.on_device(true, pair.count(), pieces.turns);
    for (const std::int64_t piece : pieces.rows) {
      check_same("pieces of " + std::to_string(piece), together, pair.on_device(true, piece, pieces.turns));
    }
  }
}

BOOST_AUTO_TEST_CASE(room_for_more_keys_than_few_rows_are_cut_for_changes_no_bit) {
  if (!has_device()) return;
  std::vector<std::int32_t> entries(512);
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<std::int32_t>(i);
  const std::vector<Attended> rows{{500, 128, entries}, {500, 128, every_third(200)}, {127, 128, {}}};
  AttentionPair cut({RecordFormat::w8, RecordFormat::n4, 5, 512, rows, 512});
  AttentionPair whole({RecordFormat::w8, RecordFormat::n4, 5, 512, rows, 513});
  const Floats expected = whole.on_device(true, 3);
  check_near("640 keys", 512, whole.on_cpu(true), expected);
  check_same("640 keys", expected, cut.on_device(true, 3));
}

BOOST_AUTO_TEST_SUITE_END()
