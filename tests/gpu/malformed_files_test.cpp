// Files that are cut, are none, or disagree with the index: every one is refused with the right code and a message that
// names the file and what was expected instead.
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>

#include "tests/gpu/malformed_checkpoint_fixture.hpp"

namespace tandem::gpu::test {

BOOST_AUTO_TEST_SUITE(malformed_checkpoint)

BOOST_AUTO_TEST_CASE(the_unchanged_folder_starts) {
  CheckpointFolder folder;
  folder.write();
  const Result<void> result = start_on(folder.path());
  BOOST_TEST(result.has_value());
}

BOOST_AUTO_TEST_CASE(a_broken_shard_file_is_refused) {
  check_refused_files({
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
  check_refused_files({
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

BOOST_AUTO_TEST_CASE(a_broken_index_is_refused) {
  const auto remove = [](int number) {
    return [number](CheckpointFolder& f) { std::filesystem::remove(number == 0 ? f.index() : f.shard(number)); };
  };
  check_refused_files({
      {"no index and no single file", remove(0), ErrorCode::not_found, {index_name, "model.safetensors"}},
      {"shard missing", remove(2), ErrorCode::not_found, {shard2}},
      {"not JSON", edit_index("{", "("), ErrorCode::bad_format, {index_name, "valid JSON"}},
      {"no weight_map",
       edit_index("weight_map", "weightmap"),
       ErrorCode::bad_format,
       {index_name, "weight_map", "absent"}},
      {"weight_map empty",
       [](CheckpointFolder& f) { write_file(f.index(), R"({"weight_map":{}})"); },
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

BOOST_AUTO_TEST_CASE(a_broken_token_map_is_reported_by_verification) {
  const std::string map = "engram_token_map.i32";
  check_refused_content({
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

}  // namespace tandem::gpu::test
