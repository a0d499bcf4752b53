// An index that comes from a server: which files it may name, and how much of it is built.
#include "gpu/weights_files/index_shards.hpp"

#include <boost/test/unit_test.hpp>

namespace tandem::gpu::test {

BOOST_AUTO_TEST_SUITE(index_shards)

BOOST_AUTO_TEST_CASE(an_index_that_is_none_or_leaves_the_folder_is_refused) {
  for (const char* wrong : {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})",
                            R"({"weight_map": {"a": "../x"}})", R"({"weight_map": {"a": "x"})"})
    BOOST_TEST(!shards_of_index(wrong, "index"), wrong);
  BOOST_TEST(shards_of_index(R"({"weight_map": {"a": "y", "b": "x", "c": "y"}})", "index")->size() == 2U);
}

BOOST_AUTO_TEST_CASE(an_index_of_more_tensors_than_a_model_has_is_refused_unbuilt) {
  std::string text = R"({"weight_map": {"a": "x"}, "b": [0)";
  for (std::size_t i = 0; i < index_tensors_max + 1000; ++i) text += ",0";
  const auto shards = shards_of_index(text + "]}", "index");
  BOOST_REQUIRE(!shards);
  BOOST_TEST((shards.error().code == ErrorCode::out_of_range));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
