// Whole engines: the CUDA backend writes the text of the CPU backend, in every chunking and with drafts.
#include <boost/test/unit_test.hpp>

#include "gpu/comm/communicator.hpp"
#include "gpu/engine.hpp"
#include "tests/build_paths.hpp"
#include "tests/cuda/device_fixture.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

struct Setting {
  std::uint32_t chunk = 64;
  std::uint32_t drafts = 0;
  std::uint32_t generate = 24;
};

// One rank with one sequence at a time.
class Writer {
 public:
  Writer(const std::string& model, const std::string& backend) : communicator_(make_solo_communicator()) {
    EngineOptions options;
    options.model = source_folder() / model;
    options.backend = backend;
    options.max_positions = 1024;
    options.kv_tokens = 4096;
    options.lanes_max = 2;
    options.chunk_rows_max = 256;
    options.threads = 8;
    auto engine = load_engine(options, *communicator_, {}, nullptr);
    BOOST_REQUIRE_MESSAGE(engine.has_value(), (engine ? std::string() : engine.error().message()));
    engine_ = std::move(*engine);
  }

  std::vector<TokenId> write(const std::vector<TokenId>& prompt, const Setting& setting) {
    StepPlan plan = opening(prompt, setting);
    std::vector<TokenId> text;
    for (std::uint32_t fed = 0; fed < prompt.size(); fed += setting.chunk) {
      PrefillWork work;
      work.id = id_;
      work.start = fed;
      const auto end = std::min<std::size_t>(fed + setting.chunk, prompt.size());
      work.tokens.assign(prompt.begin() + fed, prompt.begin() + static_cast<std::ptrdiff_t>(end));
      work.sample = end == prompt.size();
      work.next_drafts = setting.drafts;
      plan.prefill.push_back(work);
      step(std::move(plan), text);
      plan = {};
    }
    while (text.size() < setting.generate) {
      plan.decode.push_back({id_, setting.drafts, setting.drafts});
      step(std::move(plan), text);
      plan = {};
    }
    plan.close.push_back(id_);
    step(std::move(plan), text);
    text.resize(setting.generate);
    return text;
  }

 private:
  StepPlan opening(const std::vector<TokenId>& prompt, const Setting& setting) {
    SequenceOpen open;
    open.id = ++id_;
    open.sampling.temperature = 0;
    open.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    open.max_tokens_total = open.prompt_tokens + setting.generate + 8;
    StepPlan plan;
    plan.open.push_back(open);
    return plan;
  }

  void step(StepPlan plan, std::vector<TokenId>& text) {
    plan.step = ++step_;
    const auto result = engine_->step(plan);
    BOOST_REQUIRE_MESSAGE(result.has_value(), (result ? std::string() : result.error().message()));
    for (const LaneResult& lane : result->lanes) {
      BOOST_REQUIRE_MESSAGE(lane.error.empty(), lane.error);
      for (const SampledToken& token : lane.emitted) text.push_back(token.id);
    }
  }

  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Engine> engine_;
  SequenceId id_ = 0;
  std::uint64_t step_ = 0;
};

std::vector<TokenId> random_prompt(std::uint32_t seed, std::size_t length, TokenId vocabulary) {
  Random random(seed);
  std::vector<TokenId> prompt;
  while (prompt.size() < length) prompt.push_back(static_cast<TokenId>(random.below(vocabulary - 16)) + 3);
  return prompt;
}

void check_text(const std::string& model, TokenId vocabulary, const std::vector<std::size_t>& lengths) {
  Writer cpu(model, "cpu"), cuda(model, "cuda");
  std::uint32_t seed = 40;
  for (const std::size_t length : lengths) {
    const std::vector<TokenId> prompt = random_prompt(seed++, length, vocabulary);
    const std::vector<TokenId> expected = cpu.write(prompt, {});
    BOOST_TEST(cuda.write(prompt, {}) == expected, boost::test_tools::per_element());
    BOOST_TEST(cuda.write(prompt, {17, 0}) == expected, boost::test_tools::per_element());
    BOOST_TEST(cuda.write(prompt, {64, 5}) == expected, boost::test_tools::per_element());
    BOOST_TEST(cuda.write(prompt, {200, 3}) == expected, boost::test_tools::per_element());
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(engine)

BOOST_AUTO_TEST_CASE(the_golden_model_writes_the_same_text_on_both_backends) {
  if (!has_device()) return;
  check_text("tests/golden/model/ckpt", 256, {1, 2, 15, 16, 17, 33, 34, 97, 200});
}

BOOST_AUTO_TEST_CASE(the_tiny_model_writes_the_same_text_on_both_backends) {
  if (!has_device()) return;
  check_text("configs/tiny", 4000, {1, 7, 40, 129, 300, 600});
}

BOOST_AUTO_TEST_CASE(fifty_prompts_have_one_text_on_both_backends) {
  if (!has_device()) return;
  Writer cpu("configs/tiny", "cpu"), cuda("configs/tiny", "cuda");
  for (std::uint32_t seed = 100; seed < 150; ++seed) {
    const std::vector<TokenId> prompt = random_prompt(seed, 3 + seed % 70, 4000);
    const Setting plain{64, 0, 32}, drafted{64, 5, 32};
    const std::vector<TokenId> expected = cpu.write(prompt, plain);
    BOOST_TEST(cuda.write(prompt, plain) == expected, boost::test_tools::per_element());
    BOOST_TEST(cuda.write(prompt, drafted) == expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
