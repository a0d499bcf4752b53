// Packs of both layouts on their way into a rank's memory: cut on both axes, laid over a base, chosen from banks; and
// every way in which a pack can be wrong is told by name.
#include <boost/test/unit_test.hpp>

#include <cstring>

#include "gpu/checkpoint/exl3_loader.hpp"
#include "gpu/checkpoint/loader.hpp"
#include "gpu/checkpoint/safetensors_writer.hpp"
#include "tests/exl3/golden_fixture.hpp"
#include "tests/exl3/pack_folder_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

// The same bits, form and sizes.
bool same(const Linear& loaded, const exl3::PackedMatrix& matrix) {
  const Linear expected = linear_of(matrix);
  const auto equal = [](const Buffer& a, const Buffer& b) {
    return a.bytes == b.bytes && std::memcmp(a.data.get(), b.data.get(), a.bytes) == 0;
  };
  return loaded.format == WeightFormat::exl3 && loaded.exl3 == matrix.form && loaded.n == matrix.out &&
         loaded.k == matrix.in && equal(loaded.codes, expected.codes) && equal(loaded.scales, expected.scales);
}

Result<ModelWeights> load(const std::filesystem::path& folder, int rank, int ranks) {
  const auto config = ModelConfig::load(folder);
  if (!config) return config.error();
  LoadRequest request;
  request.rank = rank;
  request.ranks = ranks;
  request.piece_bytes = 4096;  // several pieces a matrix
  return load_weights(folder, *config, request);
}

std::string message_of(const Result<ModelWeights>& weights) {
  return weights.has_error() ? weights.error().message() : "";
}

// Loads and expects a refusal that names the tensor and what should have been there.
void check_refused(const std::filesystem::path& folder, const char* where, const char* expected, int ranks = 1) {
  const auto weights = load(folder, 0, ranks);
  BOOST_REQUIRE(!weights.has_value());
  const std::string message = weights.error().message();
  BOOST_TEST(message.find(where) != std::string::npos, message);
  BOOST_TEST(message.find(expected) != std::string::npos, message);
}

// Replaces text of a shard's header by text of the same length.
void edit_bytes(const std::filesystem::path& file, const std::string& from, const std::string& to) {
  std::string text = read_text_file(file);
  const std::size_t at = text.find(from);
  if (at == std::string::npos || from.size() != to.size()) throw std::runtime_error(from);
  write_text_file(file, text.replace(at, from.size(), to));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exl3_loader)

BOOST_AUTO_TEST_CASE(a_whole_pack_loads_with_the_form_of_every_matrix) {
  PackFolder pack(exl3::PackLayout::whole);
  pack.write();
  const auto weights = load(pack.path(), 0, 1);
  BOOST_REQUIRE_MESSAGE(weights.has_value(), message_of(weights));
  const BlockWeights& layer = weights->layers[2];
  BOOST_TEST(same(layer.attn.wq_a, pack.matrices.at("layers.2.attn.wq_a")));
  BOOST_TEST(same(layer.attn.compressor.wkv, pack.matrices.at("layers.2.attn.compressor.wkv")));
  BOOST_TEST(same(layer.attn.wo_a[1], pack.matrices.at("layers.2.attn.wo_a.slice.1")));
  BOOST_TEST(same(layer.moe.experts[7].w3, pack.matrices.at("layers.2.ffn.experts.7.w3")));
  BOOST_TEST(same(weights->head, pack.matrices.at("head")));
  BOOST_TEST(same(weights->dspark.main_proj, pack.matrices.at("mtp.0.main_proj")));
  const auto& w2 = pack.matrices.at("layers.2.ffn.experts.3.w2");
  BOOST_TEST(same(layer.moe.experts[3].w2.slices[0], cut(w2, {0, 128, 0, 256})));
  BOOST_TEST(same(layer.moe.experts[3].w2.slices[1], cut(w2, {128, 128, 0, 256})));
  BOOST_TEST((layer.attn.indexer.weights_proj.format == WeightFormat::bf16));  // stays native, from the base
}

