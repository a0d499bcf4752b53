// Loading: what arrives in memory is what the file holds, whole or cut over ranks; every failing read is an error.
#include "gpu/checkpoint/loader.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "gpu/checkpoint/engram_extents.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using test::CheckpointFolder;
using test::Stored;

namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const Buffer& buffer) {
  return {buffer.data.get(), buffer.data.get() + buffer.bytes};
}

// The codes and scales of matrices laid below each other.
struct Joined {
  Bytes codes, scales;
};

Joined join_rows(const std::vector<const Linear*>& parts) {
  Joined joined;
  for (const Linear* part : parts) {
    const Bytes codes = bytes_of(part->codes);
    const Bytes scales = bytes_of(part->scales);
    joined.codes.insert(joined.codes.end(), codes.begin(), codes.end());
    joined.scales.insert(joined.scales.end(), scales.begin(), scales.end());
  }
  return joined;
}

// Lays `parts` of `rows` rows each beside each other.
Bytes beside(const std::vector<const Buffer*>& parts, std::int64_t rows) {
  Bytes joined;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const Buffer* part : parts) {
      const std::size_t row_bytes = part->bytes / static_cast<std::size_t>(rows);
      const std::byte* first = part->data.get() + static_cast<std::size_t>(row) * row_bytes;
      joined.insert(joined.end(), first, first + row_bytes);
    }
  }
  return joined;
}

Joined join_columns(const std::vector<const PartialLinear*>& ranks) {
  std::vector<const Buffer*> codes, scales;
  for (const PartialLinear* rank : ranks) {
    for (const Linear& slice : rank->slices) {
      codes.push_back(&slice.codes);
      scales.push_back(&slice.scales);
    }
  }
  const Linear& any = ranks.front()->slices.front();
  const std::int64_t scale_rows = any.format == WeightFormat::fp8_block32 ? (any.n + 31) / 32 : any.n;
  return {beside(codes, any.n), beside(scales, scale_rows)};
}

// Compares joined slices with the file's tensors of that name.
void check_equal(const CheckpointFolder& folder, const std::string& name, const Joined& joined) {
  BOOST_TEST_CONTEXT(name) {
    BOOST_TEST((joined.codes == folder.tensors.at(name + ".weight").bytes));
    const auto scales = folder.tensors.find(name + ".scale");
    BOOST_TEST((joined.scales == (scales == folder.tensors.end() ? Bytes{} : scales->second.bytes)));
  }
}

struct Loaded {
  ModelConfig config;
  std::vector<ModelWeights> ranks;
};

Loaded load_ranks(const CheckpointFolder& folder, int ranks, std::size_t piece_bytes = 1 << 20) {
  Loaded loaded{*ModelConfig::load(folder.path()), {}};
  for (int rank = 0; rank < ranks; ++rank) {
    LoadRequest request;
    request.rank = rank;
    request.ranks = ranks;
    request.piece_bytes = piece_bytes;
    auto weights = load_weights(folder.path(), loaded.config, request);
    BOOST_REQUIRE_MESSAGE(weights.has_value(), weights.error().message());
    loaded.ranks.push_back(std::move(*weights));
  }
  return loaded;
}

// Collects one field of all ranks.
template <class T, class Pick>
std::vector<const T*> pick(const Loaded& loaded, Pick pick_one) {
  std::vector<const T*> parts;
  for (const ModelWeights& rank : loaded.ranks) parts.push_back(&pick_one(rank));
  return parts;
}

