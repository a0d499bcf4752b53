// A manifest comes from outside and files are created after it: what it may say, and everything that it may not.
#include "gpu/weights_files/manifest.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "gpu/weights_files/byte_count.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;

BOOST_AUTO_TEST_SUITE(manifest)

namespace {

const std::string zeros(64, '0');

ManifestEntry file(const std::string& path, std::uint64_t bytes = 1, const std::string& sha256 = "") {
  return {path, bytes, sha256};
}

// A manifest of one file, given as its JSON object.
std::string with_file(const std::string& object) {
  return R"({"format": 1, "revision": "r", "files": [)" + object + "]}";
}

std::string with_path(const std::string& path) {
  return with_file(R"({"path": ")" + path + R"(", "bytes": 1, "sha256": ""})");
}

Error refusal_of(const std::string& text) {
  const auto parsed = parse_manifest(text, "m.json");
  BOOST_REQUIRE_MESSAGE(!parsed, "accepted: " << text.substr(0, 200));
  return parsed.error();
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_what_is_read) {
  const Manifest written{"v1 \"quoted\"",
                         {file("a b.json", 0), file("exl3/qn/x.safetensors", manifest_file_bytes_max, zeros)}};
  const auto read = parse_manifest(to_json(written), "m.json");
  BOOST_REQUIRE_MESSAGE(read, read.error().message());
  BOOST_CHECK(*read == written);
  BOOST_TEST(read->bytes_all() == manifest_file_bytes_max);
}

BOOST_AUTO_TEST_CASE(a_manifest_without_files_is_one) {
  const auto read = parse_manifest(to_json({}), "m.json");
  BOOST_REQUIRE_MESSAGE(read, read.error().message());
  BOOST_TEST(read->files.empty());
}

BOOST_AUTO_TEST_CASE(files_come_in_the_order_of_their_paths_whatever_the_order_in_the_text) {
  const auto read = parse_manifest(to_json({"", {file("b"), file("a/2"), file("a-1")}}), "m.json");
  BOOST_REQUIRE(read);
  BOOST_TEST(read->files.at(0).path == "a-1");
  BOOST_TEST(read->files.at(1).path == "a/2");
  BOOST_TEST(read->files.at(2).path == "b");
}

BOOST_AUTO_TEST_CASE(upper_case_digits_of_a_hash_are_read_as_lower_case) {
  const auto read =
      parse_manifest(with_file(R"({"path": "a", "bytes": 1, "sha256": ")" + std::string(64, 'F') + "\"}"), "m");
  BOOST_REQUIRE_MESSAGE(read, read.error().message());
  BOOST_TEST(read->files.at(0).sha256 == std::string(64, 'f'));
}

BOOST_AUTO_TEST_CASE(paths_that_leave_the_folder_or_are_tandems_own_are_refused) {
  for (const char* path : {"", "/etc/passwd", "../a", "a/../b", "a/..", "..", ".", "./a", "a//b", "a/", "a\\\\b",
                           "a\\u0000b", "a\\nb", "a\\u007fb", "tandem-manifest.json", "sub/tandem-manifest.json",
                           ".tandem-receipt.json", ".tandem/x", "a/.tandem"}) {
    const Error error = refusal_of(with_path(path));
    BOOST_TEST(error.where == "m.json, file 1: path", path << ": " << error.message());
  }
  BOOST_TEST(!check_manifest_path("a/b.json.aBc123.tandem-new", "m.json"), "what a killed process was writing");
  for (const char* path : {"a", "...", "..a", "a..b", "a/b/c.safetensors", ".gitattributes", "g\xC3\xBC.json"}) {
    BOOST_TEST(parse_manifest(with_path(path), "m.json").has_value(), path);
  }
}

// A folder may hold them, a manifest may not: JSON could not give them back.
BOOST_AUTO_TEST_CASE(paths_that_are_no_utf8_are_refused_before_they_are_written) {
  for (const char* path : {"a\xFF", "a\xC3", "\xED\xA0\x80"}) BOOST_TEST(!check_manifest_path(path, "m.json"), path);
  BOOST_TEST(check_manifest_path("\xF0\x9F\x9A\x80.json", "m.json").has_value());
}

BOOST_AUTO_TEST_CASE(a_sum_of_sizes_beyond_counting_is_the_largest_number) {
  Manifest huge;
  for (int i = 0; i < 1 << 14; ++i) huge.files.push_back(file(std::to_string(i), manifest_file_bytes_max));
  BOOST_TEST(huge.bytes_all() == std::numeric_limits<std::uint64_t>::max());
}

