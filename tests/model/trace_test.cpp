// The trace function: its file, its modes and its refusals.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "gpu/checkpoint/safetensors.hpp"
#include "gpu/trace.hpp"
#include "tests/model/engine_fixture.hpp"
#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {
namespace {

// A folder that disappears with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tandem_trace_XXXXXX").string();
    BOOST_REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

TraceOptions options_for(const Folder& folder) {
  TraceOptions options;
  options.model = golden_checkpoint();
  options.ids = tokens_of("p41");
  options.out = folder.path / "trace.safetensors";
  return options;
}

SafetensorsFile run(const TraceOptions& options) {
  const auto done = run_trace(options);
  if (!done) BOOST_FAIL(done.error().message());
  auto file = SafetensorsFile::open(options.out);
  BOOST_REQUIRE(file.has_value());
  return std::move(*file);
}

std::vector<float> floats(const SafetensorsFile& file, const char* name) {
  const auto bytes = file.read_all(name);
  BOOST_REQUIRE(bytes.has_value());
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(trace)

BOOST_AUTO_TEST_CASE(fp32_logits_and_decode_equal_the_reference) {
  const Folder folder;
  TraceOptions options = options_for(folder);
  options.numerics = "fp32";
  options.ids = tokens_of("p97");
  options.then = tokens_of("continuation");
  options.chunk = 41;
  const SafetensorsFile file = run(options);
  BOOST_TEST(file.find("logits")->shape == (std::vector<std::int64_t>{97, 256}), boost::test_tools::per_element());
  BOOST_TEST(relative_l2(floats(file, "decode"), golden("decode", "fp32.p97").values) < 1e-5);
}

BOOST_AUTO_TEST_CASE(bursts_of_drafts_and_ranks_change_no_bit) {
  const Folder folder;
  TraceOptions options = options_for(folder);
  options.then = tokens_of("continuation");
  const SafetensorsFile plain = run(options);
  options.out = folder.path / "spec.safetensors";
  options.spec = 4;
  options.chunk = 7;
  options.ranks = 2;
  const SafetensorsFile spec = run(options);
  BOOST_TEST((floats(spec, "logits") == floats(plain, "logits")));
  BOOST_TEST((floats(spec, "decode") == floats(plain, "decode")));
  BOOST_TEST(spec.find("draft")->shape.back() == 4);
  BOOST_TEST(spec.find("accepted")->shape.front() == spec.find("draft")->shape.front());
}

BOOST_AUTO_TEST_CASE(layers_have_the_names_and_shapes_of_the_golden_file) {
  const Folder folder;
  TraceOptions options = options_for(folder);
  options.numerics = "s32";
  options.layers = true;
  const SafetensorsFile file = run(options);
  const auto expected =
      SafetensorsFile::open(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/golden/model/layers.safetensors");
  BOOST_REQUIRE(expected.has_value());
  int shared = 0;
  for (const TensorEntry& entry : file.tensors()) {
    const TensorEntry* golden_entry = expected->find(entry.name);
    if (golden_entry == nullptr) continue;
    BOOST_TEST(entry.shape == golden_entry->shape, entry.name);
    ++shared;
  }
  // All but what no engine writes down: margins, scores, raw gates and the unsplit mixes.
  BOOST_TEST(shared == 180);
}

BOOST_AUTO_TEST_CASE(wrong_options_write_nothing) {
  const Folder folder;
  const auto refused = [&](auto change) {
    TraceOptions options = options_for(folder);
    change(options);
    const auto result = run_trace(options);
    BOOST_REQUIRE(!result.has_value());
    BOOST_TEST((result.error().code == ErrorCode::invalid_argument), result.error().message());
    BOOST_TEST(!std::filesystem::exists(options.out));
  };
  refused([](TraceOptions& options) { options.ids.clear(); });
  refused([](TraceOptions& options) { options.ids.push_back(256); });
  refused([](TraceOptions& options) { options.then = {-1}; });
  refused([](TraceOptions& options) { options.numerics = "fp64"; });
  refused([](TraceOptions& options) { options.chunk = -1; });
  refused([](TraceOptions& options) { options.ranks = 0; });
  refused([](TraceOptions& options) { options.spec = 6; });
  refused([](TraceOptions& options) {
    options.layers = true;
    options.ranks = 2;
  });
}

BOOST_AUTO_TEST_CASE(token_files_hold_ids_and_white_space_only) {
  const Folder folder;
  const auto read = [&](const char* text) {
    std::ofstream(folder.path / "ids") << text;
    return read_token_ids(folder.path / "ids");
  };
  BOOST_TEST(*read(" 1\n22\t3 ") == (std::vector<std::int32_t>{1, 22, 3}), boost::test_tools::per_element());
  BOOST_TEST(read("")->empty());
  for (const char* text : {"1,2", "-1", "x", "4294967296", "1.5"}) {
    BOOST_TEST((read(text).error().code == ErrorCode::bad_format), text);
  }
  BOOST_TEST((read_token_ids(folder.path / "none").error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
