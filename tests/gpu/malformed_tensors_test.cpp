// Tensors that are missing, one too many, misshaped, mistyped or full of impossible values: every one is refused with
// the right code and a message that names the tensor and what was expected instead.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/gpu/malformed_checkpoint_fixture.hpp"

namespace tandem::gpu::test {

BOOST_AUTO_TEST_SUITE(malformed_checkpoint)

BOOST_AUTO_TEST_CASE(official_storage_without_its_quantization_config_is_refused) {
  check_refused_content({
      {"no quantization_config",
       [](auto& f) { f.config.erase("quantization_config"); },
       ErrorCode::mismatch,
       {shard1, ".weight", "F8_E4M3", "quant_method \"fp8\" in config.json"}},
      {"another method",
       [](auto& f) {
         f.config["quantization_config"] = boost::json::object{{"quant_method", "exl3"}};
       },
       ErrorCode::mismatch,
       {shard1, "F8_E4M3", "quant_method \"fp8\""}},
  });
}

BOOST_AUTO_TEST_CASE(tensors_that_are_missing_or_one_too_many_are_refused) {
  check_refused_content({
      {"matrix missing",
       erase_tensor("layers.2.attn.wq_a.weight"),
       ErrorCode::not_found,
       {"layers.2.attn.wq_a.weight", "missing", "F8_E4M3 [32, 64]"}},
      {"norm missing", erase_tensor("norm.weight"), ErrorCode::not_found, {"norm.weight", "missing", "BF16 [64]"}},
      {"one expert missing",
       erase_tensor("layers.4.ffn.experts.1.w3.weight"),
       ErrorCode::not_found,
       {"layers.4.ffn.experts.1.w3", "I8 [128, 32]"}},
      {"draft tensor missing",
       erase_tensor("mtp.0.main_proj.weight"),
       ErrorCode::not_found,
       {"mtp.0.main_proj.weight", "[64, 128]"}},
      {"scales missing",
       erase_tensor("layers.0.attn.wq_b.scale"),
       ErrorCode::not_found,
       {"layers.0.attn.wq_b.scale", "F8_E8M0 [4, 1]", "the scales of layers.0.attn.wq_b.weight"}},
      {"Engram table missing",
       erase_tensor("layers.1.engram.embed.weight"),
       ErrorCode::not_found,
       {"layers.1.engram.embed.weight", "[36, 32]"}},
      {"extra tensor", add_tensor("layers.9.x"), ErrorCode::mismatch, {shard1, "layers.9.x", "no such tensor"}},
      {"compressor gate on a ratio-1 layer",
       [](CheckpointFolder& f) {
         f.tensors["layers.3.attn.compressor.wgate.weight"] = f.at("layers.1.attn.compressor.wgate.weight");
       },
       ErrorCode::mismatch,
       {"layers.3.attn.compressor.wgate.weight"}},
      {"vision tensor without vision", add_tensor("vision.x"), ErrorCode::mismatch, {"vision.x", "no such tensor"}},
  });
}

BOOST_AUTO_TEST_CASE(tensors_of_another_shape_or_type_are_refused) {
  check_refused_content({
      {"misshaped matrix",
       retype("layers.0.attn.wq_a.weight", DType::f8_e4m3, {64, 32}),
       ErrorCode::mismatch,
       {shard1, "layers.0.attn.wq_a.weight", "F8_E4M3 [64, 32]", "F8_E4M3 [32, 64]"}},
      {"misshaped vector",
       retype("layers.0.attn_norm.weight", DType::bf16, {63}),
       ErrorCode::mismatch,
       {"BF16 [63]", "BF16 [64]"}},
      {"vector as a matrix",
       retype("layers.0.attn_norm.weight", DType::bf16, {1, 64}),
       ErrorCode::mismatch,
       {"BF16 [1, 64]"}},
      {"misshaped scales",
       retype("layers.0.attn.wkv.scale", DType::f8_e8m0, {2, 1}),
       ErrorCode::mismatch,
       {"layers.0.attn.wkv.scale", "F8_E8M0 [2, 1]", "F8_E8M0 [1, 2]"}},
      {"mistyped matrix",
       retype("layers.0.attn.wq_a.weight", DType::i32, {32, 64}),
       ErrorCode::mismatch,
       {"layers.0.attn.wq_a.weight", "I32 [32, 64]", "F8_E4M3"}},
      {"mistyped scales",
       retype("layers.0.attn.wkv.scale", DType::u8, {1, 2}),
       ErrorCode::mismatch,
       {"U8 [1, 2]", "F8_E8M0"}},
      {"FP8 embedding",
       retype("embed.weight", DType::f8_e4m3, {64, 64}),
       ErrorCode::mismatch,
       {"embed.weight", "BF16 [64, 64]"}},
      {"scales beside a BF16 matrix",
       retype("layers.0.attn.wq_a.weight", DType::bf16, {32, 64}),
       ErrorCode::mismatch,
       {"layers.0.attn.wq_a.scale", "no such tensor"}},
      {"Engram table one row short",
       retype("layers.1.engram.embed.weight", DType::f8_e4m3, {35, 32}),
       ErrorCode::mismatch,
       {shard2, "layers.1.engram.embed.weight", "[35, 32]", "[36, 32]"}},
      {"Engram scales one row short",
       retype("layers.1.engram.embed.scale", DType::f8_e8m0, {35, 1}),
       ErrorCode::mismatch,
       {"layers.1.engram.embed.scale", "[36, 1]"}},
  });
}

BOOST_AUTO_TEST_CASE(impossible_values_are_refused) {
  check_refused_content({
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
  check_refused_content({
      {"one expert more", set_text("n_routed_experts", 3), ErrorCode::mismatch, {"gate.weight", "[3, 64]"}},
      {"one layer's indexer less",
       set_text("index_source_layer_ids", boost::json::array{1, 3}),
       ErrorCode::mismatch,
       {"layers.4.attn.indexer", "no such tensor"}},
      {"another vocabulary", set_text("vocab_size", 128), ErrorCode::mismatch, {"embed.weight", "BF16 [128, 64]"}},
      {"other Engram rows",
       set_text("engram_num_embeddings", boost::json::array{37}),
       ErrorCode::mismatch,
       {"layers.1.engram.embed.weight", "37"}},
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