BOOST_AUTO_TEST_CASE(a_size_is_shown_in_the_largest_unit_of_which_it_has_one) {
  const std::uint64_t kib = 1024, gib = std::uint64_t{1} << 30;
  BOOST_TEST(bytes_text(0) == "0 bytes");
  BOOST_TEST(bytes_text(1023) == "1023 bytes");
  BOOST_TEST(bytes_text(kib) == "1.0 KiB");
  BOOST_TEST(bytes_text(3 * kib * kib + kib * kib / 2) == "3.5 MiB");
  BOOST_TEST(bytes_text(gib - 1) == "1024.0 MiB");
  BOOST_TEST(bytes_text(99 * gib + gib / 2) == "99.50 GiB");
}

BOOST_AUTO_TEST_CASE(a_path_may_be_as_long_as_the_limit_and_no_longer) {
  const std::string part(255, 'p');
  const std::string path = "p/" + part + "/" + part + "/" + part + "/" + part.substr(1);
  BOOST_REQUIRE(path.size() == manifest_path_bytes_max);
  BOOST_TEST(parse_manifest(with_path(path), "m").has_value());
  BOOST_TEST((refusal_of(with_path(std::string(256, 'p'))).code == ErrorCode::bad_format), "a part beyond 255 bytes");
  BOOST_TEST((refusal_of(with_path(path + "p")).code == ErrorCode::out_of_range));
}

BOOST_AUTO_TEST_CASE(a_file_twice_is_refused_and_so_is_a_file_that_is_another_ones_folder) {
  BOOST_TEST(refusal_of(to_json({"", {file("b"), file("a"), file("b", 2)}})).found == "b twice");
  const Error nested = refusal_of(to_json({"", {file("a/b/c"), file("a-x"), file("a/b")}}));
  BOOST_TEST(nested.found == "a/b as a file and as the folder of a/b/c");
}

BOOST_AUTO_TEST_CASE(sizes_are_whole_numbers_within_their_limit) {
  const auto with_bytes = [](const std::string& bytes) {
    return with_file(R"({"path": "a", "bytes": )" + bytes + R"(, "sha256": ""})");
  };
  for (const char* bytes : {"0", "1", "1125899906842624"})
    BOOST_TEST(parse_manifest(with_bytes(bytes), "m").has_value(), bytes);
  for (const char* bytes : {"-1", "1125899906842625", "18446744073709551615", "18446744073709551616", "1.5", "1e3"}) {
    const Error error = refusal_of(with_bytes(bytes));
    BOOST_TEST((error.code == ErrorCode::out_of_range), bytes << ": " << error.message());
    BOOST_TEST(error.where == "m.json, file 1 (a): bytes");
  }
  BOOST_TEST((refusal_of(with_bytes("\"1\"")).code == ErrorCode::bad_format));
}

BOOST_AUTO_TEST_CASE(hashes_are_64_digits_or_nothing) {
  for (const std::string& hash : {"\"" + zeros.substr(1) + "\"", "\"" + zeros + "0\"", "\"" + zeros.substr(1) + "g\"",
                                  std::string("null"), std::string("7")}) {
    const Error error = refusal_of(with_file(R"({"path": "a", "bytes": 1, "sha256": )" + hash + "}"));
    BOOST_TEST(error.where == "m.json, file 1 (a): sha256");
  }
}

