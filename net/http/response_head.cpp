// Writes heads and chunks by hand: one string, one write, nothing that a value could break out of.
#include "net/http/response_head.hpp"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <iterator>

namespace tandem::net::http {
namespace {

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  for (char c : value)
    if (static_cast<unsigned char>(c) >= ' ' && c != 0x7f) out += c;
  out += "\r\n";
}

}  // namespace

std::string write_head(const ResponseHead& head, const std::vector<Header>& extra) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", head.status, reason_phrase(head.status));
  if (!head.content_type.empty()) append_header(out, "content-type", head.content_type);
  if (head.content_length) append_header(out, "content-length", fmt::format("{}", *head.content_length));
  if (head.is_chunked) append_header(out, "transfer-encoding", "chunked");
  append_header(out, "connection", head.keep_alive ? "keep-alive" : "close");
  append_header(out, "date", http_date(std::time(nullptr)));
  append_header(out, "x-request-id", head.request_id);
  for (const Header& header : extra) append_header(out, header.name, header.value);
  out += "\r\n";
  return out;
}

std::string write_chunk(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 20);
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
  return out;
}

std::string http_date(std::int64_t unix_seconds) {
  constexpr std::array days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array months{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", days[static_cast<std::size_t>(parts.tm_wday)],
                     parts.tm_mday, months[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour,
                     parts.tm_min, parts.tm_sec);
}

}  // namespace tandem::net::http
