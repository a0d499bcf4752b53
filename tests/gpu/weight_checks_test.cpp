// Each of the checks W1 to W8 passes on a right folder and fails, naming the place, on a folder with one thing wrong.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "engram/pack/open_table.hpp"
#include "engram/pack/packer.hpp"
#include "gpu/model/engram_sources.hpp"
#include "gpu/weights_files/bits_map.hpp"
#include "gpu/weights_files/hash_check.hpp"
#include "gpu/weights_files/header_checks.hpp"
#include "gpu/weights_files/packed_table_check.hpp"
#include "tests/build_paths.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(weight_checks)

namespace {

bool passes(const WeightCheck& check) {
  for (const Error& fault : check.faults) BOOST_TEST_MESSAGE(check.id << ": " << fault.message());
  return check.verdict == CheckVerdict::pass && check.faults.empty() && !check.stops_loading;
}

// True if the check failed and one of its faults speaks of `text`.
bool fails_at(const WeightCheck& check, const std::string& text) {
  if (check.verdict != CheckVerdict::fail) return false;
  for (const Error& fault : check.faults) {
    if (fault.message().find(text) != std::string::npos) return true;
  }
  for (const Error& fault : check.faults) BOOST_TEST_MESSAGE(check.id << ": " << fault.message());
  return false;
}

WeightHeaders headers_of(const fs::path& folder) {
  FilesCheck check = check_files(folder);
  BOOST_REQUIRE(passes(check.verdict));
  return std::move(check.headers);
}

// The tiny model's pack, one link a file, so that a case can replace what it is about.
class PackFolder {
 public:
  PackFolder() {
    const fs::path configs = source_folder() / "configs";
    for (const auto& entry : fs::directory_iterator(configs / "tiny-exl3")) {
      if (entry.path().filename() == "overlay.json") continue;
      fs::create_symlink(entry.path(), path() / entry.path().filename());
    }
    test::write_file(path() / "overlay.json", fmt::format(R"({{"base": "{}"}})", (configs / "tiny").string()));
  }
  const fs::path& path() const { return folder_.path(); }
  // Returns a file's own copy in the place of its link.
  fs::path own(const std::string& name) const {
    const std::string bytes = test::read_file(path() / name);
    fs::remove(path() / name);
    test::write_file(path() / name, bytes);
    return path() / name;
  }

