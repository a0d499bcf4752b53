// The bytes in front of an answer. Pure text, so that tests can read it.
#pragma once

#include "net/http/message.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::http {

struct ResponseHead {
  int status = 200;
  std::string_view content_type;
  std::optional<std::size_t> content_length;  // absent: a stream
  bool is_chunked = false;
  bool keep_alive = true;
  std::string_view request_id;
};

// Returns status line, headers (`extra` last) and the empty line. Control characters in values are dropped.
std::string write_head(const ResponseHead& head, const std::vector<Header>& extra);

// Returns `bytes` framed as one chunk of a chunked body.
std::string write_chunk(std::string_view bytes);

// Returns a time as HTTP dates are written: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string http_date(std::int64_t unix_seconds);

}  // namespace tandem::net::http
