// `tandem verify-weights` of a folder that loads: what its exit code says about hashes.
#include <boost/test/unit_test.hpp>

#include "tests/build_paths.hpp"
#include "tests/e2e/tandem_process.hpp"
#include "tests/fetch/model_folder_fixture.hpp"

namespace tandem::net::fetch::test {

BOOST_AUTO_TEST_SUITE(fetch_verify)

// The tiny model by links: nothing of it is read but headers and what is hashed.
struct TinyFolder {
  engram::test::TemporaryFolder folder;

  TinyFolder() {
    for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "configs/tiny"))
      std::filesystem::create_symlink(entry.path(), folder.path() / entry.path().filename());
  }
  // Returns the exit code; the output must contain `told`.
  int verify(std::vector<std::string> more, const std::string& told) const {
    std::vector<std::string> arguments{"verify-weights", "--model", folder.path().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    tandem::test::TandemProcess process(std::move(arguments));
    const int code = process.wait_for_exit(std::chrono::seconds(60)).value_or(-1);
    BOOST_TEST(process.output().find(told) != std::string::npos, process.output());
    return code;
  }
};

BOOST_FIXTURE_TEST_CASE(hashes_that_are_asked_for_need_a_manifest, TinyFolder) {
  BOOST_TEST(verify({}, "W6 skipped") == 0);
  BOOST_TEST(verify({"--hashes"}, "--write-manifest lists what lies there") == 1);
  BOOST_TEST(verify({"--hashes", "--write-manifest"}, "W6 pass") == 0);
  BOOST_TEST(verify({}, "W6 pass") == 0);
}

BOOST_FIXTURE_TEST_CASE(a_manifest_that_leaves_out_what_would_be_loaded_proves_nothing, TinyFolder) {
  BOOST_REQUIRE(gpu::write_manifest(folder.path(), {"r", {}}));
  BOOST_TEST(verify({"--json"}, "no files") == 1);
  BOOST_TEST(verify({}, "model-00001-of-00002.safetensors: a shard that the manifest does not list") == 1);
}

BOOST_FIXTURE_TEST_CASE(wrong_options_are_named_before_anything_is_read, TinyFolder) {
  const auto token = [this](const char* name, const std::string& text, unsigned mode) {
    const auto file = folder.write(name, std::as_bytes(std::span(text)));
    std::filesystem::permissions(file, std::filesystem::perms(mode));
    return file.string();
  };
  const std::string good = token(".good", "0123456789abcdef\n", 0600);
  const std::string peer = "127.0.0.1:1", here = "tandem verify-weights: ";
  BOOST_TEST(verify({"--peer", peer}, here + "--token-file: none") == 2);
  for (const std::string& bad : {folder.path().string() + "/absent", token(".short", "abc\n", 0600),
                                 token(".public", "0123456789abcdef\n", 0644)}) {
    BOOST_TEST(verify({"--peer", peer, "--token-file", bad}, here + "--token-file " + bad) == 2);
    BOOST_TEST(verify({"--token-file", bad}, here + "--token-file " + bad) == 2);
  }
  BOOST_TEST(verify({"--peer", "a/b", "--token-file", good}, here + "--peer address: a/b") == 2);
  BOOST_TEST(verify({"--peer", peer, "--token-file", good}, "W7 fail") == 1, "nobody listens there");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::fetch::test