template <class PickBlock>
void check_block(const CheckpointFolder& folder, const Loaded& loaded, const std::string& prefix, PickBlock block) {
  const auto rows = [&](const std::string& name, auto field) {
    check_equal(folder, prefix + name,
                join_rows(pick<Linear>(
                    loaded, [&](const ModelWeights& w) -> auto& { return field(block(w)); })));
  };
  const auto columns = [&](const std::string& name, auto field) {
    check_equal(folder, prefix + name,
                join_columns(pick<PartialLinear>(
                    loaded, [&](const ModelWeights& w) -> auto& { return field(block(w)); })));
  };
  rows(
      "attn.wq_b", [](const BlockWeights& b) -> auto& { return b.attn.wq_b; });
  columns(
      "attn.wo_b", [](const BlockWeights& b) -> auto& { return b.attn.wo_b; });
  for (std::size_t e = 0; e < 2; ++e) {
    const std::string expert = "ffn.experts." + std::to_string(e);
    rows(
        expert + ".w1", [e](const BlockWeights& b) -> auto& { return b.moe.experts[e].w1; });
    rows(
        expert + ".w3", [e](const BlockWeights& b) -> auto& { return b.moe.experts[e].w3; });
    columns(
        expert + ".w2", [e](const BlockWeights& b) -> auto& { return b.moe.experts[e].w2; });
  }
  rows(
      "ffn.shared_experts.w1", [](const BlockWeights& b) -> auto& { return b.moe.shared.w1; });
  columns(
      "ffn.shared_experts.w2", [](const BlockWeights& b) -> auto& { return b.moe.shared.w2; });
  std::vector<const Linear*> groups;
  for (const ModelWeights& rank : loaded.ranks) {
    for (const Linear& group : block(rank).attn.wo_a) groups.push_back(&group);
  }
  BOOST_TEST(groups.size() == static_cast<std::size_t>(loaded.config.o_groups));
  check_equal(folder, prefix + "attn.wo_a", join_rows(groups));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(loader)

BOOST_AUTO_TEST_CASE(slices_of_one_two_and_four_ranks_join_to_the_file) {
  CheckpointFolder folder;
  folder.write();
  for (int ranks : {1, 2, 4}) {
    BOOST_TEST_CONTEXT(ranks << " ranks") {
      const Loaded loaded = load_ranks(folder, ranks);
      for (std::size_t layer = 0; layer < 5; ++layer) {
        check_block(folder, loaded, "layers." + std::to_string(layer) + ".",
                    [layer](const ModelWeights& w) -> const BlockWeights& { return w.layers[layer]; });
      }
      check_block(folder, loaded, "mtp.0.",
                  [](const ModelWeights& w) -> const BlockWeights& { return w.dspark.stages[0]; });
      check_equal(folder, "head",
                  join_rows(pick<Linear>(
                      loaded, [](const ModelWeights& w) -> auto& { return w.head; })));
      check_equal(folder, "mtp.0.markov_head.head",
                  join_rows(pick<Linear>(
                      loaded, [](const ModelWeights& w) -> auto& { return w.dspark.markov_head; })));
      Bytes sinks;
      for (const ModelWeights& rank : loaded.ranks) {
        const Bytes part = bytes_of(rank.layers[2].attn.sink.values);
        sinks.insert(sinks.end(), part.begin(), part.end());
      }
      BOOST_TEST((sinks == folder.at("layers.2.attn.attn_sink").bytes));
    }
  }
}

BOOST_AUTO_TEST_CASE(replicated_matrices_are_whole_on_every_rank) {
  CheckpointFolder folder;
  folder.write();
  for (const ModelWeights& rank : load_ranks(folder, 2).ranks) {
    check_equal(folder, "embed", join_rows({&rank.embed}));
    check_equal(folder, "layers.0.attn.wq_a", join_rows({&rank.layers[0].attn.wq_a}));
    check_equal(folder, "layers.1.attn.wkv", join_rows({&rank.layers[1].attn.wkv}));
    check_equal(folder, "layers.1.ffn.gate", join_rows({&rank.layers[1].moe.gate}));
    check_equal(folder, "layers.1.engram.wkv", join_rows({&rank.layers[1].engram.wkv}));
    check_equal(folder, "layers.1.attn.compressor.wgate", join_rows({&rank.layers[1].attn.compressor.wgate}));
    check_equal(folder, "layers.3.attn.indexer.wk", join_rows({&rank.layers[3].attn.indexer.wk}));
    check_equal(folder, "layers.4.attn.indexer.wq_b", join_rows({&rank.layers[4].attn.indexer.wq_b}));
    check_equal(folder, "mtp.0.main_proj", join_rows({&rank.dspark.main_proj}));
    BOOST_TEST(rank.layers[3].attn.compressor.wgate.empty());
    BOOST_TEST(rank.layers[4].attn.indexer.wk.empty());
    BOOST_TEST(rank.layers[0].engram.wkv.empty());
  }
}

BOOST_AUTO_TEST_CASE(one_rank_holds_two_halves_and_two_ranks_one_each) {
  CheckpointFolder folder;
  folder.write();
  const Loaded one = load_ranks(folder, 1);
  const Loaded two = load_ranks(folder, 2);
  const PartialLinear& halves = one.ranks[0].layers[0].attn.wo_b;
  BOOST_REQUIRE(halves.slices.size() == 2U);
  BOOST_TEST(halves.k_local == 128);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const PartialLinear& own = two.ranks[rank].layers[0].attn.wo_b;
    BOOST_REQUIRE(own.slices.size() == 1U);
    BOOST_TEST(own.k_local == 64);
    BOOST_TEST((bytes_of(own.slices[0].codes) == bytes_of(halves.slices[rank].codes)));
    BOOST_TEST((bytes_of(own.slices[0].scales) == bytes_of(halves.slices[rank].scales)));
  }
}

