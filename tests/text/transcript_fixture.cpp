// The client's side of the events.
#include "tests/text/transcript_fixture.hpp"

#include "net/text/utf8.hpp"
#include "tests/text/tokenizer_fixture.hpp"

#include <boost/test/unit_test.hpp>
#include <ostream>
#include <set>
#include <utility>

namespace tandem::net::text::test {

void Transcript::drop_open_calls() {
  std::erase_if(calls, [](const CallRecord& call) { return !call.is_complete; });
}

std::ostream& operator<<(std::ostream& out, const Transcript& transcript) {
  out << "{reasoning [" << transcript.reasoning << "] content [" << transcript.content << "]";
  for (const CallRecord& call : transcript.calls) {
    out << " call " << call.name << " " << call.arguments << (call.is_complete ? "" : " open");
  }
  return out << " finish " << transcript.finish_reason << "}";
}

void add_events(Transcript& transcript, const Events& events) {
  for (const Event& event : events) {
    BOOST_REQUIRE(transcript.finish_reason.empty());
    BOOST_REQUIRE(is_valid_utf8(event.text));
    switch (event.kind) {
      case EventKind::reasoning:
        transcript.reasoning += event.text;
        break;
      case EventKind::content:
        transcript.content += event.text;
        break;
      case EventKind::call_begin:
        BOOST_REQUIRE(event.index == transcript.calls.size());
        BOOST_REQUIRE((transcript.calls.empty() || transcript.calls.back().is_complete));
        transcript.calls.push_back({event.text, "", false});
        break;
      case EventKind::call_args:
        BOOST_REQUIRE(event.index + 1 == transcript.calls.size());
        transcript.calls.back().arguments += event.text;
        break;
      case EventKind::call_end:
        BOOST_REQUIRE(event.index + 1 == transcript.calls.size());
        transcript.calls.back().is_complete = true;
        break;
      case EventKind::finish:
        transcript.finish_reason = to_string(event.reason);
        break;
    }
  }
}

Stream cut(const Stream& stream, std::size_t piece_bytes) {
  Stream pieces;
  for (const auto& item : stream) {
    const std::string* text = std::get_if<std::string>(&item);
    if (text == nullptr) {
      pieces.push_back(item);
      continue;
    }
    for (std::size_t i = 0; i < text->size(); i += piece_bytes) pieces.emplace_back(text->substr(i, piece_bytes));
  }
  return pieces;
}

Stream cut_once(const Stream& stream, std::size_t at) {
  Stream pieces;
  std::size_t begin = 0;
  for (const auto& item : stream) {
    const std::string* text = std::get_if<std::string>(&item);
    if (text == nullptr || at <= begin || at >= begin + text->size()) {
      pieces.push_back(item);
    } else {
      pieces.emplace_back(text->substr(0, at - begin));
      pieces.emplace_back(text->substr(at - begin));
    }
    if (text != nullptr) begin += text->size();
  }
  return pieces;
}

std::size_t text_bytes(const Stream& stream) {
  std::size_t bytes = 0;
  for (const auto& item : stream) {
    if (const std::string* text = std::get_if<std::string>(&item)) bytes += text->size();
  }
  return bytes;
}

std::vector<TokenId> byte_ids(const Stream& stream) {
  std::vector<TokenId> ids;
  for (const auto& item : stream) {
    if (const Markup* markup = std::get_if<Markup>(&item)) {
      ids.push_back(id_of(*markup));
    } else {
      for (const char c : std::get<std::string>(item)) ids.push_back(byte_id(static_cast<unsigned char>(c)));
    }
  }
  return ids;
}

namespace {

std::set<std::string> pieces_of(const std::vector<Stream>& streams) {
  std::set<std::string> pieces;
  for (const Stream& stream : streams) {
    for (const auto& item : stream) {
      const std::string* text = std::get_if<std::string>(&item);
      if (text != nullptr && text->size() > 1) pieces.insert(*text);
    }
  }
  return pieces;
}

Tokenizer tokenizer_of(const std::set<std::string>& pieces) {
  TokenizerSpec spec;
  spec.merges.clear();
  spec.entries.assign(pieces.begin(), pieces.end());
  auto tokenizer = Tokenizer::from_json(tokenizer_text(spec), "pieces");
  BOOST_REQUIRE_MESSAGE(tokenizer.has_value(), "the tokenizer of pieces loads");
  return std::move(*tokenizer);
}

}  // namespace

StreamRunner::StreamRunner(const std::vector<Stream>& streams) : tokenizer_(tokenizer_of(pieces_of(streams))) {
  for (TokenId id = 0; id < tokenizer_.vocabulary_size(); ++id) {
    if (!tokenizer_.is_added(id)) token_of_piece_.emplace(*tokenizer_.token_bytes(id), id);
  }
}

Transcript StreamRunner::run(const Stream& stream, const OutputOptions& options, EndCause cause) const {
  OutputParser parser(tokenizer_, options);
  Transcript transcript;
  for (const auto& item : stream) {
    const Markup* markup = std::get_if<Markup>(&item);
    add_events(transcript, parser.feed(markup != nullptr ? *tokenizer_.id(*markup)
                                                         : token_of_piece_.at(std::get<std::string>(item))));
  }
  add_events(transcript, parser.finish(cause));
  return transcript;
}

Transcript run_stream(const Stream& stream, const OutputOptions& options, EndCause cause) {
  return StreamRunner({stream}).run(stream, options, cause);
}

Transcript run_ids(const std::vector<TokenId>& ids, const OutputOptions& options, EndCause cause) {
  OutputParser parser(small_tokenizer(), options);
  Transcript transcript;
  for (const TokenId id : ids) add_events(transcript, parser.feed(id));
  add_events(transcript, parser.finish(cause));
  return transcript;
}

}  // namespace tandem::net::text::test
