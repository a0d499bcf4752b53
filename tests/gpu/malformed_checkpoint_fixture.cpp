// Changes are closures over what they replace; a folder is thrown away after its case.
#include "tests/gpu/malformed_checkpoint_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "gpu/checkpoint/loader.hpp"
#include "gpu/checkpoint/verify.hpp"

namespace tandem::gpu::test {

namespace {

void check_refusal(const MalformedCase& c, const CheckpointFolder& folder) {
  BOOST_TEST_CONTEXT(c.name) {
    const Result<void> result = start_on(folder.path());
    BOOST_REQUIRE(result.has_error());
    const std::string message = result.error().message();
    BOOST_TEST(to_string(result.error().code) == std::string(to_string(c.code)), message);
    for (const std::string& part : c.told)
      BOOST_TEST(message.find(part) != std::string::npos, "'" << part << "' in: " << message);
  }
}

}  // namespace

Result<void> start_on(const std::filesystem::path& folder) {
  const auto config = ModelConfig::load(folder);
  if (!config) return config.error();
  const auto weights = load_weights(folder, *config, {});
  if (!weights) return weights.error();
  const CheckpointReport report = verify_checkpoint(folder);
  if (!report.is_good()) return report.faults.front();
  return {};
}

void check_refused_content(const std::vector<MalformedCase>& cases) {
  for (const MalformedCase& c : cases) {
    CheckpointFolder folder;
    c.change(folder);
    folder.write();
    check_refusal(c, folder);
  }
}

void check_refused_files(const std::vector<MalformedCase>& cases) {
  for (const MalformedCase& c : cases) {
    CheckpointFolder folder;
    folder.write();
    c.change(folder);
    check_refusal(c, folder);
  }
}

Change set_text(const char* key, boost::json::value value) {
  return [key, value](CheckpointFolder& f) { f.text()[key] = value; };
}

Change erase_tensor(const char* tensor) {
  return [tensor](CheckpointFolder& f) { f.tensors.erase(tensor); };
}

Change add_tensor(const char* tensor) {
  return [tensor](CheckpointFolder& f) { f.tensors[tensor] = {DType::u8, {1}, {std::byte{1}}}; };
}

Change retype(const char* name, DType dtype, std::vector<std::int64_t> shape) {
  return [=](CheckpointFolder& f) {
    Stored& tensor = f.at(name);
    tensor.dtype = dtype;
    tensor.shape = shape;
    std::size_t bytes = element_bytes(dtype);
    for (const std::int64_t dim : shape) bytes *= static_cast<std::size_t>(dim);
    tensor.bytes.assign(bytes, std::byte{0});
  };
}

Change poke(const char* tensor, std::size_t at, std::vector<std::uint8_t> bytes) {
  return [=](CheckpointFolder& f) { std::memcpy(f.at(tensor).bytes.data() + at, bytes.data(), bytes.size()); };
}

Change set_header_length(std::uint64_t length) {
  return [length](CheckpointFolder& f) {
    std::string file = read_file(f.shard(1));
    std::memcpy(file.data(), &length, sizeof(length));
    write_file(f.shard(1), file);
  };
}

Change cut_first_shard(std::function<std::uintmax_t(std::uintmax_t)> new_size) {
  return [new_size](CheckpointFolder& f) {
    std::filesystem::resize_file(f.shard(1), new_size(std::filesystem::file_size(f.shard(1))));
  };
}

Change edit_first_header(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](CheckpointFolder& f) { edit_header(f.shard(1), from, to); };
}

Change edit_index(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](CheckpointFolder& f) { edit_file(f.index(), from, to); };
}

}  // namespace tandem::gpu::test
