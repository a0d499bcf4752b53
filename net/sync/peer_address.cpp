// The last colon divides, unless there are several and no brackets.
#include "net/sync/peer_address.hpp"

#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>
#include <charconv>

namespace tandem::net::sync {
namespace {

Error bad_address(std::string_view text, std::string expected) {
  return {ErrorCode::bad_config, "address", std::string(text), std::move(expected)};
}

Result<std::uint16_t> parse_port(std::string_view digits, std::string_view whole) {
  std::uint16_t port = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (failed != std::errc() || end != digits.data() + digits.size() || digits.empty())
    return bad_address(whole, "a port from 1 to 65535");
  return port;
}

// Also when an IPv6 address stands for an IPv4 one.
bool is_wildcard(const boost::asio::ip::address& address) {
  if (address.is_unspecified()) return true;
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return false;
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).is_unspecified();
}

// Port 0 passes: only a listener has a use for it.
Result<PeerAddress> split_address(std::string_view text) {
  std::string_view host = text, port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return bad_address(text, "[ADDRESS]:PORT");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    has_port = rest.starts_with(':');
    if (!rest.empty() && !has_port) return bad_address(text, "[ADDRESS]:PORT");
    if (has_port) port = rest.substr(1);
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos && colon == text.rfind(':')) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    has_port = true;
  }
  if (host.empty() || host.find_first_of(" \t/@") != std::string_view::npos) return bad_address(text, "HOST[:PORT]");
  PeerAddress address{std::string(host), default_port};
  if (!has_port) return address;
  const auto number = parse_port(port, text);
  if (!number) return number.error();
  address.port = *number;
  return address;
}

}  // namespace

std::string PeerAddress::text() const {
  const bool is_name_or_v4 = host.find(':') == std::string::npos;
  return is_name_or_v4 ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<PeerAddress> parse_peer_address(std::string_view text) {
  auto address = split_address(text);
  if (address && address->port == 0) return bad_address(text, "a port from 1 to 65535");
  return address;
}

Result<PeerAddress> parse_listen_address(std::string_view text) {
  auto address = split_address(text);
  if (!address) return address;
  if (address->host == "localhost") address->host = "127.0.0.1";
  boost::system::error_code failed;
  const auto numeric = boost::asio::ip::make_address(address->host, failed);
  if (failed) return bad_address(text, "a numeric address of this node");
  if (is_wildcard(numeric)) return bad_address(text, "the address of one interface, not of all");
  return address;
}

}  // namespace tandem::net::sync
