// Every trace writes into a temporary folder of its own and is read back from its file.
#include "tests/model/trace_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>

#include "tests/model/engine_fixture.hpp"
#include "tests/model/golden_fixture.hpp"

namespace tandem::gpu::test {

TraceFolder::TraceFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tandem_trace_XXXXXX").string();
  BOOST_REQUIRE(mkdtemp(pattern.data()) != nullptr);
  path = pattern;
}

TraceOptions trace_of_p41(const TraceFolder& folder) {
  TraceOptions options;
  options.model = golden_checkpoint();
  options.ids = tokens_of("p41");
  options.out = folder.path / "trace.safetensors";
  return options;
}

SafetensorsFile run_and_open(const TraceOptions& options) {
  const auto done = run_trace(options);
  if (!done) BOOST_FAIL(done.error().message());
  auto file = SafetensorsFile::open(options.out);
  BOOST_REQUIRE(file.has_value());
  return std::move(*file);
}

std::vector<float> floats_of(const SafetensorsFile& file, const std::string& name) {
  const auto bytes = file.read_all(name);
  BOOST_REQUIRE_MESSAGE(bytes.has_value(), name);
  std::vector<float> values(bytes->size() / sizeof(float));
  std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

}  // namespace tandem::gpu::test
