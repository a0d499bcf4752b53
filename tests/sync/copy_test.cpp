// Sender and receiver in one process: what a copy leaves on both sides, and what ends it.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "gpu/weights_files/manifest.hpp"
#include "net/sync/answerer.hpp"
#include "net/sync/sender.hpp"
#include "net/sync/server.hpp"
#include "tests/engram/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::net::sync;
using namespace std::chrono_literals;
using Folder = engram::test::TemporaryFolder;

BOOST_AUTO_TEST_SUITE(sync_copies)

namespace {

constexpr const char* secret = "0123456789abcdef0123456789abcdef";

struct Nodes {
  Nodes() {
    put(source, "large", std::string(40 * chunk_bytes_min + 7, 'l'));
    std::filesystem::create_directories(source.path() / "exl3/qn");
    put(source, "exl3/qn/bank", std::string(3 * chunk_bytes_min, 'b'));
    put(source, "empty", "");
    options.folder = source.path();
    options.peer = {"127.0.0.1", port};
    options.token = secret;
    options.connections = 4;
    options.chunk_bytes = chunk_bytes_min;
    options.patience = 1s;
  }
  static void put(const Folder& folder, const std::string& name, const std::string& text) {
    (void)folder.write(name, std::as_bytes(std::span(text)));
  }
  static std::string get(const Folder& folder, const std::string& name) {
    std::ifstream stream(folder.path() / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  bool is_equal() const {
    for (const char* name : {"large", "exl3/qn/bank", "empty", gpu::manifest_file_name}) {
      if (!std::filesystem::exists(target.path() / name) || get(target, name) != get(source, name)) return false;
    }
    return true;
  }

  Folder source, target;
  Answerer answerer{{target.path(), {}, "/proc/self/mounts", true}};
  SyncServer server{{{"127.0.0.1", 0}, secret, {}, {}, {}}, answerer};
  std::uint16_t port = server.start().value();
  CopyOptions options;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_copy_leaves_equal_files_and_one_manifest_on_both_sides) {
  Nodes nodes;
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(nodes.is_equal());
  BOOST_TEST(done->files == 3U);
  BOOST_TEST(done->bytes_sent == 43 * chunk_bytes_min + 7);
  BOOST_TEST(done->manifest_hash == gpu::manifest_hash(*gpu::read_manifest(nodes.target.path())));
  const auto again = copy_model(nodes.options);
  BOOST_REQUIRE(again);
  BOOST_TEST(again->files_same == 3U);
  BOOST_TEST(again->bytes_sent == 0U);
  BOOST_TEST(nodes.answerer.counts().chunks == 44U);
}

BOOST_AUTO_TEST_CASE(files_that_are_there_are_compared_by_hashes_that_nobody_knew_before) {
  Nodes nodes;
  std::filesystem::copy(nodes.source.path() / "large", nodes.target.path() / "large");
  std::string other(3 * chunk_bytes_min, 'b');
  other.back() = 'x';
  std::filesystem::create_directories(nodes.target.path() / "exl3/qn");
  Nodes::put(nodes.target, "exl3/qn/bank", other);
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(nodes.is_equal());
  BOOST_TEST(done->bytes_sent == 3 * chunk_bytes_min);
}

BOOST_AUTO_TEST_CASE(what_the_manifest_here_does_not_say_is_not_brought_anywhere) {
  Nodes nodes;
  gpu::Manifest manifest{"r", {{"large", 1, ""}}};
  BOOST_REQUIRE(gpu::write_manifest(nodes.source.path(), manifest).has_value());
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::mismatch), "another size");
  BOOST_TEST(std::filesystem::is_empty(nodes.target.path()));
  manifest.files = {{"large", 40 * chunk_bytes_min + 7, std::string(64, 'a')}};
  BOOST_REQUIRE(gpu::write_manifest(nodes.source.path(), manifest).has_value());
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::mismatch), "another hash");
  BOOST_TEST(!std::filesystem::exists(nodes.target.path() / "large"));
  std::filesystem::remove(nodes.source.path() / "large");
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::mismatch), "a missing file");
}

BOOST_AUTO_TEST_CASE(a_copy_ends_when_it_is_told_to_and_goes_on_later) {
  Nodes nodes;
  nodes.options.bytes_per_s_max = 100'000;
  nodes.options.progress = [](const CopyProgress& now) { return now.bytes_done < 3 * chunk_bytes_min; };
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::cancelled));
  BOOST_TEST(!nodes.is_equal());
  nodes.options.bytes_per_s_max = 0;
  nodes.options.progress = {};
  const auto done = copy_model(nodes.options);
  BOOST_REQUIRE_MESSAGE(done, done.error().message());
  BOOST_TEST(nodes.is_equal());
  BOOST_TEST(done->bytes_resumed >= 3 * chunk_bytes_min);
}

BOOST_AUTO_TEST_CASE(a_node_that_is_gone_is_waited_for_as_long_as_patience_lasts) {
  Nodes nodes;
  nodes.server.stop();
  std::vector<std::string> told;
  nodes.options.announce = [&](const std::string& text) { told.push_back(text); };
  const auto failed = copy_model(nodes.options);
  BOOST_TEST((failed.error().code == ErrorCode::unavailable));
  BOOST_TEST(failed.error().found.find("nothing was gained") != std::string::npos, failed.error().found);
  BOOST_TEST(told.size() >= 2U);
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_not_there_is_an_error_at_once) {
  Nodes nodes;
  nodes.options.folder /= "absent";
  BOOST_TEST((copy_model(nodes.options).error().code == ErrorCode::not_found));
}

BOOST_AUTO_TEST_SUITE_END()
