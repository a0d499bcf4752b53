// The tensors of the layers in a trace: all that the golden files hold, with their names, shapes and types, whatever
// the prompt's length, the chunks and the number of ranks.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>

#include "tests/build_paths.hpp"
#include "tests/model/golden_fixture.hpp"
#include "tests/model/trace_fixture.hpp"

namespace tandem::gpu::test {
namespace {

SafetensorsFile trace_with_layers(const TraceFolder& folder, const std::string& numerics, TraceOptions options) {
  options.numerics = numerics;
  options.layers = true;
  options.out = folder.path / (numerics + ".safetensors");
  return run_and_open(options);
}

SafetensorsFile golden_layers(const std::string& file) {
  auto opened = SafetensorsFile::open(golden_model_folder() / (file + ".safetensors"));
  BOOST_REQUIRE(opened.has_value());
  return std::move(*opened);
}

// Compares names, shapes and types with those of a golden file; returns how many there are. Names that begin with a
// prompt's name are the last rows of tensors of another prompt.
int compare_descriptions(const SafetensorsFile& seen, const SafetensorsFile& expected) {
  int compared = 0;
  for (const TensorEntry& wanted : expected.tensors()) {
    if (wanted.name.starts_with("p701.")) continue;
    const TensorEntry* entry = seen.find(wanted.name);
    BOOST_TEST((entry != nullptr), wanted.name << " is missing");
    if (entry == nullptr) continue;
    BOOST_TEST(describe(entry->dtype, entry->shape) == describe(wanted.dtype, wanted.shape), wanted.name);
    ++compared;
  }
  return compared;
}

void expect_same_file(const SafetensorsFile& seen, const SafetensorsFile& expected, const std::string& what) {
  BOOST_TEST(seen.tensors().size() == expected.tensors().size(), what);
  for (const TensorEntry& wanted : expected.tensors()) {
    const TensorEntry* entry = seen.find(wanted.name);
    BOOST_REQUIRE_MESSAGE(entry != nullptr, what << ": " << wanted.name << " is missing");
    BOOST_TEST(describe(entry->dtype, entry->shape) == describe(wanted.dtype, wanted.shape),
               what << ": " << wanted.name);
    BOOST_TEST((*seen.read_all(wanted.name) == *expected.read_all(wanted.name)), what << ": " << wanted.name);
  }
}

std::vector<std::int64_t> shape_of(const SafetensorsFile& file, const std::string& name) {
  const TensorEntry* entry = file.find(name);
  BOOST_REQUIRE_MESSAGE(entry != nullptr, name);
  return entry->shape;
}

TraceOptions prompt_of(const TraceFolder& folder, std::size_t length) {
  TraceOptions options = trace_of_p41(folder);
  options.ids.resize(length);
  return options;
}

using Shape = std::vector<std::int64_t>;

}  // namespace

BOOST_AUTO_TEST_SUITE(trace_layers)

BOOST_AUTO_TEST_CASE(every_tensor_of_the_golden_files_is_written_with_its_shape_and_type) {
  const TraceFolder folder;
  const TraceOptions options = trace_of_p41(folder);
  BOOST_TEST(compare_descriptions(trace_with_layers(folder, "s32", options), golden_layers("layers")) == 205);
  BOOST_TEST(compare_descriptions(trace_with_layers(folder, "noq8", options), golden_layers("layers_noq8")) == 42);
  BOOST_TEST(compare_descriptions(trace_with_layers(folder, "q32", options), golden_layers("layers_q32")) == 42);
}

BOOST_AUTO_TEST_CASE(types_follow_the_roundings_of_the_numerics) {
  const TraceFolder folder;
  const TraceOptions options = prompt_of(folder, 5);
  BOOST_TEST(compare_descriptions(trace_with_layers(folder, "serve", options),
                                  trace_with_layers(folder, "s32", options)) > 205);
  const SafetensorsFile fp32 = trace_with_layers(folder, "fp32", options);
  BOOST_TEST(compare_descriptions(fp32, trace_with_layers(folder, "q32", options)) > 205);
  for (const TensorEntry& entry : fp32.tensors()) BOOST_TEST((entry.dtype != DType::bf16), entry.name);
}

// 1: no pair completes. 3: an open pair. 17: one beyond the window and topk. 9, 33: one beyond a candidate block.
BOOST_AUTO_TEST_CASE(shapes_follow_the_length_of_any_prompt) {
  const TraceFolder folder;
  const SafetensorsFile golden_file = golden_layers("layers");
  for (const std::int64_t length : {1, 2, 3, 9, 16, 17, 33}) {
    const SafetensorsFile file = trace_with_layers(folder, "s32", prompt_of(folder, static_cast<std::size_t>(length)));
    int names = 0;
    for (const TensorEntry& wanted : golden_file.tensors()) {
      if (!wanted.name.starts_with("p701.")) names += file.find(wanted.name) != nullptr;
    }
    BOOST_TEST(names == 205, length << " ids");
    for (const std::string site : {"latent", "ik", "ik_pre_x4", "ckv", "ckv_pre_n4"}) {
      BOOST_TEST(shape_of(file, "layers.2." + site) == (Shape{length / 2, 128}), length << " " << site);
      BOOST_TEST(shape_of(file, "layers.6." + site) == (Shape{length, 128}), length << " " << site);
    }
    BOOST_TEST(shape_of(file, "layers.4.index_score") == (Shape{length, length / 2}), length);
    BOOST_TEST(shape_of(file, "layers.8.index_score") == (Shape{length, length}), length);
    BOOST_TEST(shape_of(file, "layers.6.cand") == (Shape{length, length}), length);
    BOOST_TEST(shape_of(file, "layers.2.sel") == (Shape{length, 16}), length);
    BOOST_TEST(shape_of(file, "layers.2.sel_margin") == (Shape{length}), length);
    BOOST_TEST(shape_of(file, "main_hidden") == (Shape{length, 768}), length);
  }
}

BOOST_AUTO_TEST_CASE(chunks_of_any_size_change_no_bit_of_the_file) {
  const TraceFolder folder, other;
  for (const std::string numerics : {"serve", "s32", "fp32"}) {
    TraceOptions options = trace_of_p41(folder);
    const SafetensorsFile whole = trace_with_layers(folder, numerics, options);
    for (const int chunk : {1, 7, 40}) {
      options.chunk = chunk;
      expect_same_file(trace_with_layers(other, numerics, options), whole, numerics + " " + std::to_string(chunk));
    }
  }
}

BOOST_AUTO_TEST_CASE(two_ranks_write_the_file_of_one) {
  const TraceFolder folder, other;
  TraceOptions options = trace_of_p41(folder);
  const SafetensorsFile one = trace_with_layers(folder, "serve", options);
  options.ranks = 2;
  options.chunk = 7;
  expect_same_file(trace_with_layers(other, "serve", options), one, "two ranks");
}

// The other modes form partial sums in FP32 on several ranks, so bits may differ; what is written does not.
BOOST_AUTO_TEST_CASE(two_ranks_write_the_same_tensors_in_every_mode) {
  const TraceFolder folder, other;
  for (const std::string numerics : {"fp32", "q32", "s32", "noq8"}) {
    TraceOptions options = prompt_of(folder, 17);
    const SafetensorsFile one = trace_with_layers(folder, numerics, options);
    options.ranks = 2;
    const SafetensorsFile two = trace_with_layers(other, numerics, options);
    BOOST_TEST(compare_descriptions(two, one) == compare_descriptions(one, two), numerics);
    if (numerics != "fp32") continue;
    for (const TensorEntry& entry : one.tensors()) {
      if (entry.dtype != DType::f32 || entry.bytes == 0) continue;
      const double error = relative_l2(floats_of(two, entry.name), floats_of(one, entry.name));
      BOOST_TEST(error < 1e-5, entry.name << ": " << error);
    }
  }
}

BOOST_AUTO_TEST_CASE(margins_are_infinite_where_nothing_is_dropped) {
  const TraceFolder folder;
  const SafetensorsFile file = trace_with_layers(folder, "s32", trace_of_p41(folder));
  const auto pairs = floats_of(file, "layers.2.sel_margin"), singles = floats_of(file, "layers.6.sel_margin");
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    BOOST_TEST(std::isinf(pairs[row]) == ((row + 1) / 2 <= 16), row);
    BOOST_TEST(std::isinf(singles[row]) == (row + 1 <= 16), row);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
