// Malformed checkpoints: every one is refused with the right code and a message that names the file, the tensor or key,
// and what was expected instead. Each case starts from a folder that loads.
#include <sys/stat.h>

#include <boost/json/array.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>

#include "gpu/checkpoint/loader.hpp"
#include "gpu/checkpoint/verify.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using test::CheckpointFolder;

namespace {

namespace json = boost::json;
using Change = std::function<void(CheckpointFolder&)>;

struct Case {
  const char* name;
  Change change;
  ErrorCode code;
  std::vector<std::string> told;  // parts that the message must contain
};

// What a rank would report when it starts on this folder, or what verification finds if the weights load.
Result<void> start_on(const std::filesystem::path& folder) {
  const auto config = ModelConfig::load(folder);
  if (!config) return config.error();
  const auto weights = load_weights(folder, *config, {});
  if (!weights) return weights.error();
  const CheckpointReport report = verify_checkpoint(folder);
  if (!report.is_good()) return report.faults.front();
  return {};
}

void check(const Case& c, CheckpointFolder& folder) {
  BOOST_TEST_CONTEXT(c.name) {
    const Result<void> result = start_on(folder.path());
    BOOST_REQUIRE(result.has_error());
    const std::string message = result.error().message();
    BOOST_TEST(to_string(result.error().code) == std::string(to_string(c.code)), message);
    for (const std::string& part : c.told)
      BOOST_TEST(message.find(part) != std::string::npos, "'" << part << "' in: " << message);
  }
}

// Cases that change the content before it is written, and cases that change the files.
void check_content(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    CheckpointFolder folder;
    c.change(folder);
    folder.write();
    check(c, folder);
  }
}

void check_files(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    CheckpointFolder folder;
    folder.write();
    c.change(folder);
    check(c, folder);
  }
}

Change set_text(const char* key, json::value value) {
  return [key, value](CheckpointFolder& f) { f.text()[key] = value; };
}

Change poke(const char* tensor, std::size_t at, std::vector<std::uint8_t> bytes) {
  return [=](CheckpointFolder& f) { std::memcpy(f.at(tensor).bytes.data() + at, bytes.data(), bytes.size()); };
}

// Replaces the 8-byte header length of the first shard.
Change set_header_length(std::uint64_t length) {
  return [length](CheckpointFolder& f) {
    std::string file = test::read_file(f.shard(1));
    std::memcpy(file.data(), &length, sizeof(length));
    test::write_file(f.shard(1), file);
  };
}

Change cut_first_shard(std::function<std::uintmax_t(std::uintmax_t)> new_size) {
  return [new_size](CheckpointFolder& f) {
    std::filesystem::resize_file(f.shard(1), new_size(std::filesystem::file_size(f.shard(1))));
  };
}

Change edit_first_header(const char* from, const char* to) {
  return [=](CheckpointFolder& f) { test::edit_header(f.shard(1), from, to); };
}

Change edit_index(const char* from, const char* to) {
  return [=](CheckpointFolder& f) { test::edit_file(f.index(), from, to); };
}

void retype(CheckpointFolder& f, const char* name, DType dtype, std::vector<std::int64_t> shape) {
  test::Stored& tensor = f.at(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  std::size_t bytes = element_bytes(dtype);
  for (std::int64_t dim : tensor.shape) bytes *= static_cast<std::size_t>(dim);
  tensor.bytes.assign(bytes, std::byte{0});
}

const std::string shard1 = "model-00001-of-00002.safetensors";
const std::string shard2 = "model-00002-of-00002.safetensors";
const std::string index_name = "model.safetensors.index.json";

}  // namespace

BOOST_AUTO_TEST_SUITE(malformed_checkpoint)

BOOST_AUTO_TEST_CASE(the_unchanged_folder_starts) {
  CheckpointFolder folder;
  folder.write();
  const Result<void> result = start_on(folder.path());
  BOOST_TEST(result.has_value());
}

