// Entries of a header that describe no tensor, or places that are not its own: every one is refused with the right code
// and a message that names the file, the tensor and what was expected instead.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "tests/gpu/malformed_checkpoint_fixture.hpp"

namespace tandem::gpu::test {

BOOST_AUTO_TEST_SUITE(malformed_checkpoint)

// The text of an entry in a header, from the text of its three values.
std::string header_entry(const char* dtype, const char* shape, const char* offsets) {
  return fmt::format(R"("embed.weight":{{"dtype":{},"shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}

const char* const bf16 = R"("BF16")";
const std::string embed_entry = header_entry(bf16, "[64,64]", "[0,8192]");

Change embed_becomes(std::string entry) {
  return edit_first_header(embed_entry, std::move(entry));
}

Change embed_becomes(const char* dtype, const char* shape, const char* offsets) {
  return embed_becomes(header_entry(dtype, shape, offsets));
}

BOOST_AUTO_TEST_CASE(a_header_entry_that_describes_no_tensor_is_refused) {
  check_refused_files({
      {"unknown dtype",
       embed_becomes(R"("BF17")", "[64,64]", "[0,8192]"),
       ErrorCode::bad_format,
       {shard1, "embed.weight", "BF17", "F8_E4M3"}},
      {"dtype is a number",
       embed_becomes("3", "[64,64]", "[0,8192]"),
       ErrorCode::bad_format,
       {"embed.weight", "dtype 3"}},
      {"dtype absent",
       embed_becomes(R"("embed.weight":{"d":"BF16","shape":[64,64],"data_offsets":[0,8192]})"),
       ErrorCode::bad_format,
       {"embed.weight", "dtype absent"}},
      {"a key too many",
       embed_becomes(R"("embed.weight":{"dtype":"BF16","shape":[64,64],"data_offsets":[0,8192],"x":1})"),
       ErrorCode::bad_format,
       {"embed.weight", "an object of dtype, shape and data_offsets"}},
      {"entry is null", embed_becomes(R"("embed.weight":null)"), ErrorCode::bad_format, {"embed.weight", "null"}},
      {"negative dimension",
       embed_becomes(bf16, "[64,-64]", "[0,8192]"),
       ErrorCode::bad_format,
       {"embed.weight", "-64", "dimensions >= 0"}},
      {"overflowing dimensions",
       embed_becomes(bf16, "[4611686018427387904,8]", "[0,8192]"),
       ErrorCode::bad_format,
       {"embed.weight", "4611686018427387904", "fits 64 bits"}},
      {"fractional dimension",
       embed_becomes(bf16, "[64,64.0]", "[0,8192]"),
       ErrorCode::bad_format,
       {"embed.weight", "dimensions >= 0"}},
      {"metadata is not text",
       edit_first_header(R"("format":"pt")", R"("format":7)"),
       ErrorCode::bad_format,
       {shard1, "__metadata__.format", "a string"}},
  });
}

BOOST_AUTO_TEST_CASE(a_place_in_the_file_that_is_not_the_tensors_own_is_refused) {
  const std::string other = R"("e2":{"dtype":"U8","shape":[9],"data_offsets":[8,17]})";
  check_refused_files({
      {"range and shape disagree",
       embed_becomes(bf16, "[64,63]", "[0,8192]"),
       ErrorCode::mismatch,
       {"embed.weight", "8192 bytes", "8064 bytes for BF16 [64, 63]"}},
      {"range backwards",
       embed_becomes(bf16, "[64,64]", "[8192,0]"),
       ErrorCode::bad_format,
       {"embed.weight", "begin <= end"}},
      {"range of three",
       embed_becomes(bf16, "[64,64]", "[0,1,8192]"),
       ErrorCode::bad_format,
       {"embed.weight", "[begin, end]"}},
      {"offset beyond the file",
       embed_becomes(bf16, "[64,64]", "[9000000000,9000008192]"),
       ErrorCode::out_of_range,
       {"embed.weight", "9000000000", "within"}},
      {"overlap",
       embed_becomes(bf16, "[64,64]", "[4096,12288]"),
       ErrorCode::bad_format,
       {shard1, "embed.weight", "hole"}},
      {"hole",
       embed_becomes(bf16, "[64,32]", "[0,4096]"),
       ErrorCode::bad_format,
       {shard1, "a hole behind embed.weight"}},
      {"two tensors in one place",
       embed_becomes(embed_entry + "," + other),
       ErrorCode::bad_format,
       {shard1, "overlap"}},
      {"tensor twice",
       embed_becomes(embed_entry + "," + embed_entry),
       ErrorCode::bad_format,
       {shard1, "'embed.weight' twice"}},
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