BOOST_AUTO_TEST_CASE(two_ranks_hold_the_two_halves_of_every_cut_matrix) {
  PackFolder pack(exl3::PackLayout::whole);
  pack.write();
  for (int rank = 0; rank < 2; ++rank) {
    const auto weights = load(pack.path(), rank, 2);
    BOOST_REQUIRE_MESSAGE(weights.has_value(), message_of(weights));
    const BlockWeights& layer = weights->layers[5];
    const auto& w1 = pack.matrices.at("layers.5.ffn.experts.0.w1");
    BOOST_TEST(same(layer.moe.experts[0].w1, cut(w1, {0, 256, rank * 128, 128})));
    const auto& wo_b = pack.matrices.at("layers.5.attn.wo_b");
    BOOST_REQUIRE(layer.attn.wo_b.slices.size() == 1U);
    BOOST_TEST(same(layer.attn.wo_b.slices[0], cut(wo_b, {rank * 128, 128, 0, 256})));
    BOOST_REQUIRE(layer.attn.wo_a.size() == 1U);
    BOOST_TEST(same(layer.attn.wo_a[0], pack.matrices.at("layers.5.attn.wo_a.slice." + std::to_string(rank))));
    BOOST_TEST(same(weights->head, cut(pack.matrices.at("head"), {0, 256, rank * 2048, 2048})));
  }
}

BOOST_AUTO_TEST_CASE(a_bank_of_experts_replaces_the_base_and_leaves_the_rest) {
  PackFolder pack(exl3::PackLayout::experts);
  pack.write();
  const auto weights = load(pack.path(), 0, 1);
  BOOST_REQUIRE_MESSAGE(weights.has_value(), message_of(weights));
  BOOST_TEST(same(weights->layers[1].moe.experts[4].w1, pack.matrices.at("layers.1.ffn.experts.4.w1")));
  BOOST_TEST((weights->layers[1].attn.wq_a.format == WeightFormat::fp8_block32));
  BOOST_TEST((weights->layers[1].moe.shared.w1.format == WeightFormat::fp8_block32));
}

BOOST_AUTO_TEST_CASE(a_plan_chooses_between_banks_for_each_expert) {
  PackFolder pack(exl3::PackLayout::experts);
  pack.write();
  std::map<std::string, exl3::PackedMatrix> other;
  for (const char* part : {"w1", "w2", "w3"}) {
    const std::string module = std::string("layers.0.ffn.experts.2.") + part;
    other.emplace(module, random_matrix(256, 256, {5, exl3::Codebook::mul1}, 77));
  }
  PackFolder::write_shard(pack.bank("other") / "bank.safetensors", other);
  check_refused(pack.path(), "layers.0.ffn.experts.2.w1", "a plan that chooses one");
  std::filesystem::create_directories(pack.bank("plan"));
  const auto plan = pack.bank("plan") / "bits.json";
  write_text_file(plan, R"({"allocation": {"layers.0.ffn.experts.2": "other", "0": {"1": "one"}}})");
  auto weights = load(pack.path(), 0, 1);
  BOOST_REQUIRE_MESSAGE(weights.has_value(), message_of(weights));
  BOOST_TEST(same(weights->layers[0].moe.experts[2].w1, other.at("layers.0.ffn.experts.2.w1")));
  write_text_file(plan, R"({"allocation": {"0": {"2": "one"}}})");
  weights = load(pack.path(), 0, 1);
  BOOST_REQUIRE(weights.has_value());
  BOOST_TEST(same(weights->layers[0].moe.experts[2].w1, pack.matrices.at("layers.0.ffn.experts.2.w1")));
  write_text_file(plan, R"({"allocation": {"0": {"2": "third"}}})");
  check_refused(pack.path(), "allocation.layers.0.ffn.experts.2", "one of the banks");
  write_text_file(plan, R"({"allocation": []})");
  check_refused(pack.path(), "bits.json", "an object of expert to bank name");
  write_text_file(pack.bank("plan") / "second.json", "{}");
  check_refused(pack.path(), "plan", "one plan");
}