BOOST_AUTO_TEST_CASE(fields_that_are_missing_or_unknown_are_named) {
  const struct {
    std::string text, where;
  } cases[] = {
      {R"({"revision": "", "files": []})", "m.json: format"},
      {R"({"format": 2, "revision": "", "files": []})", "m.json: format"},
      {R"({"format": 1, "files": []})", "m.json: revision"},
      {R"({"format": 1, "revision": 7, "files": []})", "m.json: revision"},
      {R"({"format": 1, "revision": "two\nlines", "files": []})", "m.json: revision"},
      {R"({"format": 1, "revision": "\u001b[31m", "files": []})", "m.json: revision"},
      {R"({"format": 1, "revision": ""})", "m.json: files"},
      {R"({"format": 1, "revision": "", "files": {}})", "m.json: files"},
      {R"({"format": 1, "revision": "", "files": [], "more": 1})", "m.json"},
      {with_file("7"), "m.json, file 1"},
      {with_file(R"({"bytes": 1, "sha256": ""})"), "m.json, file 1: path"},
      {with_file(R"({"path": 1, "bytes": 1, "sha256": ""})"), "m.json, file 1: path"},
      {with_file(R"({"path": "a", "sha256": ""})"), "m.json, file 1 (a): bytes"},
      {with_file(R"({"path": "a", "bytes": 1})"), "m.json, file 1 (a): sha256"},
      {with_file(R"({"path": "a", "bytes": 1, "sha256": "", "sha25": ""})"), "m.json, file 1"},
      {R"({"path": "a", "path": "b"})", "m.json"},
      {"[]", "m.json"},
      {"", "m.json"},
  };
  for (const auto& [text, where] : cases) BOOST_TEST(refusal_of(text).where == where, text);
}

BOOST_AUTO_TEST_CASE(a_manifest_cut_anywhere_is_refused) {
  const std::string text = to_json({"r", {file("a", 1, zeros), file("b", 2)}});
  for (std::size_t length = 0; length + 2 < text.size(); ++length) refusal_of(text.substr(0, length));
}

// A value in memory has many times the two bytes of its text: what is not a list of files is not built.
BOOST_AUTO_TEST_CASE(text_with_more_values_than_the_most_files_have_is_refused_unbuilt) {
  const std::size_t count = 4 * manifest_files_max + 5;
  std::string numbers = "0", lists = "[]", keys = R"("0":0)";
  for (std::size_t i = 1; i < count; ++i) {
    numbers += ",0";
    lists += ",[]";
    keys += ",\"" + std::to_string(i) + "\":0";
  }
  for (const std::string& text :
       {R"({"format": 1, "revision": "", "files": [)" + numbers + "]}", "{\"files\": [" + lists, "{" + keys}) {
    const Error error = refusal_of(text);
    BOOST_TEST((error.code == ErrorCode::out_of_range), error.message());
    BOOST_TEST(error.message().find("at most 400004") != std::string::npos, error.message());
  }
}

BOOST_AUTO_TEST_CASE(text_longer_than_the_limit_is_refused_unread_and_the_limit_told) {
  const Error error = refusal_of(std::string(manifest_text_bytes_max + 1, ' '));
  BOOST_TEST((error.code == ErrorCode::out_of_range));
  BOOST_TEST(error.expected == "at most 33554432");
}

BOOST_AUTO_TEST_CASE(a_manifest_may_list_as_many_files_as_the_limit_and_no_more) {
  Manifest most;
  for (std::size_t i = 0; i < manifest_files_max; ++i) most.files.push_back(file(std::to_string(i), i, zeros));
  BOOST_TEST(parse_manifest(to_json(most), "m").has_value());
  BOOST_TEST(check_manifest(most, "m").has_value());
  most.files.push_back(file("one more"));
  BOOST_TEST((refusal_of(to_json(most)).code == ErrorCode::out_of_range));
  BOOST_TEST((check_manifest(most, "m").error().code == ErrorCode::out_of_range));
}

BOOST_AUTO_TEST_CASE(a_list_is_checked_by_the_same_rules_as_a_text) {
  BOOST_TEST(check_manifest({"", {file("b"), file("a/c")}}, "m").has_value());
  for (const Manifest& wrong : {Manifest{"", {file("../a")}}, Manifest{"", {file("b"), file("a"), file("b")}},
                                Manifest{"", {file("a/b"), file("a")}}})
    BOOST_TEST(!check_manifest(wrong, "m").has_value());
}

BOOST_AUTO_TEST_CASE(a_long_wrong_value_does_not_fill_the_message) {
  BOOST_TEST(refusal_of(with_path(std::string(100'000, 'p'))).message().size() < 1000U);
}

BOOST_AUTO_TEST_CASE(the_identity_depends_on_the_files_and_not_on_their_order_or_the_revisions_name) {
  const Manifest one{"x", {file("a", 1, zeros), file("b", 2)}};
  const Manifest same{"y", {file("b", 2), file("a", 1, zeros)}};
  BOOST_TEST(manifest_hash(one) == manifest_hash(same));
  for (const Manifest& other :
       {Manifest{"x", {file("a", 1, zeros), file("b", 3)}}, Manifest{"x", {file("a", 1, zeros)}},
        Manifest{"x", {file("a", 1), file("b", 2)}}, Manifest{"x", {}}}) {
    BOOST_TEST(manifest_hash(one) != manifest_hash(other));
  }
}

BOOST_AUTO_TEST_CASE(a_manifest_is_found_beside_the_weights) {
  test::CheckpointFolder folder;
  std::filesystem::create_directories(folder.path());
  BOOST_TEST((read_manifest(folder.path()).error().code == ErrorCode::not_found));
  const Manifest written{"r", {file("a", 1, zeros)}};
  BOOST_REQUIRE(write_manifest(folder.path(), written).has_value());
  const auto read = read_manifest(folder.path());
  BOOST_REQUIRE_MESSAGE(read, read.error().message());
  BOOST_CHECK(*read == written);
}

BOOST_AUTO_TEST_SUITE_END()
