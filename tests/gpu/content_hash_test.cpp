// Two folders hash alike exactly if they hold the same tensors, and a large one costs few reads.
#include "gpu/checkpoint/content_hash.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;
using test::CheckpointFolder;

namespace {

std::uint64_t hash_of(const CheckpointFolder& folder, const ContentSample& sample = {}) {
  const auto checkpoint = Checkpoint::open(folder.path());
  BOOST_REQUIRE(checkpoint.has_value());
  return hash_content(*checkpoint, nullptr, sample).value();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(content_hash)

BOOST_AUTO_TEST_CASE(the_same_tensors_hash_alike_in_any_folder_and_any_shards) {
  CheckpointFolder two_shards, one_file;
  two_shards.write();
  one_file.write_single_file();
  BOOST_TEST(hash_of(two_shards) == hash_of(one_file));
}

BOOST_AUTO_TEST_CASE(one_changed_byte_anywhere_in_a_small_checkpoint_changes_the_hash) {
  CheckpointFolder folder;
  folder.write();
  std::set<std::uint64_t> seen{hash_of(folder)};
  std::size_t changes = 0;
  for (auto& [name, tensor] : folder.tensors) {
    if (++changes % 23 != 1) continue;  // a shard is written for each
    tensor.bytes.back() ^= std::byte{1};
    folder.write();
    BOOST_TEST(seen.insert(hash_of(folder)).second, name);
  }
  BOOST_TEST(seen.size() > 5U);
}

BOOST_AUTO_TEST_CASE(names_types_and_shapes_enter_the_hash) {
  CheckpointFolder folder;
  folder.write();
  const std::uint64_t before = hash_of(folder);
  auto& norm = folder.at("norm.weight");
  norm.shape = {1, 64};
  folder.write();
  const std::uint64_t reshaped = hash_of(folder);
  BOOST_TEST(reshaped != before);
  norm.dtype = DType::f16;
  folder.write();
  BOOST_TEST(hash_of(folder) != reshaped);
}

// Whatever the size, at most `pieces_max` pieces and one cut for every tensor that they reach into.
BOOST_AUTO_TEST_CASE(a_checkpoint_above_the_sample_costs_a_bounded_number_of_reads) {
  CheckpointFolder folder;
  folder.write();
  test::FailingReads reads;
  const auto checkpoint = Checkpoint::open(folder.path(), reads.opener());
  BOOST_REQUIRE(checkpoint.has_value());
  const int before = reads.reads;
  BOOST_TEST(hash_content(*checkpoint, nullptr, {20, 64}).has_value());
  BOOST_TEST(reads.reads - before >= 20);
  BOOST_TEST(reads.reads - before <= 2 * 20);
}

BOOST_AUTO_TEST_CASE(a_stop_and_a_read_that_fails_end_it_by_their_names) {
  CheckpointFolder folder;
  folder.write();
  const auto checkpoint = Checkpoint::open(folder.path());
  const std::atomic<bool> stop{true};
  BOOST_TEST((hash_content(*checkpoint, &stop).error().code == ErrorCode::cancelled));
  test::FailingReads reads;
  const auto failing = Checkpoint::open(folder.path(), reads.opener());
  BOOST_REQUIRE(failing.has_value());
  reads.fail_at = reads.reads + 3;
  BOOST_TEST((hash_content(*failing, nullptr).error().code == ErrorCode::io));
}

BOOST_AUTO_TEST_CASE(what_is_added_is_closed_by_its_length) {
  const auto of = [](std::initializer_list<std::string_view> parts) {
    ContentHash hash;
    for (const std::string_view part : parts) hash.add(part);
    return hash.value();
  };
  BOOST_TEST(of({"a", "bc"}) != of({"ab", "c"}));
  BOOST_TEST(of({""}) != of({}));
  BOOST_TEST(of({std::string_view("\0", 1)}) != of({""}));
}

BOOST_AUTO_TEST_SUITE_END()