BOOST_AUTO_TEST_CASE(bf16_vectors_arrive_as_exact_f32) {
  CheckpointFolder folder;
  folder.write();
  const Loaded loaded = load_ranks(folder, 1);
  const DenseF32& norm = loaded.ranks[0].layers[2].attn_norm;
  const Bytes& file = folder.at("layers.2.attn_norm.weight").bytes;
  BOOST_TEST(norm.rows == 1);
  BOOST_REQUIRE(norm.cols == 64);
  for (std::size_t i = 0; i < 64; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, norm.data() + i, 4);
    std::uint16_t stored = 0;
    std::memcpy(&stored, file.data() + 2 * i, 2);
    BOOST_TEST(bits == std::uint32_t{stored} << 16);
  }
  BOOST_TEST(loaded.ranks[0].layers[0].hc_attn.fn.rows == 24);
  BOOST_TEST(loaded.ranks[0].layers[0].hc_attn.fn.cols == 256);
}

BOOST_AUTO_TEST_CASE(the_size_of_a_piece_does_not_matter) {
  CheckpointFolder folder;
  folder.write();
  for (std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{100}, std::size_t{4096}}) {
    const Loaded loaded = load_ranks(folder, 2, piece);
    check_block(folder, loaded, "layers.1.", [](const ModelWeights& w) -> const BlockWeights& { return w.layers[1]; });
  }
}

BOOST_AUTO_TEST_CASE(a_matrix_may_be_stored_as_bf16_or_f32_without_scales) {
  for (DType dtype : {DType::bf16, DType::f32}) {
    CheckpointFolder folder;
    for (const std::string name :
         {"layers.0.attn.wo_b", "layers.0.ffn.experts.1.w2", "layers.0.ffn.experts.1.w1", "layers.0.attn.wo_a"}) {
      Stored& stored = folder.at(name + ".weight");
      if (stored.dtype == DType::i8) stored.shape[1] *= 2;
      stored.dtype = dtype;
      stored.bytes.assign(static_cast<std::size_t>(stored.shape[0] * stored.shape[1]) * element_bytes(dtype),
                          std::byte{0x3E});
      for (std::size_t i = 0; i < stored.bytes.size(); i += 3) stored.bytes[i] = static_cast<std::byte>(i % 61);
      folder.tensors.erase(name + ".scale");
    }
    folder.write();
    for (int ranks : {1, 2, 4}) {
      const Loaded loaded = load_ranks(folder, ranks);
      const Linear& first = loaded.ranks[0].layers[0].attn.wo_b.slices[0];
      BOOST_TEST((first.format == (dtype == DType::bf16 ? WeightFormat::bf16 : WeightFormat::f32)));
      check_block(folder, loaded, "layers.0.",
                  [](const ModelWeights& w) -> const BlockWeights& { return w.layers[0]; });
    }
  }
}

BOOST_AUTO_TEST_CASE(a_single_file_without_an_index_loads_the_same) {
  CheckpointFolder folder;
  folder.write_single_file();
  const Loaded loaded = load_ranks(folder, 2);
  check_block(folder, loaded, "layers.4.", [](const ModelWeights& w) -> const BlockWeights& { return w.layers[4]; });
}

BOOST_AUTO_TEST_CASE(resident_bytes_are_those_of_all_buffers_and_halve_where_cut) {
  CheckpointFolder folder;
  folder.write();
  const std::size_t one = load_ranks(folder, 1).ranks[0].bytes;
  const Loaded two = load_ranks(folder, 2);
  BOOST_TEST(two.ranks[0].bytes == two.ranks[1].bytes);
  BOOST_TEST(two.ranks[0].bytes < one);
  BOOST_TEST(two.ranks[0].bytes * 2 > one);
}

BOOST_AUTO_TEST_CASE(the_draft_network_can_be_left_out) {
  CheckpointFolder folder;
  folder.write();
  LoadRequest request;
  request.draft = false;
  const auto weights = load_weights(folder.path(), *ModelConfig::load(folder.path()), request);
  BOOST_REQUIRE(weights.has_value());
  BOOST_TEST(weights->dspark.stages.empty());
  BOOST_TEST(weights->dspark.main_proj.empty());
}

