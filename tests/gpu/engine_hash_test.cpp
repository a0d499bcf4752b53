// Ranks that hold different weights or token maps must see it before they compute together: a stale copy on another
// node answers fluently and wrongly.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <set>

#include "gpu/comm/communicator.hpp"
#include "gpu/engine.hpp"
#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;

namespace {

namespace fs = std::filesystem;

// A copy of the golden checkpoint that may be changed.
class GoldenCopy {
 public:
  GoldenCopy() {
    std::string name = (fs::temp_directory_path() / "tandem-hash-XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
    for (const auto& entry : fs::directory_iterator(test::golden_checkpoint())) {
      if (!entry.is_regular_file()) continue;
      fs::copy_file(entry.path(), path_ / entry.path().filename());
      fs::permissions(path_ / entry.path().filename(), fs::perms::owner_all);
    }
  }
  GoldenCopy(const GoldenCopy&) = delete;
  GoldenCopy& operator=(const GoldenCopy&) = delete;
  ~GoldenCopy() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::uint64_t hash_of(const fs::path& folder) {
  EngineOptions options;
  options.model = folder;
  options.threads = 1;
  options.lanes_max = 1;
  options.max_positions = 256;
  const auto solo = make_solo_communicator();
  const auto engine = load_engine(options, *solo, {}, nullptr);
  BOOST_REQUIRE_MESSAGE(engine.has_value(), (engine ? "" : engine.error().message()));
  return (*engine)->info().config_hash;
}

// Gives one repeated class to another token: still a map of the same number of classes.
void change_token_map(const fs::path& file) {
  std::string bytes = test::read_file(file);
  std::set<std::int32_t> seen;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::int32_t)) {
    std::int32_t token_class = 0;
    std::memcpy(&token_class, bytes.data() + at, sizeof token_class);
    if (seen.insert(token_class).second || token_class == 0) continue;
    std::memset(bytes.data() + at, 0, sizeof token_class);
    return test::write_file(file, bytes);
  }
  BOOST_FAIL("no class of this map stands for two tokens");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine_hash)

BOOST_AUTO_TEST_CASE(copies_agree_and_a_changed_weight_or_token_map_is_another_engine) {
  const GoldenCopy folder;
  const std::uint64_t original = hash_of(folder.path());
  BOOST_TEST(hash_of(test::golden_checkpoint()) == original);

  const auto shard = folder.path() / "model-00001-of-00005.safetensors";
  std::string bytes = test::read_file(shard);
  bytes[bytes.size() / 2] ^= 1;
  test::write_file(shard, bytes);
  const std::uint64_t reweighted = hash_of(folder.path());
  BOOST_TEST(reweighted != original);

  change_token_map(folder.path() / "engram_token_map.i32");
  BOOST_TEST(hash_of(folder.path()) != reweighted);
}

BOOST_AUTO_TEST_SUITE_END()
