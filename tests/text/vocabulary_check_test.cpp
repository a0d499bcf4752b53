// A tokenizer that is not the model's is refused before the first request.
#include "net/text/vocabulary_check.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/text/tokenizer_fixture.hpp"

namespace tandem::net::text::test {
namespace {

ModelTokens fitting_model() {
  const Tokenizer& tokenizer = small_tokenizer();
  return {tokenizer.vocabulary_size(), *tokenizer.id(Markup::bos), *tokenizer.id(Markup::eos),
          tokenizer.find_added("<｜▁pad▁｜>").value_or(2)};
}

Error refusal_of_model(const ModelTokens& model) {
  const auto checked = check_vocabulary(small_tokenizer(), model, "m");
  BOOST_REQUIRE(checked.has_error());
  BOOST_TEST((checked.error().code == ErrorCode::mismatch));
  return checked.error();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(vocabulary_check)

BOOST_AUTO_TEST_CASE(the_models_own_tokenizer_passes_and_so_does_one_with_fewer_ids) {
  ModelTokens model = fitting_model();
  BOOST_TEST(check_vocabulary(small_tokenizer(), model, "m").has_value());
  model.vocab_size += 100;
  BOOST_TEST(check_vocabulary(small_tokenizer(), model, "m").has_value());
}

BOOST_AUTO_TEST_CASE(an_id_without_an_embedding_is_named) {
  ModelTokens model = fitting_model();
  --model.vocab_size;
  const Error error = refusal_of_model(model);
  BOOST_TEST(error.where == "m/tokenizer.json");
  BOOST_TEST(error.found == "id " + std::to_string(model.vocab_size));
}

BOOST_AUTO_TEST_CASE(another_begin_or_end_token_is_named_by_its_field) {
  ModelTokens model = fitting_model();
  ++model.eos;
  BOOST_TEST(refusal_of_model(model).where == "m/config.json: eos_token_id");
  model = fitting_model();
  ++model.bos;
  BOOST_TEST(refusal_of_model(model).where == "m/config.json: bos_token_id");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
