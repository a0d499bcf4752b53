// What the encoder writes the parser reads back, and what the parser read the encoder writes again: for conversations
// drawn at random, an assistant turn survives prompt -> ids -> events -> prompt unchanged, so cached prefixes stay
// valid.
#include "net/text/chat.hpp"
#include "net/text/json/write.hpp"
#include "tests/text/golden_fixture.hpp"
#include "tests/text/tokenizer_fixture.hpp"
#include "tests/text/transcript_fixture.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>

namespace tandem::net::text::test {
BOOST_AUTO_TEST_SUITE(round_trips)

namespace {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t bound) { return random_() % bound; }

  std::string text() {
    static const std::vector<std::string> words = {"a",       "é",     "東京", "😀",  " ", "\n",        "<",
                                                   "</",      ">",     "\"",   "\\", "{", "</think>",  "｜DSML｜",
                                                   " calls>", "hello", "12",   "\t", "=", "<｜User｜>"};
    std::string out;
    for (std::size_t i = 0, n = below(8); i < n; ++i) out += words[below(words.size())];
    return out;
  }

  Json value(int depth = 0) {
    switch (below(depth < 2 ? 7 : 5)) {
      case 0:
        return Json();
      case 1:
        return Json(below(2) == 0);
      case 2:
        return Json(JsonNumber{std::to_string(below(1000))});
      case 3:
        return Json(JsonNumber{"-0.5"});
      case 4:
        return Json(text());
      case 5:
        return Json(JsonArray{value(depth + 1), value(depth + 1)});
      default:
        return Json(JsonObject{{"k" + text(), value(depth + 1)}});
    }
  }

  ToolCall call() {
    JsonObject arguments;
    for (std::size_t i = 0, n = below(4); i < n; ++i) arguments.push_back({"p" + std::to_string(i), value()});
    return {"", below(2) == 0 ? "f" : "ns::g", Json(std::move(arguments))};
  }

  // Content before a block must not end in newlines: those belong to the separator, and the parser cannot tell.
  Message assistant() {
    Message message;
    message.role = Role::assistant;
    message.reasoning = text() + "r";
    message.content.push_back({false, text() + "c"});
    for (std::size_t i = 0, n = below(3); i < n; ++i) message.calls.push_back(call());
    return message;
  }

 private:
  std::mt19937 random_;
};

const std::vector<Tool>& offered() {
  static const std::vector<Tool> tools = [] {
    const Json list = json(R"([{"function": {"name": "f"}}, {"namespace": "ns", "function": {"name": "g"}}])");
    return *read_tools(&list, {});
  }();
  return tools;
}

ChatRequest request_with(std::vector<Message> messages) {
  ChatRequest request;
  request.messages = std::move(messages);
  request.tools = offered();
  return request;
}

std::vector<TokenId> ids_of_prompt(const ChatRequest& request) {
  return encode_prompt(request, small_tokenizer())->ids;
}

Message message_of(const Transcript& transcript) {
  Message message;
  message.role = Role::assistant;
  message.reasoning = transcript.reasoning;
  message.content.push_back({false, transcript.content});
  for (const CallRecord& call : transcript.calls) message.calls.push_back({"", call.name, Json(call.arguments)});
  return message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_assistant_turn_survives_encoding_parsing_and_encoding) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    Draw draw(seed);
    Message user;
    user.content.push_back({false, draw.text()});
    const Message assistant = draw.assistant();
    const auto before = ids_of_prompt(request_with({user}));
    const auto whole = ids_of_prompt(request_with({user, assistant, user}));
    BOOST_REQUIRE(std::equal(before.begin(), before.end(), whole.begin()));

    OutputOptions options;
    options.turn.start = ParserStart::reasoning;
    options.turn.tools = &offered();
    options.turn.delivery = seed % 2 == 0 ? CallDelivery::whole : CallDelivery::live;
    const std::vector<TokenId> output(whole.begin() + static_cast<std::ptrdiff_t>(before.size()), whole.end());
    const Transcript transcript = run_ids(output, options, EndCause::end_of_turn);

    BOOST_TEST_CONTEXT("seed " << seed) {
      BOOST_TEST(transcript.reasoning == assistant.reasoning);
      BOOST_TEST(transcript.content == assistant.content.front().value);
      BOOST_TEST(transcript.calls.size() == assistant.calls.size());
      for (std::size_t i = 0; i < transcript.calls.size(); ++i) {
        BOOST_TEST(transcript.calls[i].name == assistant.calls[i].name);
        BOOST_TEST(transcript.calls[i].arguments == write_json(assistant.calls[i].arguments));
      }
      BOOST_TEST(ids_of_prompt(request_with({user, message_of(transcript), user})) == whole,
                 boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(without_thinking_a_longer_conversation_extends_the_prompt_of_the_shorter) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Draw draw(seed);
    ChatRequest request = request_with({});
    request.tools.clear();
    request.thinking.is_on = false;
    std::vector<TokenId> before;
    for (int turn = 0; turn < 4; ++turn) {
      Message user;
      user.content.push_back({false, draw.text()});
      request.messages.push_back(user);
      const auto prompt = ids_of_prompt(request);
      BOOST_REQUIRE(prompt.size() > before.size());
      BOOST_REQUIRE(std::equal(before.begin(), before.end(), prompt.begin()));
      before = prompt;
      request.messages.push_back(draw.assistant());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace tandem::net::text::test
