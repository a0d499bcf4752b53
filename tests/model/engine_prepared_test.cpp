// Engines that prepare their next step while the present one runs write what engines that never do write, whoever
// comes, ends or rejects drafts meanwhile.
#include <boost/test/unit_test.hpp>

#include "gpu/engine_core.hpp"
#include "tests/model/engine_fixture.hpp"
#include "tests/model/golden_fixture.hpp"
#include "tests/model/played_ops_fixture.hpp"

namespace tandem::gpu::test {
namespace {

// An engine over operations that can be prepared.
class PreparingEngine {
 public:
  PreparingEngine(const std::filesystem::path& folder, bool draft) {
    ModelOptions options;
    options.folder = folder;
    options.max_positions = 512;
    options.threads = 2;
    options.draft = draft;
    auto model = load_model(options, *communicator_, {}, nullptr);
    BOOST_REQUIRE_MESSAGE(model.has_value(), (model ? std::string() : model.error().message()));
    auto ops = std::make_unique<PlayedOps>(std::move((*model)->ops));
    ops_ = ops.get();
    (*model)->ops = std::move(ops);
    auto layout = plan_caches((*model)->config, (*model)->numerics, {512, 2048, 4, 64});
    BOOST_REQUIRE(layout.has_value());
    EngineInfo info;
    info.vocab_size = (*model)->config.vocab_size;
    info.lanes_max = 4;
    info.chunk_rows_max = 64;
    info.drafts_max = (*model)->config.dspark.stages > 0 ? (*model)->config.dspark.block_size : 0;
    driver_ = std::make_unique<EngineDriver>(
        std::make_unique<EngineCore>(std::move(*model), std::move(*layout), std::move(info)));
  }

  EngineDriver& driver() { return *driver_; }
  const Played& played() const { return ops_->played(); }

 private:
  std::unique_ptr<Communicator> communicator_ = make_solo_communicator();
  PlayedOps* ops_ = nullptr;
  std::unique_ptr<EngineDriver> driver_;
};

Request prepared_request(std::vector<TokenId> prompt, float temperature, std::uint32_t generate, std::uint32_t joins) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = temperature;
  request.sampling.seed = 11;
  request.generate = generate;
  request.joins = joins;
  return request;
}

// One that goes on, one that ends meanwhile, and one that comes when that has happened.
std::vector<Request> coming_and_going(const std::vector<std::vector<TokenId>>& prompts, std::uint32_t drafts) {
  std::vector<Request> requests{prepared_request(prompts[0], 0, 40, 0), prepared_request(prompts[1], 1, 9, 0),
                                prepared_request(prompts[2], 0.7F, 12, 14)};
  for (Request& request : requests) request.drafts = drafts;
  return requests;
}

// Returns the replies of the engine that prepares.
std::vector<Reply> check_same_text(PreparingEngine& ahead, EngineDriver& plain, const std::vector<Request>& requests) {
  const std::vector<Reply> expected = plain.run(requests);
  const std::vector<Reply> replies = ahead.driver().run(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    BOOST_TEST(replies[i].ids() == expected[i].ids(), boost::test_tools::per_element());
    BOOST_TEST(replies[i].drafted == expected[i].drafted);
    BOOST_TEST(replies[i].accepted == expected[i].accepted);
  }
  return replies;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine_prepared)

// Thirty-nine steps behind the first one's prompt; those in which somebody comes or goes are not the prepared ones.
BOOST_AUTO_TEST_CASE(sequences_that_come_and_end_write_the_text_of_steps_that_nobody_prepared) {
  PreparingEngine ahead(golden_checkpoint(), false);
  EngineDriver plain(golden_checkpoint());
  const auto requests = coming_and_going({tokens_of("p17"), tokens_of("p34"), tokens_of("p41")}, 0);
  check_same_text(ahead, plain, requests);
  const Played first = ahead.played();
  BOOST_TEST(first.prepared > first.prepared_starts);
  BOOST_TEST(first.prepared_starts >= 30);
  check_same_text(ahead, plain, requests);
  BOOST_TEST(ahead.played().prepared_starts - first.prepared_starts >= first.prepared_starts);
}

BOOST_AUTO_TEST_CASE(drafts_that_are_rejected_do_not_change_what_was_prepared) {
  PreparingEngine ahead(golden_checkpoint(), true);
  EngineDriver plain(golden_checkpoint());
  for (const std::uint32_t drafts : {1U, 5U}) {
    const Played before = ahead.played();
    const auto replies =
        check_same_text(ahead, plain, coming_and_going({tokens_of("p17"), tokens_of("p34"), tokens_of("p41")}, drafts));
    BOOST_TEST(replies[0].accepted < replies[0].drafted);
    BOOST_TEST(ahead.played().prepared_starts - before.prepared_starts >= 25);
  }
}

BOOST_AUTO_TEST_CASE(drafts_that_are_accepted_do_not_either) {
  PreparingEngine ahead(trained_checkpoint(), true);
  EngineDriver plain(trained_checkpoint());
  std::vector<std::vector<TokenId>> prompts(3);
  for (TokenId i = 0; i < 40; ++i) {
    prompts[0].push_back(100 + i % 8);
    prompts[1].push_back(300 + i % 5);
    if (i < 23) prompts[2].push_back(500 + i % 7);
  }
  auto requests = coming_and_going(prompts, 5);
  requests[1].generate = 20;
  requests[2].joins = 6;
  const auto replies = check_same_text(ahead, plain, requests);
  BOOST_TEST(replies[0].accepted > 0U);
  BOOST_TEST(ahead.played().prepared_starts >= 5);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::gpu::test