 private:
  test::CheckpointFolder folder_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_right_official_folder_passes_what_can_be_checked) {
  test::CheckpointFolder folder;
  folder.write();
  const WeightHeaders headers = headers_of(folder.path());
  BOOST_TEST(passes(check_counts(headers)));
  BOOST_TEST(passes(check_tensors(headers)));
  BOOST_TEST((check_packed_matrices(headers).verdict == CheckVerdict::skipped));
  BOOST_TEST(passes(check_tables(headers)));
}

BOOST_AUTO_TEST_CASE(a_right_pack_passes_what_can_be_checked) {
  const PackFolder folder;
  const WeightHeaders headers = headers_of(folder.path());
  BOOST_TEST(passes(check_counts(headers)));
  BOOST_TEST(passes(check_tensors(headers)));
  BOOST_TEST(passes(check_packed_matrices(headers)));
  BOOST_TEST(passes(check_tables(headers)));
  BOOST_TEST(check_counts(headers).detail.find("whole pack: ") == 0U);
}

BOOST_AUTO_TEST_CASE(w1_names_every_file_that_is_missing_or_has_another_size) {
  test::CheckpointFolder folder;
  folder.write();
  fs::resize_file(folder.shard(1), fs::file_size(folder.shard(1)) - 1);
  fs::remove(folder.shard(2));
  const WeightCheck check = check_files(folder.path()).verdict;
  BOOST_TEST(fails_at(check, folder.shard(1).string()));
  BOOST_TEST(fails_at(check, folder.shard(2).string()));
  BOOST_TEST(check.stops_loading);
}

BOOST_AUTO_TEST_CASE(w1_wants_a_configuration_and_an_index_that_agrees_with_the_headers) {
  test::CheckpointFolder empty;
  BOOST_TEST(fails_at(check_files(empty.path()).verdict, "config.json"));
  test::CheckpointFolder folder;
  folder.write();
  test::edit_file(folder.index(), "\"layers.0.attn_norm.weight\"", "\"layers.0.attn_nerm.weight\"");
  BOOST_TEST(fails_at(check_files(folder.path()).verdict, "layers.0.attn_nerm.weight"));
}

BOOST_AUTO_TEST_CASE(what_stands_on_w1_is_skipped_when_it_failed) {
  test::CheckpointFolder empty;
  const WeightHeaders headers = check_files(empty.path()).headers;
  for (const WeightCheck& check : {check_counts(headers), check_tensors(headers), check_packed_matrices(headers),
                                   check_tables(headers), check_packed_tables(headers, empty.path(), 1)}) {
    BOOST_TEST((check.verdict == CheckVerdict::skipped), check.id);
    BOOST_TEST(check.detail.find("W1") != std::string::npos, check.detail);
  }
}

BOOST_AUTO_TEST_CASE(w2_misses_a_numbered_shard_of_an_official_checkpoint) {
  test::CheckpointFolder folder;
  folder.write();
  fs::rename(folder.shard(2), folder.path() / "model-00003-of-00003.safetensors");
  std::string index = test::read_file(folder.index());
  for (std::size_t at; (at = index.find("model-00002-of-00002")) != std::string::npos;)
    index.replace(at, 20, "model-00003-of-00003");
  test::write_file(folder.index(), index);
  const WeightCheck check = check_counts(headers_of(folder.path()));
  BOOST_TEST(fails_at(check, "1 of 3 shards; missing: 1, 2"));
  BOOST_TEST(fails_at(check, "1 of 2 shards; missing: 2"));
}

BOOST_AUTO_TEST_CASE(w2_misses_experts_that_no_bank_has) {
  const fs::path configs = source_folder() / "configs";
  test::CheckpointFolder folder;
  fs::copy_file(configs / "tiny/config.json", folder.path() / "config.json");
  test::write_file(folder.path() / "overlay.json", fmt::format(R"({{"base": "{}"}})", (configs / "tiny").string()));
  fs::create_directories(folder.path() / "exl3/qn");
  fs::create_symlink(configs / "tiny-exl3/exl3-00002.safetensors", folder.path() / "exl3/qn/a.safetensors");
  const WeightCheck check = check_counts(headers_of(folder.path()));
  BOOST_TEST(fails_at(check, "every expert of the backbone in a bank"));
}

BOOST_AUTO_TEST_CASE(w3_names_a_tensor_of_another_type_and_one_too_many) {
  test::CheckpointFolder folder;
  folder.tensors["layers.0.attn.more"] = folder.at("layers.0.attn_norm.weight");
  folder.at("layers.0.ffn_norm.weight").shape = {2, 32};
  folder.write();
  const WeightCheck check = check_tensors(headers_of(folder.path()));
  BOOST_TEST(fails_at(check, "layers.0.attn.more"));
  BOOST_TEST(fails_at(check, "layers.0.ffn_norm.weight"));
  BOOST_TEST(check.stops_loading);
}

BOOST_AUTO_TEST_CASE(w3_holds_bits_against_the_map_and_not_against_their_average) {
  const PackFolder folder;
  const fs::path map = folder.own(bits_map_file_name);
  test::edit_file(map, R"("bits_per_weight":5)", R"("bits_per_weight":4)");
  BOOST_TEST(fails_at(check_tensors(headers_of(folder.path())), "head.trellis: 5 bits, expected 4 bits"));
  test::edit_file(map, R"("bits_per_weight":4)", R"("bits_per_weight":2.9)");
  BOOST_TEST(fails_at(check_tensors(headers_of(folder.path())), "bits_per_weight"));
  fs::remove(map);
  BOOST_TEST(passes(check_tensors(headers_of(folder.path()))));
}

BOOST_AUTO_TEST_CASE(w4_reads_the_marker_of_every_codebook) {
  const PackFolder folder;
  const fs::path shard = folder.own("exl3-00003.safetensors");
  std::string bytes = test::read_file(shard);
  const std::size_t at = bytes.find("\x2D\xD1\xDC\x83");  // 0x83DCD12D, as it lies in the file
  BOOST_REQUIRE(at != std::string::npos);
  bytes[at] = '\x2E';
  test::write_file(shard, bytes);
  const WeightCheck check = check_packed_matrices(headers_of(folder.path()));
  BOOST_TEST(fails_at(check, "0x83DCD12E"));
  BOOST_TEST(check.stops_loading);
}

BOOST_AUTO_TEST_CASE(w5_refuses_rows_typed_as_bytes_and_is_the_one_to_say_so) {
  test::CheckpointFolder folder;
  folder.at("layers.1.engram.embed.weight").dtype = DType::u8;
  folder.write();
  const WeightHeaders headers = headers_of(folder.path());
  BOOST_TEST(fails_at(check_tables(headers), "layers.1.engram.embed.weight"));
  BOOST_TEST(passes(check_tensors(headers)));
}

BOOST_AUTO_TEST_CASE(w5_refuses_tables_of_other_layers_rows_and_widths) {
  test::CheckpointFolder folder;
  folder.tensors["layers.2.engram.embed.weight"] = folder.at("layers.1.engram.embed.weight");
  test::Stored& table = folder.at("layers.1.engram.embed.weight");
  table.shape[0] -= 1;
  table.bytes.resize(table.bytes.size() - static_cast<std::size_t>(table.shape[1]));
  folder.write();
  const WeightCheck check = check_tables(headers_of(folder.path()));
  BOOST_TEST(fails_at(check, "layers.2.engram.embed.weight"));
  BOOST_TEST(fails_at(check, "layers.1.engram.embed.weight"));
}

BOOST_AUTO_TEST_CASE(w6_needs_a_manifest_and_reads_only_what_it_must) {
  test::CheckpointFolder folder;
  folder.write();
  HashCheckOptions options;
  BOOST_TEST((check_hashes(folder.path(), options).verdict == CheckVerdict::skipped));
  const auto made = make_manifest(folder.path(), "r", options);
  BOOST_REQUIRE_MESSAGE(made, made.error().message());
  BOOST_REQUIRE(write_manifest(folder.path(), *made).has_value());
  const WeightCheck again = check_hashes(folder.path(), options);
  BOOST_TEST(passes(again));
  BOOST_TEST(again.detail == "5 files, 0 hashed now, 5 unchanged since they were hashed");
  fs::remove(folder.path() / receipt_file_name);
  BOOST_TEST((check_hashes(folder.path(), options).verdict == CheckVerdict::skipped), "sizes alone prove nothing");
  options.depth = HashDepth::unverified;
  BOOST_TEST(passes(check_hashes(folder.path(), options)));
  options.depth = HashDepth::all;
  BOOST_TEST(check_hashes(folder.path(), options).detail ==
             "5 files, 5 hashed now, 0 unchanged since they were hashed");
}

BOOST_AUTO_TEST_CASE(w6_finds_a_changed_byte_without_being_asked_to_hash) {
  test::CheckpointFolder folder;
  folder.write();
  BOOST_REQUIRE(write_manifest(folder.path(), *make_manifest(folder.path(), "r", {})).has_value());
  std::string bytes = test::read_file(folder.shard(1));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const auto before = fs::last_write_time(folder.shard(1));
  test::write_file(folder.shard(1), bytes);
  fs::last_write_time(folder.shard(1), before + std::chrono::seconds(1));
  const WeightCheck check = check_hashes(folder.path(), {});
  BOOST_TEST(fails_at(check, "sha256"));
  BOOST_TEST(fails_at(check, folder.shard(1).string()));
  BOOST_TEST(!check.stops_loading);
}

BOOST_AUTO_TEST_CASE(w6_finds_files_that_are_missing_longer_or_listed_without_a_hash) {
  test::CheckpointFolder folder;
  folder.write();
  Manifest listed = *make_manifest(folder.path(), "r", {});
  listed.files.push_back({"absent", 1, ""});
  for (ManifestEntry& entry : listed.files) {
    if (entry.path == "config.json") ++entry.bytes;
    if (entry.path == "engram_token_map.i32") entry.sha256.clear();
  }
  BOOST_REQUIRE(write_manifest(folder.path(), listed).has_value());
  const WeightCheck check = check_hashes(folder.path(), {});
  BOOST_TEST(fails_at(check, "absent"));
  BOOST_TEST(fails_at(check, "config.json"));
  BOOST_TEST(check.detail.find("1 compared by size alone") != std::string::npos, check.detail);
  test::write_file(folder.path() / manifest_file_name, "{");
  BOOST_TEST(fails_at(check_hashes(folder.path(), {}), manifest_file_name));
}

BOOST_AUTO_TEST_CASE(w6_fails_for_shards_that_the_manifest_leaves_out) {
  test::CheckpointFolder folder;
  folder.write();
  test::write_file(folder.path() / "README.md", "notes");
  Manifest listed = *make_manifest(folder.path(), "r", {});
  std::erase_if(listed.files, [&](const ManifestEntry& entry) {
    return entry.path == folder.shard(2).filename() || entry.path == "README.md";
  });
  BOOST_REQUIRE(write_manifest(folder.path(), listed).has_value());
  const WeightCheck check = check_hashes(folder.path(), {});
  BOOST_TEST(fails_at(check, folder.shard(2).string()));
  BOOST_TEST(check.faults.size() == 1U);
  BOOST_TEST(check.detail.find("1 more that the manifest does not list") != std::string::npos, check.detail);
  BOOST_REQUIRE(write_manifest(folder.path(), {"r", {}}).has_value());
  BOOST_TEST(fails_at(check_hashes(folder.path(), {}), "no files"));
}

BOOST_AUTO_TEST_CASE(w6_fails_where_hashes_are_wanted_and_there_is_no_manifest) {
  test::CheckpointFolder folder;
  folder.write();
  HashCheckOptions options;
  for (const HashDepth depth : {HashDepth::unverified, HashDepth::all}) {
    options.depth = depth;
    const WeightCheck check = check_hashes(folder.path(), options);
    BOOST_TEST(fails_at(check, "--write-manifest"));
    BOOST_TEST(!check.stops_loading);
  }
}

BOOST_AUTO_TEST_CASE(w7_compares_revisions_or_says_why_not) {
  test::CheckpointFolder folder;
  folder.write();
  BOOST_TEST(check_revision(folder.path(), {std::nullopt, "nobody asked", {}}).detail == "nobody asked");
  const Error unreached{ErrorCode::timeout, "10.0.0.2:29510", "no answer", ""};
  BOOST_TEST(fails_at(check_revision(folder.path(), {std::nullopt, "", unreached}), "no answer"));
  BOOST_TEST((check_revision(folder.path(), {"00", "", {}}).verdict == CheckVerdict::skipped), "no manifest here");
  const Manifest made = *make_manifest(folder.path(), "r", {});
  BOOST_REQUIRE(write_manifest(folder.path(), made).has_value());
  BOOST_TEST(passes(check_revision(folder.path(), {manifest_hash(made), "", {}})));
  const WeightCheck other = check_revision(folder.path(), {std::string(64, '0'), "", {}});
  BOOST_TEST(fails_at(other, "the other node's"));
  BOOST_TEST(!other.stops_loading);
}

namespace {

// Packs every table of a folder into `out` for the first of one ranks.
void pack_tables(const fs::path& folder, const fs::path& out) {
  const WeightHeaders headers = headers_of(folder);
  const auto sources = find_engram_sources(*headers.config, *headers.checkpoint);
  const auto geometry = make_engram_geometry(headers.config->engram, 0);
  BOOST_REQUIRE(sources && geometry);
  for (std::size_t i = 0; i < sources->size(); ++i) {
    const int layer = headers.config->engram.layers[i];
    const auto owned = geometry->owned(i, 0, 1);
    const engram::PackJob job{(*sources)[i],
                              {layer, {(*sources)[i].shape, (*sources)[i].rows, owned->first_row, owned->last_row}},
                              out / engram::packed_file_name(layer, 0, 1)};
    const auto packed = engram::pack_table(job, {}, std::make_shared<engram::Storage>());
    BOOST_REQUIRE_MESSAGE(packed, packed.error().message());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(w8_passes_packed_files_of_this_model_and_tells_other_ones_from_damaged_ones) {
  test::CheckpointFolder folder, other;
  folder.write();
  const WeightHeaders headers = headers_of(folder.path());
  BOOST_TEST((check_packed_tables(headers, folder.path(), 1).verdict == CheckVerdict::skipped), "there is none");
  pack_tables(folder.path(), folder.path());
  BOOST_TEST(passes(check_packed_tables(headers, folder.path(), 1)));
  BOOST_TEST((check_packed_tables(headers, folder.path(), 2).verdict == CheckVerdict::skipped), "none for two ranks");

  other.at("layers.1.engram.embed.weight").bytes[0] ^= std::byte{1};
  other.write();
  const WeightCheck foreign = check_packed_tables(headers_of(other.path()), folder.path(), 1);
  BOOST_TEST(fails_at(foreign, "rows of another model"));
  BOOST_TEST(!foreign.stops_loading);

  const fs::path packed = folder.path() / engram::packed_file_name(1, 0, 1);
  fs::remove(packed.string() + ".json");
  BOOST_TEST(passes(check_packed_tables(headers, folder.path(), 1)));
  BOOST_TEST(fails_at(check_packed_tables(headers_of(other.path()), folder.path(), 1), "rows of another model"));
  fs::resize_file(packed, fs::file_size(packed) - 1);
  const WeightCheck cut = check_packed_tables(headers, folder.path(), 1);
  BOOST_TEST(fails_at(cut, packed.string()));
  BOOST_TEST(cut.stops_loading);
}

BOOST_AUTO_TEST_SUITE_END()