BOOST_AUTO_TEST_CASE(a_broken_shard_file_is_refused) {
  check_files({
      {"empty", cut_first_shard([](auto) { return 0; }), ErrorCode::bad_format, {shard1, "0 bytes", "8 bytes"}},
      {"cut in the length", cut_first_shard([](auto) { return 7; }), ErrorCode::bad_format, {shard1, "7 bytes"}},
      {"cut in the header",
       cut_first_shard([](auto) { return 300; }),
       ErrorCode::bad_format,
       {shard1, "in a file of 300"}},
      {"cut in the data",
       cut_first_shard([](auto size) { return size / 2; }),
       ErrorCode::out_of_range,
       {shard1, "truncated"}},
      {"one byte short",
       cut_first_shard([](auto size) { return size - 1; }),
       ErrorCode::out_of_range,
       {shard1, "norm.weight"}},
      {"one byte more",
       cut_first_shard([](auto size) { return size + 1; }),
       ErrorCode::bad_format,
       {shard1, "1 bytes behind"}},
      {"header of 2^60 bytes",
       set_header_length(std::uint64_t{1} << 60),
       ErrorCode::bad_format,
       {shard1, "1152921504606846976"}},
      {"header of 2^64 - 1 bytes",
       set_header_length(~std::uint64_t{0}),
       ErrorCode::bad_format,
       {shard1, "18446744073709551615"}},
      {"header of 0 bytes", set_header_length(0), ErrorCode::bad_format, {shard1, "a header of 0 bytes"}},
      {"header shorter than its text", set_header_length(100), ErrorCode::bad_format, {shard1, "valid JSON"}},
      {"header is a list", edit_first_header("{", "["), ErrorCode::bad_format, {shard1, "'{'"}},
      {"a comma too many",
       edit_first_header("\"dtype\"", ",\"dtype\""),
       ErrorCode::bad_format,
       {shard1, "byte", "valid JSON"}},
      {"text after the header", edit_first_header("}}", "}} x"), ErrorCode::bad_format, {shard1, "valid JSON"}},
  });
}

// A pipe without a writer would hold a rank for ever: a defect here shows as a test that does not end.
BOOST_AUTO_TEST_CASE(what_is_no_regular_file_is_refused_and_never_waited_for) {
  const auto pipe = [](const std::filesystem::path& path) {
    std::filesystem::remove(path);
    BOOST_REQUIRE_EQUAL(::mkfifo(path.c_str(), 0600), 0);
  };
  const auto link = [](const std::filesystem::path& path, const std::filesystem::path& target) {
    std::filesystem::remove(path);
    std::filesystem::create_symlink(target, path);
  };
  const auto folder = [](const std::filesystem::path& path) {
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
  };
  check_files({
      {"shard is a pipe",
       [&](auto& f) { pipe(f.shard(1)); },
       ErrorCode::io,
       {shard1, "not a regular file", "expected a regular file"}},
      {"shard is a folder", [&](auto& f) { folder(f.shard(1)); }, ErrorCode::io, {shard1, "not a regular file"}},
      {"shard leads nowhere", [&](auto& f) { link(f.shard(2), "x"); }, ErrorCode::io, {shard2, "leads nowhere"}},
      {"index is a pipe", [&](auto& f) { pipe(f.index()); }, ErrorCode::io, {index_name, "not a regular file"}},
      {"index is a circle", [&](auto& f) { link(f.index(), index_name); }, ErrorCode::io, {index_name, "levels of"}},
      {"config is a pipe",
       [&](auto& f) { pipe(f.path() / "config.json"); },
       ErrorCode::io,
       {"config.json", "not a regular file"}},
  });
}

BOOST_AUTO_TEST_CASE(official_storage_without_its_quantization_config_is_refused) {
  check_content({
      {"no quantization_config",
       [](auto& f) { f.config.erase("quantization_config"); },
       ErrorCode::mismatch,
       {shard1, ".weight", "F8_E4M3", "quant_method \"fp8\" in config.json"}},
      {"another method",
       [](auto& f) {
         f.config["quantization_config"] = json::object{{"quant_method", "exl3"}};
       },
       ErrorCode::mismatch,
       {shard1, "F8_E4M3", "quant_method \"fp8\""}},
  });
}