BOOST_AUTO_TEST_CASE(a_missing_or_misshaped_tensor_of_a_matrix_is_named) {
  PackFolder pack(exl3::PackLayout::experts);
  pack.write();
  const auto shard = pack.shard();
  const std::string good = read_text_file(shard);
  edit_bytes(shard, "layers.0.ffn.experts.0.w1.svh", "layers.0.ffn.experts.0.w1.sxh");
  check_refused(pack.path(), "layers.0.ffn.experts.0.w1.svh: missing", "F16 [256]");
  write_text_file(shard, good);
  edit_bytes(shard, "layers.0.ffn.experts.0.w1.trellis", "layers.0.ffn.experts.0.w1.trillis");
  check_refused(pack.path(), "layers.0.ffn.experts.0.w1.", "no such tensor in this configuration");
  write_text_file(shard, good);
  edit_bytes(shard, "\"layers.0.ffn.experts.0.w1.suh\":{\"dtype\":\"F16\"",
             "\"layers.0.ffn.experts.0.w1.suh\":{\"dtype\":\"I16\"");
  check_refused(pack.path(), "layers.0.ffn.experts.0.w1.suh", "F16 [256]");
}

BOOST_AUTO_TEST_CASE(a_matrix_of_another_size_is_refused) {
  PackFolder pack(exl3::PackLayout::experts);
  pack.matrices.at("layers.3.ffn.experts.1.w2") = random_matrix(256, 128, {3, exl3::Codebook::mul1}, 1);
  pack.write();
  check_refused(pack.path(), "layers.3.ffn.experts.1.w2.trellis: I16 [16, 8, 48]", "I16 [16, 16, 16 * bits]");
}

BOOST_AUTO_TEST_CASE(a_foreign_codebook_value_is_refused) {
  PackFolder pack(exl3::PackLayout::experts);
  std::string marker(4, '\0');
  const std::uint32_t value =
      exl3::Codebook::mul1 == pack.matrices.begin()->second.form.codebook ? 0x83DCD12DU : 0xCBAC1FEDU;
  pack.write();
  std::memcpy(marker.data(), &value, 4);
  std::string wrong = marker;
  wrong[1] = 'X';
  const auto file = SafetensorsFile::open(pack.shard());
  const auto& first = pack.matrices.begin()->first;
  const TensorEntry* entry =
      file->find(first + ".mul1") != nullptr ? file->find(first + ".mul1") : file->find(first + ".mcg");
  BOOST_REQUIRE(entry != nullptr);
  std::string bytes = read_text_file(pack.shard());
  BOOST_TEST(bytes.compare(entry->offset, 4, marker) == 0);
  write_text_file(pack.shard(), bytes.replace(entry->offset, 4, wrong));
  check_refused(pack.path(), first.c_str(), "the multiplier of codebook");
}