BOOST_AUTO_TEST_CASE(progress_rises_to_one_and_stop_ends_with_cancelled) {
  CheckpointFolder folder;
  folder.write();
  const ModelConfig config = *ModelConfig::load(folder.path());
  std::atomic<bool> stop = false;
  double last = 0;
  LoadRequest request;
  request.stop = &stop;
  request.progress = [&](double fraction, const std::string&) {
    BOOST_TEST(fraction > last);
    last = fraction;
  };
  BOOST_TEST(load_weights(folder.path(), config, request).has_value());
  BOOST_TEST(last == 1.0);
  request.progress = [&](double fraction, const std::string&) { stop = fraction > 0.3; };
  const auto stopped = load_weights(folder.path(), config, request);
  BOOST_REQUIRE(stopped.has_error());
  BOOST_TEST((stopped.error().code == ErrorCode::cancelled));
}

BOOST_AUTO_TEST_CASE(ranks_that_do_not_divide_the_model_are_refused) {
  CheckpointFolder folder;
  folder.write();
  const ModelConfig config = *ModelConfig::load(folder.path());
  struct Case {
    int rank, ranks;
    ErrorCode code;
  };
  for (const Case& c :
       {Case{0, 3, ErrorCode::bad_config}, Case{0, 8, ErrorCode::bad_config}, Case{0, 0, ErrorCode::invalid_argument},
        Case{2, 2, ErrorCode::invalid_argument}, Case{-1, 2, ErrorCode::invalid_argument}}) {
    LoadRequest request;
    request.rank = c.rank;
    request.ranks = c.ranks;
    const auto weights = load_weights(folder.path(), config, request);
    BOOST_REQUIRE(weights.has_error());
    BOOST_TEST((weights.error().code == c.code), weights.error().message());
  }
}

BOOST_AUTO_TEST_CASE(engram_extents_point_at_the_rows_of_the_file) {
  CheckpointFolder folder;
  folder.write();
  const auto checkpoint = Checkpoint::open(folder.path());
  const auto extents = find_engram_extents(*checkpoint, *ModelConfig::load(folder.path()));
  BOOST_REQUIRE(extents.has_value());
  BOOST_REQUIRE(extents->size() == 1U);
  const EngramExtents& table = extents->front();
  BOOST_TEST(table.layer == 1);
  BOOST_TEST(table.codes.rows == 36);
  BOOST_TEST(table.codes.row_bytes == 32);
  BOOST_TEST(table.scales.row_bytes == 1);
  const auto at = [](const RowExtent& extent) {
    const std::string file = test::read_file(extent.file);
    return file.substr(extent.offset, static_cast<std::size_t>(extent.rows * extent.row_bytes));
  };
  const auto stored = [&](const char* name) {
    const Bytes& bytes = folder.at(name).bytes;
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  BOOST_TEST((at(table.codes) == stored("layers.1.engram.embed.weight")));
  BOOST_TEST((at(table.scales) == stored("layers.1.engram.embed.scale")));
}

BOOST_AUTO_TEST_CASE(whichever_read_fails_loading_ends_with_its_error) {
  CheckpointFolder folder;
  folder.write();
  const ModelConfig config = *ModelConfig::load(folder.path());
  int runs = 0;
  for (int n = 0;; n += n < 20 ? 1 : 17) {
    test::FailingReads reads{n};
    Result<ModelWeights> weights = Error{};
    const auto checkpoint = Checkpoint::open(folder.path(), reads.opener());
    if (checkpoint) weights = load_weights(*checkpoint, config, {});
    if (!checkpoint) weights = checkpoint.error();
    if (!reads.fired()) {
      BOOST_TEST(weights.has_value());
      break;
    }
    ++runs;
    BOOST_REQUIRE(weights.has_error());
    BOOST_TEST((weights.error().code == ErrorCode::io));
    BOOST_TEST(weights.error().message().find("injected fault") != std::string::npos);
  }
  BOOST_TEST(runs > 30);
}

BOOST_AUTO_TEST_CASE(the_golden_checkpoint_loads_on_one_and_two_ranks) {
  const auto config = ModelConfig::load(test::golden_checkpoint());
  BOOST_REQUIRE_MESSAGE(config.has_value(), config.error().message());
  for (int ranks : {1, 2}) {
    LoadRequest request;
    request.ranks = ranks;
    const auto weights = load_weights(test::golden_checkpoint(), *config, request);
    BOOST_REQUIRE_MESSAGE(weights.has_value(), weights.error().message());
    BOOST_TEST(weights->layers.size() == 10U);
    BOOST_TEST(weights->dspark.stages.size() == 3U);
    BOOST_TEST(weights->layers[9].attn.wo_a.size() == static_cast<std::size_t>(2 / ranks));
  }
}

BOOST_AUTO_TEST_SUITE_END()
