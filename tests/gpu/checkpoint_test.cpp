// Safetensors files written and read back, JSON strictness, and the verification report.
#include "gpu/checkpoint/checkpoint.hpp"

#include <boost/test/unit_test.hpp>

#include "gpu/checkpoint/safetensors_writer.hpp"
#include "gpu/checkpoint/strict_json.hpp"
#include "gpu/checkpoint/tensor_stream.hpp"
#include "gpu/checkpoint/verify.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using test::CheckpointFolder;

namespace {

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i);
  return data;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(checkpoint)

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  const CheckpointFolder folder;
  const auto data = counted(24);
  const std::vector<TensorData> tensors{{"b \"quoted\" \n", DType::f32, {2, 3}, data},
                                        {"a", DType::u8, {}, std::span(data).first(1)},
                                        {"empty", DType::bf16, {0, 5}, {}}};
  const auto path = folder.path() / "x.safetensors";
  BOOST_REQUIRE(write_safetensors(path, tensors, {{"who", "test"}}).has_value());
  const auto file = SafetensorsFile::open(path);
  BOOST_REQUIRE_MESSAGE(file.has_value(), file.error().message());
  BOOST_TEST(file->tensors().size() == 3U);
  BOOST_TEST(file->metadata().at("who") == "test");
  for (const TensorData& tensor : tensors) {
    const TensorEntry* entry = file->find(tensor.name);
    BOOST_REQUIRE(entry != nullptr);
    BOOST_TEST(entry->shape == tensor.shape);
    const auto bytes = file->read_all(tensor.name);
    BOOST_TEST(std::equal(bytes->begin(), bytes->end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  BOOST_TEST((file->read_all("none").error().code == ErrorCode::not_found));
  std::vector<std::byte> much(25);
  BOOST_TEST((file->read(*file->find(tensors[0].name), 0, much).error().code == ErrorCode::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_file_without_tensors_is_a_file) {
  const CheckpointFolder folder;
  const auto path = folder.path() / "x.safetensors";
  BOOST_REQUIRE(write_safetensors(path, {}).has_value());
  BOOST_TEST(SafetensorsFile::open(path)->tensors().empty());
}

BOOST_AUTO_TEST_CASE(a_tensor_that_does_not_fit_its_shape_is_not_written) {
  const CheckpointFolder folder;
  const auto data = counted(8);
  const auto path = folder.path() / "x.safetensors";
  const std::vector<std::vector<TensorData>> bad{{{"a", DType::f32, {3}, data}},
                                                 {{"a", DType::f32, {-2}, data}},
                                                 {{"__metadata__", DType::f32, {2}, data}},
                                                 {{"a", DType::f32, {2}, data}, {"a", DType::f32, {2}, data}}};
  for (const auto& tensors : bad) {
    const auto written = write_safetensors(path, tensors);
    BOOST_REQUIRE(written.has_error());
    BOOST_TEST((written.error().code == ErrorCode::invalid_argument));
    BOOST_TEST(!std::filesystem::exists(path));
  }
}

BOOST_AUTO_TEST_CASE(strict_json_refuses_what_lenient_readers_accept) {
  for (const char* text :
       {"", "{", "{}x", "[1]", "3", "{\"a\":1,}", "{'a':1}", "{\"a\":01}", "{\"a\":NaN}", "{\"a\":1,\"a\":1}",
        "{\"o\":{\"b\":1,\"b\":2}}", "{\"l\":[{\"c\":1,\"c\":2}]}", "{\"\":1,\"\":2}", "{\"a\":1,\"\\u0061\":2}"}) {
    const auto parsed = parse_strict_json(text, "file");
    BOOST_REQUIRE_MESSAGE(parsed.has_error(), text);
    BOOST_TEST((parsed.error().code == ErrorCode::bad_format));
    BOOST_TEST(parsed.error().where == "file");
  }
  BOOST_TEST(parse_strict_json(std::string(1000, '['), "file").has_error());
  BOOST_TEST(parse_strict_json("{\"a\":{\"a\":[{\"a\":1},{\"a\":2}]}} ", "file").has_value());
}

BOOST_AUTO_TEST_CASE(the_first_impossible_value_of_each_type_is_found) {
  std::vector<std::byte> zeros(4096);
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f8_e4m3, DType::f8_e8m0}) {
    BOOST_TEST(find_impossible(dtype, zeros) == -1);
    const std::size_t element = element_bytes(dtype);
    for (std::size_t index : {std::size_t{0}, std::size_t{255}, std::size_t{256}, 4096 / element - 1}) {
      std::vector<std::byte> bytes = zeros;
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(index * element), element, std::byte{0xFF});
      BOOST_TEST(find_impossible(dtype, bytes) == static_cast<std::int64_t>(index));
    }
  }
  BOOST_TEST(find_impossible(DType::i8, std::vector<std::byte>(8, std::byte{0xFF})) == -1);
}

BOOST_AUTO_TEST_CASE(the_report_lists_every_fault_at_once) {
  CheckpointFolder folder;
  for (const char* name : {"norm.weight", "layers.2.attn.wq_a.weight", "layers.3.hc_ffn_fn"})
    folder.tensors.erase(name);
  folder.tensors["extra"] = {DType::u8, {1}, {std::byte{0}}};
  folder.write();
  const CheckpointReport report = verify_checkpoint(folder.path());
  BOOST_TEST(report.faults.size() == 4U);
  for (const char* part : {"norm.weight", "layers.2.attn.wq_a.weight", "layers.3.hc_ffn_fn", "extra", "2 shards"}) {
    BOOST_TEST(report.to_text().find(part) != std::string::npos, part);
  }
  BOOST_TEST(verify_checkpoint(folder.path(), 2).faults.size() == 2U);
}

BOOST_AUTO_TEST_CASE(the_golden_folder_verifies_and_can_be_split_over_two) {
  const CheckpointReport report = verify_checkpoint(test::golden_checkpoint());
  BOOST_TEST(report.is_good(), report.to_text());
  BOOST_TEST(report.shards == 5U);
  BOOST_TEST(report.bytes_all() == 18'756'618U);
  BOOST_TEST(report.table_bytes == (1092U + 1854U) * 33U);
  BOOST_TEST((report.ranks == std::vector<int>{1, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
