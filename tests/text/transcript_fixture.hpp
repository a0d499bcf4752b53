// Streams of model output for tests, and the answer that a client would assemble from the events.
#pragma once

#include "net/text/output_parser.hpp"

#include <iosfwd>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace tandem::net::text::test {

// Text (any bytes) and markers in order. A text item is what one or more ordinary tokens hold.
using Stream = std::vector<std::variant<std::string, Markup>>;

struct CallRecord {
  std::string name;
  std::string arguments;
  bool is_complete = false;
  bool operator==(const CallRecord&) const = default;
};

// What a client keeps of one answer.
struct Transcript {
  std::string reasoning;
  std::string content;
  std::vector<CallRecord> calls;
  std::string finish_reason;
  bool operator==(const Transcript&) const = default;

  // Forgets calls without their end mark, as a client in live mode must.
  void drop_open_calls();
};

std::ostream& operator<<(std::ostream& out, const Transcript& transcript);

// Adds events to a transcript and checks their order: indices count up, no call overlaps, nothing follows the finish.
void add_events(Transcript& transcript, const Events& events);

// Returns the stream with its texts cut into pieces of `piece_bytes`, or once at byte `at` of all text.
Stream cut(const Stream& stream, std::size_t piece_bytes);
Stream cut_once(const Stream& stream, std::size_t at);
std::size_t text_bytes(const Stream& stream);

// Feeds streams to an OutputParser with one token for each piece of text, whatever bytes it holds.
class StreamRunner {
 public:
  // Makes a tokenizer that has every piece of these streams as a token.
  explicit StreamRunner(const std::vector<Stream>& streams);

  Transcript run(const Stream& stream, const OutputOptions& options, EndCause cause) const;

 private:
  std::map<std::string, TokenId> token_of_piece_;
  Tokenizer tokenizer_;
};

// As StreamRunner::run, for one stream.
Transcript run_stream(const Stream& stream, const OutputOptions& options, EndCause cause);

// Feeds ids to an OutputParser of the small tokenizer.
Transcript run_ids(const std::vector<TokenId>& ids, const OutputOptions& options, EndCause cause);

// Returns the stream as ids of the small tokenizer, one token a byte.
std::vector<TokenId> byte_ids(const Stream& stream);

}  // namespace tandem::net::text::test
