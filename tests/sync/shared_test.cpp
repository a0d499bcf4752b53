// Storage that this node may only read: whether another node sees the same files is judged by what it says of them.
#include <boost/test/unit_test.hpp>
#include <optional>

#include "gpu/weights_files/manifest.hpp"
#include "net/sync/storage_check.hpp"
#include "tests/e2e/file_size_limit.hpp"
#include "tests/sync/link_ends.hpp"

namespace tandem::net::sync::test {

BOOST_AUTO_TEST_SUITE(sync_shared)

const std::string shard(100'000, 's');

// Two folders with the same manifest, also of an empty file, and the same configuration; the shard of the other node is
// `theirs`, if any.
Result<std::string> check_read_only(const std::optional<std::string>& theirs, const std::string& ours = shard) {
  const Receiver receiver(false);
  const Folder own;
  for (const Folder* folder : {&receiver.folder, &own}) {
    (void)folder->write("config.json", bytes_of("{}"));
    BOOST_REQUIRE(gpu::write_manifest(
        folder->path(),
        {"r",
         {{"config.json", 2, sha_of("{}")}, {"empty.txt", 0, ""}, {"m.safetensors", shard.size(), sha_of(shard)}}}));
    (void)folder->write("empty.txt", {});
  }
  (void)own.write("m.safetensors", bytes_of(ours));
  if (theirs) (void)receiver.folder.write("m.safetensors", bytes_of(*theirs));
  auto channel = receiver.connect();
  BOOST_REQUIRE(channel);
  const tandem::test::FileSizeLimit full(0);  // as on a disk that is full or read-only
  return check_shared(**channel, own.path());
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_shared_if_every_file_ends_alike) {
  const auto same = check_read_only(shard);
  BOOST_REQUIRE_MESSAGE(same, (same ? "" : same.error().message()));
  BOOST_TEST(same->find("may not write there") != std::string::npos, *same);
}

// A fetch that was cut off has the manifest and the configuration before it has the shards.
BOOST_AUTO_TEST_CASE(equal_manifests_alone_are_no_shared_storage) {
  std::string damaged = shard;
  damaged.back() = 'x';
  BOOST_TEST(!check_read_only(std::nullopt), "missing");
  BOOST_TEST(!check_read_only(shard.substr(0, 50)), "cut");
  BOOST_TEST(!check_read_only(damaged), "another end");
}

// The page that ends the shorter file is in the longer one too.
BOOST_AUTO_TEST_CASE(a_longer_file_there_is_named_with_both_sizes) {
  const auto longer = check_read_only(shard + "more");
  BOOST_REQUIRE(!longer);
  BOOST_TEST((longer.error().code == ErrorCode::mismatch));
  for (const char* part : {"m.safetensors", "100004 bytes", "100000 bytes"})
    BOOST_TEST(longer.error().message().find(part) != std::string::npos, longer.error().message());
}

BOOST_AUTO_TEST_CASE(a_file_here_that_is_not_what_the_manifest_says_is_no_shared_storage) {
  const auto longer = check_read_only(shard, shard + "more");
  BOOST_REQUIRE(!longer);
  BOOST_TEST(longer.error().message().find("100004 bytes, expected 100000 bytes") != std::string::npos,
             longer.error().message());
  BOOST_TEST(check_read_only(shard, shard).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::sync::test