BOOST_AUTO_TEST_CASE(a_broken_header_entry_is_refused) {
  const char* embed = R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]})";
  const auto become = [embed](const char* entry) { return edit_first_header(embed, entry); };
  check_files({
      {"unknown dtype",
       become(R"("embed.weight":{"dtype":"BF17","shape":[64,64],"data_offsets":[0,8192]})"),
       ErrorCode::bad_format,
       {shard1, "embed.weight", "BF17", "F8_E4M3"}},
      {"dtype is a number",
       become(R"("embed.weight":{"dtype":3,"shape":[64,64],"data_offsets":[0,8192]})"),
       ErrorCode::bad_format,
       {"embed.weight", "dtype 3"}},
      {"dtype absent",
       become(R"("embed.weight":{"d":"BF16","shape":[64,64],"data_offsets":[0,8192]})"),
       ErrorCode::bad_format,
       {"embed.weight", "dtype absent"}},
      {"a key too many",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192],"x":1})"),
       ErrorCode::bad_format,
       {"embed.weight", "an object of dtype, shape and data_offsets"}},
      {"entry is null", become(R"("embed.weight":null)"), ErrorCode::bad_format, {"embed.weight", "null"}},
      {"negative dimension",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,-64],"data_offsets":[0,8192]})"),
       ErrorCode::bad_format,
       {"embed.weight", "-64", "dimensions >= 0"}},
      {"overflowing dimensions",
       become(R"("embed.weight":{"dtype":"BF16","shape":[4611686018427387904,8],"data_offsets":[0,8192]})"),
       ErrorCode::bad_format,
       {"embed.weight", "4611686018427387904", "fits 64 bits"}},
      {"fractional dimension",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,64.0],"data_offsets":[0,8192]})"),
       ErrorCode::bad_format,
       {"embed.weight", "dimensions >= 0"}},
      {"range and shape disagree",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,63],"data_offsets":[0,8192]})"),
       ErrorCode::mismatch,
       {"embed.weight", "8192 bytes", "8064 bytes for BF16 [64, 63]"}},
      {"range backwards",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[8192,0]})"),
       ErrorCode::bad_format,
       {"embed.weight", "begin <= end"}},
      {"range of three",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,1,8192]})"),
       ErrorCode::bad_format,
       {"embed.weight", "[begin, end]"}},
      {"offset beyond the file",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[9000000000,9000008192]})"),
       ErrorCode::out_of_range,
       {"embed.weight", "9000000000", "within"}},
      {"overlap",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[4096,12288]})"),
       ErrorCode::bad_format,
       {shard1, "embed.weight", "hole"}},
      {"hole",
       become(R"("embed.weight":{"dtype":"BF16","shape":[64,32],"data_offsets":[0,4096]})"),
       ErrorCode::bad_format,
       {shard1, "a hole behind embed.weight"}},
      {"two tensors in one place",
       become(
           R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]},"e2":{"dtype":"U8","shape":[9],"data_offsets":[8,17]})"),
       ErrorCode::bad_format,
       {shard1, "overlap"}},
      {"tensor twice",
       become(
           R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]},"embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192]})"),
       ErrorCode::bad_format,
       {shard1, "'embed.weight' twice"}},
      {"metadata is not text",
       edit_first_header(R"("format":"pt")", R"("format":7)"),
       ErrorCode::bad_format,
       {shard1, "__metadata__.format", "a string"}},
  });
}

BOOST_AUTO_TEST_CASE(a_broken_index_is_refused) {
  const auto remove = [](int number) {
    return [number](CheckpointFolder& f) { std::filesystem::remove(number == 0 ? f.index() : f.shard(number)); };
  };
  check_files({
      {"no index and no single file", remove(0), ErrorCode::not_found, {index_name, "model.safetensors"}},
      {"shard missing", remove(2), ErrorCode::not_found, {shard2}},
      {"not JSON", edit_index("{", "("), ErrorCode::bad_format, {index_name, "valid JSON"}},
      {"no weight_map",
       edit_index("weight_map", "weightmap"),
       ErrorCode::bad_format,
       {index_name, "weight_map", "absent"}},
      {"weight_map empty",
       [](CheckpointFolder& f) { test::write_file(f.index(), R"({"weight_map":{}})"); },
       ErrorCode::bad_format,
       {index_name, "empty"}},
      {"shard outside the folder",
       edit_index("\"model-00001", "\"../model-00001"),
       ErrorCode::bad_format,
       {index_name, "../model-00001", "same folder"}},
      {"absolute shard name",
       edit_index("\"model-00001", "\"/model-00001"),
       ErrorCode::bad_format,
       {index_name, "same folder"}},
      {"shard is a number",
       edit_index(R"("embed.weight":"model-00001-of-00002.safetensors")", R"("embed.weight":1)"),
       ErrorCode::bad_format,
       {index_name, "embed.weight"}},
      {"tensor listed twice",
       edit_index(R"("embed.weight":)", R"("embed.weight":"model-00002-of-00002.safetensors","embed.weight":)"),
       ErrorCode::bad_format,
       {index_name, "'embed.weight' twice"}},
      {"tensor in another shard",
       edit_index(R"("embed.weight":"model-00001)", R"("embed.weight":"model-00002)"),
       ErrorCode::mismatch,
       {shard2, "embed.weight", "absent"}},
      {"tensor that no shard has",
       edit_index(R"("embed.weight":)", R"("embed2.weight":"model-00001-of-00002.safetensors","embed.weight":)"),
       ErrorCode::mismatch,
       {shard1, "embed2.weight"}},
      {"tensor that the index leaves out",
       edit_index(R"("embed.weight":"model-00001-of-00002.safetensors",)", ""),
       ErrorCode::mismatch,
       {shard1, "embed.weight", "does not list"}},
  });
}

