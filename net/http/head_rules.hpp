// What a request head must keep beyond HTTP's grammar, so that a proxy in front and we never read it differently
// (RFC 9112: 3.2 Host, 5.2 line folding, 6.1 transfer codings).
#pragma once

#include "net/http/message.hpp"

#include <optional>
#include <string_view>

namespace tandem::net::http {

// Why no (further) request can be had. status 0: the peer is gone or idle, close without a word.
struct ReadRefusal {
  int status = 0;
  std::string_view message;
};

// Returns why the head is refused: 400 for a missing or second Host and for a transfer coding that leaves the body's
// end unknown, 501 for a coding that we do not read.
std::optional<ReadRefusal> judge_head(const Request& request);

// Sees the raw bytes of a head as they arrive and notices a line that continues the one before it. The parser joins
// such lines without a word.
class FoldWatch {
 public:
  void see(std::string_view bytes);
  bool has_fold() const noexcept { return has_fold_; }

 private:
  bool is_first_line_ = true;
  bool is_line_empty_ = true;
  bool is_over_ = false;  // the empty line was seen: what follows is body
  bool has_fold_ = false;
};

}  // namespace tandem::net::http
