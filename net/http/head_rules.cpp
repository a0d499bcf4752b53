// Counting fields and watching line starts.
#include "net/http/head_rules.hpp"

#include <algorithm>

namespace tandem::net::http {
namespace {

auto count_fields(const Request& request, std::string_view name) {
  return std::ranges::count_if(request.headers,
                               [name](const Header& header) { return equal_ignoring_case(header.name, name); });
}

std::optional<ReadRefusal> judge_transfer_coding(const Request& request) {
  const auto count = count_fields(request, "transfer-encoding");
  if (count == 0) return std::nullopt;
  if (request.is_http_1_0) return ReadRefusal{400, "HTTP/1.0 knows no transfer-encoding"};
  if (count > 1) return ReadRefusal{400, "transfer-encoding is given twice"};
  const std::string& coding = *request.find_header("transfer-encoding");
  if (equal_ignoring_case(coding, "chunked")) return std::nullopt;
  constexpr std::string_view chunked = "chunked";
  const bool ends_in_chunked =
      coding.size() > chunked.size() &&
      equal_ignoring_case(std::string_view(coding).substr(coding.size() - chunked.size()), chunked);
  if (ends_in_chunked) return ReadRefusal{501, "chunked is the only transfer-encoding that is accepted"};
  return ReadRefusal{400, "the transfer-encoding of a request must end in chunked"};
}

}  // namespace

std::optional<ReadRefusal> judge_head(const Request& request) {
  const auto hosts = count_fields(request, "host");
  if (hosts > 1) return ReadRefusal{400, "the Host header is given twice"};
  if (hosts == 0 && !request.is_http_1_0) return ReadRefusal{400, "the Host header is missing"};
  return judge_transfer_coding(request);
}

void FoldWatch::see(std::string_view bytes) {
  for (const char c : bytes) {
    if (is_over_) return;
    if (c == '\r') continue;
    if (c == '\n') {
      is_over_ = is_line_empty_ && !is_first_line_;
      is_first_line_ = false;
      is_line_empty_ = true;
      continue;
    }
    has_fold_ = has_fold_ || (is_line_empty_ && !is_first_line_ && (c == ' ' || c == '\t'));
    is_line_empty_ = false;
  }
}

}  // namespace tandem::net::http
