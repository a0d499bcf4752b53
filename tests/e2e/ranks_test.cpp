// One rank, two ranks as threads, two ranks as processes: the same greedy text.
#include <boost/test/unit_test.hpp>
#include <csignal>

#include "tests/e2e/chat_client.hpp"
#include "tests/e2e/tandem_process.hpp"

using namespace tandem::test;

namespace {

const std::vector<std::string>& questions() {
  static const std::vector<std::string> all = {"What is 17*19? Reply with the integer only.",
                                               "Hello!",
                                               "What is Tandem?",
                                               "Compute 45 + 38.",
                                               "Tell me a story.",
                                               "What is the capital of France?",
                                               "Sort these numbers: 9, 3, 7, 1.",
                                               "Spell the word house.",
                                               "Count from 3 to 12.",
                                               "What is the opposite of hot?",
                                               "Is 17 larger than 12?",
                                               "What is 12 times 13?",
                                               "List three colours.",
                                               "Who are you?",
                                               "What is 99 minus 45?",
                                               "Reverse: a b c d",
                                               "Answer with a JSON object with keys name and age.",
                                               "Tell me a long story about a fox.",
                                               "What day comes after Monday?",
                                               "Say good morning in German."};
  return all;
}

std::vector<std::string> texts_of(std::uint16_t port) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < questions().size(); ++i) {
    const auto answer = ask(port, chat_body(questions()[i], i % 4 == 3, {{"max_tokens", 80}}));
    BOOST_TEST(answer.status == 200, answer.error);
    texts.push_back(answer.reasoning + "|" + answer.content);
  }
  return texts;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ranks)

BOOST_AUTO_TEST_CASE(one_rank_and_two_ranks_say_the_same_with_and_without_drafts) {
  std::vector<std::string> expected;
  {
    TandemServer one{tiny_model(), {"--ranks", "1", "--drafts", "0"}};
    expected = texts_of(one.port());
  }
  TandemServer two{tiny_model(), {"--ranks", "2", "--drafts", "3"}};
  BOOST_TEST(texts_of(two.port()) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(three_bit_weights_say_the_same_on_one_and_two_ranks_and_know_323) {
  const std::string pack = tiny_model() + "-exl3";
  std::vector<std::string> expected;
  {
    TandemServer one{pack, {"--ranks", "1", "--drafts", "0"}};
    expected = texts_of(one.port());
  }
  BOOST_TEST(expected.front() == "|323");
  TandemServer two{pack, {"--ranks", "2", "--drafts", "3"}};
  BOOST_TEST(texts_of(two.port()) == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(two_processes_serve_and_a_lost_worker_is_restored_under_a_running_stream) {
  const auto port = std::to_string(free_port_pair());
  const auto folder = make_folder();
  const std::vector<std::string> shared{"--model",     tiny_model(), "--ranks",    "2",
                                        "--transport", "tcp",        "--rdv-port", port};
  std::vector<std::string> serve{"serve", "--port", "0", "--state-dir", folder},
      work{"worker", "--rank", "1", "--state-dir", folder};
  serve.insert(serve.end(), shared.begin(), shared.end());
  work.insert(work.end(), shared.begin(), shared.end());
  TandemProcess head{serve};
  {
    auto other = work;
    other.insert(other.end(), {"--context", "1024", "--set", "prefill.rows=16"});
    TandemProcess stranger{other};
    BOOST_TEST(stranger.wait_for_exit(std::chrono::seconds(30)).value_or(-1) == 2, stranger.output());
    for (const char* difference :
         {"context.max=0 here, context.max=1024 there", "prefill.rows=256 here, prefill.rows=16 there"})
      BOOST_TEST(stranger.output().find(difference) != std::string::npos, stranger.output());
  }
  auto worker = std::make_unique<TandemProcess>(work);
  const auto listening = head.wait_for_line("listening on http://");
  BOOST_REQUIRE_MESSAGE(listening, head.output());
  const auto http = static_cast<std::uint16_t>(std::stoi(listening->substr(listening->rfind(':') + 1)));
  BOOST_REQUIRE_MESSAGE(head.wait_for_line("ready: "), head.output() + worker->output());
  const auto body = chat_body("Tell me a long story about a fox.", false, {{"max_tokens", 200}, {"ignore_eos", true}});
  const auto expected = ask(http, body);
  BOOST_TEST(expected.completion_tokens == 200);

  const double generated = metric(http, "vllm:generation_tokens_total");
  ChatAnswer interrupted;
  std::thread client{[&] { interrupted = ask(http, body); }};
  BOOST_TEST(metric_reaches(http, "vllm:generation_tokens_total", generated + 5));  // the loss comes in mid-answer
  worker->send(SIGKILL);
  worker = std::make_unique<TandemProcess>(work);
  client.join();
  BOOST_TEST(interrupted.content == expected.content);
  BOOST_TEST(ask(http, body).content == expected.content);
  head.send(SIGTERM);
  BOOST_TEST(head.wait_for_exit(std::chrono::seconds(12)).value_or(-1) == 0, head.output());
}

BOOST_AUTO_TEST_SUITE_END()
