// Whole engines: the CUDA backend writes the text of the CPU backend, in every chunking and with drafts.
#include <boost/test/unit_test.hpp>

#include "gpu/comm/communicator.hpp"
#include "gpu/engine.hpp"
#include "tests/cuda/text_writer.hpp"

using namespace tandem::gpu;
using namespace tandem::gpu::test;

namespace {

// One rank with one sequence at a time.
class Writer {
 public:
  Writer(const std::string& model, const std::string& backend, bool draft = true)
      : communicator_(make_solo_communicator()) {
    EngineOptions options = writer_options(model, backend);
    options.draft = draft;
    auto engine = load_engine(options, *communicator_, {}, nullptr);
    BOOST_REQUIRE_MESSAGE(engine.has_value(), (engine ? std::string() : engine.error().message()));
    writer_ = std::make_unique<TextWriter>(std::move(*engine));
  }

  Text write(const Text& prompt, const Writing& how) {
    auto text = writer_->write(prompt, how);
    BOOST_REQUIRE_MESSAGE(text.has_value(), (text ? std::string() : text.error().message()));
    return std::move(*text);
  }

 private:
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<TextWriter> writer_;
};

void check_text(const std::string& model, TokenId vocabulary, const std::vector<std::size_t>& lengths) {
  Writer cpu(model, "cpu"), cuda(model, "cuda");
  std::uint32_t seed = 40;
  for (const std::size_t length : lengths) {
    const Text prompt = random_prompt(seed++, length, vocabulary);
    const Text expected = cpu.write(prompt, {});
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
  check_text(tandem::golden_model_folder() / "ckpt", 256, {1, 2, 15, 16, 17, 33, 34, 97, 200});
}

BOOST_AUTO_TEST_CASE(the_tiny_model_writes_the_same_text_on_both_backends) {
  if (!has_device()) return;
  check_text("configs/tiny", 4000, {1, 7, 40, 129, 300, 600});
}

BOOST_AUTO_TEST_CASE(fifty_prompts_have_one_text_on_both_backends) {
  if (!has_device()) return;
  Writer cpu("configs/tiny", "cpu"), cuda("configs/tiny", "cuda");
  for (std::uint32_t seed = 100; seed < 150; ++seed) {
    const Text prompt = random_prompt(seed, 3 + seed % 70, 4000);
    const Writing plain{64, 0, 32}, drafted{64, 5, 32};
    const Text expected = cpu.write(prompt, plain);
    BOOST_TEST(cuda.write(prompt, plain) == expected, boost::test_tools::per_element());
    BOOST_TEST(cuda.write(prompt, drafted) == expected, boost::test_tools::per_element());
  }
}

// Such an engine prepares each step while the one before it runs.
BOOST_AUTO_TEST_CASE(an_engine_without_a_draft_network_writes_the_same_text) {
  if (!has_device()) return;
  const std::string model = (tandem::golden_model_folder() / "ckpt").string();
  Writer cpu(model, "cpu"), cuda(model, "cuda", false);
  for (std::uint32_t seed = 200; seed < 220; ++seed) {
    const Text prompt = random_prompt(seed, 3 + seed % 70, 256);
    const Writing plain{64, 0, 40};
    BOOST_TEST(cuda.write(prompt, plain) == cpu.write(prompt, plain), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