BOOST_AUTO_TEST_CASE(tensors_that_do_not_fit_the_configuration_are_refused) {
  const auto erase = [](const char* name) { return [name](CheckpointFolder& f) { f.tensors.erase(name); }; };
  const auto type = [](const char* name, DType dtype, std::vector<std::int64_t> shape) {
    return [=](CheckpointFolder& f) { retype(f, name, dtype, shape); };
  };
  check_content({
      {"matrix missing",
       erase("layers.2.attn.wq_a.weight"),
       ErrorCode::not_found,
       {"layers.2.attn.wq_a.weight", "missing", "F8_E4M3 [32, 64]"}},
      {"norm missing", erase("norm.weight"), ErrorCode::not_found, {"norm.weight", "missing", "BF16 [64]"}},
      {"one expert missing",
       erase("layers.4.ffn.experts.1.w3.weight"),
       ErrorCode::not_found,
       {"layers.4.ffn.experts.1.w3", "I8 [128, 32]"}},
      {"draft tensor missing",
       erase("mtp.0.main_proj.weight"),
       ErrorCode::not_found,
       {"mtp.0.main_proj.weight", "[64, 128]"}},
      {"scales missing",
       erase("layers.0.attn.wq_b.scale"),
       ErrorCode::not_found,
       {"layers.0.attn.wq_b.scale", "F8_E8M0 [4, 1]", "the scales of layers.0.attn.wq_b.weight"}},
      {"Engram table missing",
       erase("layers.1.engram.embed.weight"),
       ErrorCode::not_found,
       {"layers.1.engram.embed.weight", "[36, 32]"}},
      {"extra tensor",
       [](CheckpointFolder& f) {
         f.tensors["layers.9.x"] = {DType::u8, {1}, {std::byte{1}}};
       },
       ErrorCode::mismatch,
       {shard1, "layers.9.x", "no such tensor"}},
      {"compressor gate on a ratio-1 layer",
       [](CheckpointFolder& f) {
         f.tensors["layers.3.attn.compressor.wgate.weight"] = f.at("layers.1.attn.compressor.wgate.weight");
       },
       ErrorCode::mismatch,
       {"layers.3.attn.compressor.wgate.weight"}},
      {"vision tensor without vision",
       [](CheckpointFolder& f) {
         f.tensors["vision.x"] = {DType::u8, {1}, {std::byte{1}}};
       },
       ErrorCode::mismatch,
       {"vision.x", "no such tensor"}},
      {"misshaped matrix",
       type("layers.0.attn.wq_a.weight", DType::f8_e4m3, {64, 32}),
       ErrorCode::mismatch,
       {shard1, "layers.0.attn.wq_a.weight", "F8_E4M3 [64, 32]", "F8_E4M3 [32, 64]"}},
      {"misshaped vector",
       type("layers.0.attn_norm.weight", DType::bf16, {63}),
       ErrorCode::mismatch,
       {"BF16 [63]", "BF16 [64]"}},
      {"vector as a matrix",
       type("layers.0.attn_norm.weight", DType::bf16, {1, 64}),
       ErrorCode::mismatch,
       {"BF16 [1, 64]"}},
      {"misshaped scales",
       type("layers.0.attn.wkv.scale", DType::f8_e8m0, {2, 1}),
       ErrorCode::mismatch,
       {"layers.0.attn.wkv.scale", "F8_E8M0 [2, 1]", "F8_E8M0 [1, 2]"}},
      {"mistyped matrix",
       type("layers.0.attn.wq_a.weight", DType::i32, {32, 64}),
       ErrorCode::mismatch,
       {"layers.0.attn.wq_a.weight", "I32 [32, 64]", "F8_E4M3"}},
      {"mistyped scales",
       type("layers.0.attn.wkv.scale", DType::u8, {1, 2}),
       ErrorCode::mismatch,
       {"U8 [1, 2]", "F8_E8M0"}},
      {"FP8 embedding",
       type("embed.weight", DType::f8_e4m3, {64, 64}),
       ErrorCode::mismatch,
       {"embed.weight", "BF16 [64, 64]"}},
      {"scales beside a BF16 matrix",
       type("layers.0.attn.wq_a.weight", DType::bf16, {32, 64}),
       ErrorCode::mismatch,
       {"layers.0.attn.wq_a.scale", "no such tensor"}},
      {"Engram table one row short",
       type("layers.1.engram.embed.weight", DType::f8_e4m3, {35, 32}),
       ErrorCode::mismatch,
       {shard2, "layers.1.engram.embed.weight", "[35, 32]", "[36, 32]"}},
      {"Engram scales one row short",
       type("layers.1.engram.embed.scale", DType::f8_e8m0, {35, 1}),
       ErrorCode::mismatch,
       {"layers.1.engram.embed.scale", "[36, 1]"}},
  });
}

