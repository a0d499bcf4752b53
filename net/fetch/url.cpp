// Splitting, joining and encoding of addresses (RFC 3986, as far as files of a checkpoint need it).
#include "net/fetch/url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tandem::net::fetch {
namespace {

bool is_hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("-._~/").find(c) != std::string_view::npos;
}

std::string percent_encoded(std::string_view path) {
  std::string text;
  for (const char c : path)
    text += is_plain(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return text;
}

bool is_port(std::string_view text) {
  unsigned value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size() && value >= 1 && value <= 65535;
}

std::string_view default_port(bool is_tls) {
  return is_tls ? "443" : "80";
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

// "name://..." and not a relative address with such a thing in its query.
bool has_scheme(std::string_view text) {
  const std::string_view name = text.substr(0, text.find("://"));
  const auto is_name = [](char c) { return is_plain(c) && c != '/'; };
  return name.size() < text.size() && std::ranges::all_of(name, is_name);
}

// Host and port of "host:port", "[v6]:port"; false if it is neither.
bool split_authority(std::string_view authority, Url& url) {
  std::string_view host = authority, port = default_port(url.is_tls);
  const std::size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return false;
  if (const std::size_t colon = authority.find(':', bracket); colon != std::string_view::npos) {
    host = authority.substr(0, colon);
    port = authority.substr(colon + 1);
  }
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return false;
    host = host.substr(1, host.size() - 2);
  }
  url.host = lower_case(host);
  url.port = port;
  return !url.host.empty() && is_port(port);
}

}  // namespace

Result<Url> Url::parse(std::string_view text) {
  // The address itself may hold a secret, so a refused one is not repeated in full.
  const auto refuse = [](std::string found) {
    return Error{ErrorCode::bad_config, "address", std::move(found), "http://HOST[:PORT]/PATH or https://..."};
  };
  const auto is_odd = [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F || c == '\\'; };
  if (std::ranges::any_of(text, is_odd)) return refuse("blanks, control characters or backslashes");
  const std::size_t colon = text.find("://");
  const std::string scheme = lower_case(text.substr(0, std::min(colon, text.size())));
  if (colon == std::string_view::npos || (scheme != "http" && scheme != "https"))
    return refuse("another scheme, or none");
  Url url;
  url.is_tls = scheme == "https";
  std::string_view rest = text.substr(colon + 3);
  rest = rest.substr(0, rest.find('#'));
  const std::size_t path = std::min(rest.find_first_of("/?"), rest.size());
  const std::string_view authority = rest.substr(0, path);
  if (authority.find('@') != std::string_view::npos) return refuse("a user name or password");
  if (!split_authority(authority, url)) return refuse("no host, or a wrong port");
  url.target = rest.substr(path);
  if (!url.target.starts_with('/')) url.target.insert(0, 1, '/');
  return url;
}

std::string Url::host_field() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == default_port(is_tls) ? name : name + ":" + port;
}

std::string Url::text() const {
  return (is_tls ? "https://" : "http://") + host_field() + target;
}

std::string Url::text_without_query() const {
  const std::string whole = text();
  return whole.substr(0, whole.find('?'));
}

bool Url::has_origin_of(const Url& other) const noexcept {
  return is_tls == other.is_tls && host == other.host && port == other.port;
}

Url Url::child(std::string_view path) const {
  Url below = *this;
  const std::size_t query = std::min(target.find('?'), target.size());
  below.target = target.substr(0, query);
  if (!below.target.ends_with('/')) below.target += '/';
  below.target += percent_encoded(path) + target.substr(query);
  return below;
}

Result<Url> Url::follow(std::string_view location) const {
  const auto refuse = [&] {
    return Error{ErrorCode::bad_format, text_without_query(), "a redirection that leads nowhere", "an http(s) address"};
  };
  if (location.empty()) return refuse();
  std::string whole(location);
  if (location.starts_with("//")) {
    whole = (is_tls ? "https:" : "http:") + whole;
  } else if (location.starts_with('/')) {
    whole = (is_tls ? "https://" : "http://") + host_field() + whole;
  } else if (!has_scheme(location)) {
    const std::string path = target.substr(0, target.find('?'));
    whole = (is_tls ? "https://" : "http://") + host_field() + path.substr(0, path.rfind('/') + 1) + whole;
  }
  auto url = parse(whole);
  if (!url) return refuse();
  return url;
}

bool HubAddress::is_pinned() const noexcept {
  return (revision.size() == 40 || revision.size() == 64) && std::ranges::all_of(revision, is_hex_digit);
}

Url HubAddress::at(std::string_view other_revision) const {
  return repository.child("resolve/" + std::string(other_revision));
}

Result<HubAddress> HubAddress::parse(const Url& url) {
  constexpr std::string_view marker = "/resolve/";
  const std::string path = url.target.substr(0, url.target.find('?'));
  const std::size_t at = path.find(marker);
  const auto refuse = [&] {
    return Error{ErrorCode::bad_config, url.text_without_query(), "not a hub's address",
                 "https://HOST/OWNER/NAME/resolve/REVISION"};
  };
  if (at == std::string::npos || at == 0) return refuse();
  HubAddress hub{url, path.substr(at + marker.size())};
  hub.repository.target = path.substr(0, at);
  if (hub.revision.ends_with('/')) hub.revision.pop_back();
  if (hub.revision.empty() || hub.revision.find('/') != std::string::npos) return refuse();
  return hub;
}

}  // namespace tandem::net::fetch
