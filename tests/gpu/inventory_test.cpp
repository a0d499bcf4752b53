// The inventory reproduces what is published about the released checkpoint, and the golden checkpoint holds exactly its
// inventory.
#include "gpu/checkpoint/inventory.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/gpu/checkpoint_fixture.hpp"

using namespace tandem;
using namespace tandem::gpu;

namespace {

std::vector<ExpectedTensor> released_inventory() {
  const auto config = ModelConfig::parse(test::read_file(test::released_config_file()), "released");
  BOOST_REQUIRE_MESSAGE(config.has_value(), config.error().message());
  return make_inventory(*config);
}

std::uint64_t of(const std::array<std::uint64_t, tensor_groups>& sums, TensorGroup group) {
  return sums[static_cast<std::size_t>(group)];
}

// Tensors, scales included, of backbone layers first..last.
std::uint64_t layer_tensors(const std::vector<ExpectedTensor>& inventory, int first, int last) {
  std::vector<ExpectedTensor> part;
  for (const ExpectedTensor& tensor : inventory) {
    if (tensor.group == TensorGroup::layer && tensor.layer >= first && tensor.layer <= last) part.push_back(tensor);
  }
  return total(part).tensors_all();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(inventory)

BOOST_AUTO_TEST_CASE(the_released_configuration_gives_the_published_tensor_counts) {
  const std::vector<ExpectedTensor> list = released_inventory();
  const InventoryTotals totals = total(list);
  BOOST_TEST(of(totals.tensors, TensorGroup::global) == 3U);
  BOOST_TEST(layer_tensors(list, 0, 19) == 46'704U);
  BOOST_TEST(layer_tensors(list, 20, 39) == 46'699U);
  BOOST_TEST(of(totals.tensors, TensorGroup::engram) == 8U);
  BOOST_TEST(of(totals.tensors, TensorGroup::engram_table) == 4U);
  BOOST_TEST(of(totals.tensors, TensorGroup::dspark) == 2'401U);
  BOOST_TEST(totals.tensors_all() == 95'819U);
}

BOOST_AUTO_TEST_CASE(the_released_configuration_gives_the_published_bytes_of_every_type) {
  InventoryTotals totals = total(released_inventory());
  // Published BF16 bytes are 3,952,883,712; 970,536,960 of them are the vision tower's, which the inventory leaves out.
  BOOST_TEST(totals.bytes[DType::bf16] == 3'952'883'712U - 970'536'960U);
  BOOST_TEST(totals.bytes[DType::f32] == 169'229'128U);
  BOOST_TEST(totals.bytes[DType::f8_e4m3] == 204'015'223'296U);
  BOOST_TEST(totals.bytes[DType::f8_e8m0] == 23'563'015'184U);
  BOOST_TEST(totals.bytes[DType::i8] == 278'585'671'680U);
  BOOST_TEST(totals.bytes_all() == 510'286'023'000U - 970'536'960U);
}

BOOST_AUTO_TEST_CASE(the_released_configuration_gives_the_published_parameters) {
  const InventoryTotals totals = total(released_inventory());
  const std::uint64_t backbone = of(totals.parameters, TensorGroup::global) +
                                 of(totals.parameters, TensorGroup::layer) + of(totals.parameters, TensorGroup::engram);
  BOOST_TEST(backbone == 551'880'835'184U);
  BOOST_TEST(of(totals.parameters, TensorGroup::engram_table) == 196'613'849'600U);
}

BOOST_AUTO_TEST_CASE(draft_stages_have_801_798_and_802_tensors) {
  const std::vector<ExpectedTensor> list = released_inventory();
  for (int stage = 0; stage < 3; ++stage) {
    std::vector<ExpectedTensor> part;
    for (const ExpectedTensor& tensor : list) {
      if (tensor.group == TensorGroup::dspark && tensor.layer == stage) part.push_back(tensor);
    }
    BOOST_TEST(total(part).tensors_all() ==
               (std::vector<std::uint64_t>{801, 798, 802}[static_cast<std::size_t>(stage)]));
  }
}

BOOST_AUTO_TEST_CASE(no_name_is_listed_twice) {
  std::set<std::string> names;
  std::size_t count = 0;
  for (const ExpectedTensor& tensor : released_inventory()) {
    names.insert(tensor.name);
    ++count;
    if (!has_scales(tensor.official)) continue;
    names.insert(tensor.scale_name());
    ++count;
  }
  BOOST_TEST(names.size() == count);
}

BOOST_AUTO_TEST_CASE(the_golden_checkpoint_holds_exactly_its_inventory) {
  const auto config = ModelConfig::load(test::golden_checkpoint());
  BOOST_REQUIRE_MESSAGE(config.has_value(), config.error().message());
  const auto checkpoint = Checkpoint::open(test::golden_checkpoint());
  BOOST_REQUIRE_MESSAGE(checkpoint.has_value(), checkpoint.error().message());
  const std::vector<ExpectedTensor> list = make_inventory(*config);
  const auto complete = check_inventory(*checkpoint, *config, list);
  BOOST_TEST(complete.has_value());
  BOOST_TEST(checkpoint->tensors().size() == total(list).tensors_all());
}

BOOST_AUTO_TEST_CASE(an_optional_tensor_may_be_absent) {
  test::CheckpointFolder folder;
  for (const char* name :
       {"layers.0.ffn.gate.bias_vl", "mtp.0.ffn.gate.bias_vl", "mtp.0.confidence_head.proj.weight"}) {
    BOOST_TEST(folder.tensors.erase(name) == 1U);
  }
  folder.write();
  const auto config = ModelConfig::load(folder.path());
  const auto checkpoint = Checkpoint::open(folder.path());
  BOOST_REQUIRE(checkpoint.has_value());
  BOOST_TEST(check_inventory(*checkpoint, *config, make_inventory(*config)).has_value());
}

BOOST_AUTO_TEST_CASE(vision_tensors_are_skipped_only_when_the_configuration_has_vision) {
  test::CheckpointFolder folder;
  folder.tensors["vision.patch.weight"] = {DType::bf16, {2, 2}, std::vector<std::byte>(8)};
  for (bool has_vision : {false, true}) {
    if (has_vision) folder.config["vision_config"] = boost::json::object{{"hidden_size", 8}};
    folder.write();
    const auto config = ModelConfig::load(folder.path());
    const auto checkpoint = Checkpoint::open(folder.path());
    BOOST_REQUIRE(checkpoint.has_value());
    BOOST_TEST(check_inventory(*checkpoint, *config, make_inventory(*config)).has_value() == has_vision);
  }
}

BOOST_AUTO_TEST_SUITE_END()