BOOST_AUTO_TEST_CASE(impossible_values_are_refused) {
  check_content({
      {"NaN scale",
       poke("layers.0.attn.wo_b.scale", 5, {0xFF}),
       ErrorCode::corrupt,
       {shard1, "layers.0.attn.wo_b.scale", "[1, 1]"}},
      {"NaN expert scale in the last byte",
       poke("layers.4.ffn.experts.1.w2.scale", 255, {0xFF}),
       ErrorCode::corrupt,
       {"layers.4.ffn.experts.1.w2.scale", "[63, 3]"}},
      {"NaN code",
       poke("layers.2.attn.wkv.weight", 70, {0x7F}),
       ErrorCode::corrupt,
       {"layers.2.attn.wkv.weight", "[1, 6]"}},
      {"negative NaN code",
       poke("mtp.0.attn.wq_a.weight", 0, {0xFF}),
       ErrorCode::corrupt,
       {shard2, "mtp.0.attn.wq_a.weight", "[0, 0]"}},
      {"BF16 NaN", poke("norm.weight", 6, {0xC0, 0x7F}), ErrorCode::corrupt, {"norm.weight", "[3]"}},
      {"BF16 infinity in the head",
       poke("head.weight", 128, {0x80, 0xFF}),
       ErrorCode::corrupt,
       {"head.weight", "[1, 0]"}},
      {"F32 infinity",
       poke("layers.3.hc_ffn_fn", 4, {0, 0, 0x80, 0x7F}),
       ErrorCode::corrupt,
       {"layers.3.hc_ffn_fn", "[0, 1]"}},
  });
}

BOOST_AUTO_TEST_CASE(a_configuration_that_does_not_fit_the_tensors_is_refused) {
  check_content({
      {"one expert more", set_text("n_routed_experts", 3), ErrorCode::mismatch, {"gate.weight", "[3, 64]"}},
      {"one layer's indexer less",
       set_text("index_source_layer_ids", json::array{1, 3}),
       ErrorCode::mismatch,
       {"layers.4.attn.indexer", "no such tensor"}},
      {"another vocabulary", set_text("vocab_size", 128), ErrorCode::mismatch, {"embed.weight", "BF16 [128, 64]"}},
      {"other Engram rows",
       set_text("engram_num_embeddings", json::array{37}),
       ErrorCode::mismatch,
       {"layers.1.engram.embed.weight", "37"}},
  });
}

BOOST_AUTO_TEST_CASE(a_broken_token_map_is_reported_by_verification) {
  const std::string map = "engram_token_map.i32";
  check_content({
      {"one token short", [](CheckpointFolder& f) { f.token_map.pop_back(); }, ErrorCode::mismatch, {map, "63", "64"}},
      {"class beyond the last",
       [](CheckpointFolder& f) { f.token_map[50] = 40; },
       ErrorCode::mismatch,
       {map, "41", "40"}},
      {"negative class", [](CheckpointFolder& f) { f.token_map[50] = -1; }, ErrorCode::out_of_range, {map, "-1"}},
      {"a class that no token has", [](CheckpointFolder& f) { f.token_map[39] = 0; }, ErrorCode::mismatch, {map, "40"}},
  });
}

BOOST_AUTO_TEST_SUITE_END()