BOOST_AUTO_TEST_CASE(a_cut_through_a_hadamard_block_is_refused_by_name) {
  PackFolder pack(exl3::PackLayout::experts);
  pack.write();
  const auto checkpoint = Checkpoint::open(pack.path());
  BOOST_REQUIRE(checkpoint.has_value());
  const Exl3Wanted wanted{"layers.0.ffn.experts.0.w1", 256, 256};
  const auto place = find_exl3(*checkpoint, wanted);
  BOOST_REQUIRE(place.has_value());
  TensorStream stream(4096, nullptr);
  for (const Exl3Part& part : {Exl3Part{{64, 128}, {0, 256}}, Exl3Part{{0, 64}, {0, 256}},
                               Exl3Part{{0, 256}, {128, 256}}, Exl3Part{{0, 256}, {0, 0}}}) {
    const auto linear = load_exl3(stream, *place, wanted, part);
    BOOST_REQUIRE(!linear.has_value());
    BOOST_TEST(linear.error().message().find("w1.trellis: a cut at") != std::string::npos);
    BOOST_TEST(linear.error().message().find("multiples of 128") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_padded_matrix_loads_up_to_its_own_end) {
  PackFolder pack(exl3::PackLayout::experts);
  pack.write();
  const auto checkpoint = Checkpoint::open(pack.path());
  const std::string module = "layers.0.ffn.experts.0.w1";
  const Exl3Wanted wanted{module, 200, 130};  // stored with both sides rounded up to 256
  const auto place = find_exl3(*checkpoint, wanted);
  BOOST_REQUIRE(place.has_value());
  TensorStream stream(4096, nullptr);
  const auto linear = load_exl3(stream, *place, wanted, {{0, 200}, {0, 130}});
  BOOST_REQUIRE(linear.has_value());
  BOOST_TEST(linear->n == 200);
  BOOST_TEST(linear->k == 130);
  BOOST_TEST(linear->codes.bytes == pack.matrices.at(module).trellis.size() * 2);
  const auto last = load_exl3(stream, *place, wanted, {{128, 72}, {128, 2}});
  BOOST_REQUIRE(last.has_value());
  const Linear expected = linear_of(cut(pack.matrices.at(module), {128, 128, 128, 128}));
  BOOST_TEST(std::memcmp(last->codes.data.get(), expected.codes.data.get(), expected.codes.bytes) == 0);
}

BOOST_AUTO_TEST_CASE(packed_signs_of_older_files_become_scales_of_one) {
  const GoldenFile golden("codebook");
  const auto words = golden.values<std::uint16_t>("packed_signs.su");
  PackFolder pack(exl3::PackLayout::experts);
  pack.write();
  // One expert again in a bank of its own, its input scales as packed signs.
  auto& matrix = pack.matrices.at("layers.0.ffn.experts.0.w1");
  TemporaryFolder other;
  std::vector<TensorData> tensors;
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  const std::string module = "layers.0.ffn.experts.0.w1";
  tensors.push_back({module + ".trellis", DType::i16, {16, 16, matrix.form.tile_words()}, bytes(matrix.trellis)});
  tensors.push_back({module + ".su", DType::i16, {16}, bytes(words)});
  tensors.push_back({module + ".svh", DType::f16, {256}, bytes(matrix.svh)});
  std::filesystem::create_directories(pack.bank("signs"));
  BOOST_REQUIRE(write_safetensors(pack.bank("signs") / "bank.safetensors", tensors).has_value());
  std::filesystem::create_directories(pack.bank("plan"));
  write_text_file(pack.bank("plan") / "bits.json", R"({"allocation": {"layers.0.ffn.experts.0.w1": "signs"}})");
  const auto weights = load(pack.path(), 0, 1);
  BOOST_REQUIRE_MESSAGE(weights.has_value(), message_of(weights));
  const Linear& loaded = weights->layers[0].moe.experts[0].w1;
  BOOST_TEST((loaded.exl3 == exl3::Form{matrix.form.bits, exl3::Codebook::inst3}));
  const auto expected = golden.values<std::uint16_t>("packed_signs.suh");
  BOOST_TEST(std::memcmp(loaded.scales.data.get(), expected.data(), 512) == 0);
}

BOOST_AUTO_TEST_CASE(an_overlay_without_a_base_or_in_a_circle_is_refused) {
  PackFolder pack(exl3::PackLayout::whole);
  pack.write();
  const auto overlay = pack.path() / "overlay.json";
  write_text_file(overlay, R"({"base": "nowhere"})");
  check_refused(pack.path(), "overlay.json", "an existing folder");
  write_text_file(overlay, R"({"base": "."})");
  check_refused(pack.path(), pack.path().c_str(), "no circle");
  write_text_file(overlay, R"({"bass": "."})");
  check_refused(pack.path(), "overlay.json", R"({"base": "FOLDER"})");
  std::filesystem::remove(overlay);
  check_refused(pack.path(), "embed.weight", "missing");
}

BOOST_AUTO_TEST_SUITE_END()
