// The mount table is text; everything about it is decided from that text and one address.
#include "net/sync/mount.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <charconv>
#include <fstream>
#include <system_error>

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;
namespace asio = boost::asio;

constexpr std::uint64_t nfs_transfer_bytes = std::uint64_t{1} << 20;
constexpr std::uint64_t nfs_connections = 8;  // one connection does not fill the cable

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

// "\040" -> " ": the table has blanks, tabs and backslashes of names in this form.
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) && is_octal(text[i + 2]) &&
                           is_octal(text[i + 3]);
    if (!is_escape) {
      plain += text[i];
      continue;
    }
    plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return plain;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (!line.empty()) {
    const std::size_t begin = line.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\n", begin), line.size());
    words.push_back(unescape(line.substr(begin, end - begin)));
    line.remove_prefix(end);
  }
  return words;
}

bool is_above(const fs::path& target, const fs::path& folder) {
  const auto [rest, at] = std::mismatch(target.begin(), target.end(), folder.begin(), folder.end());
  return rest == target.end() || (std::next(rest) == target.end() && rest->empty());
}

bool is_at_least(const Mount& mount, std::string_view option, std::uint64_t wanted) {
  const std::string_view text = mount.option(option);
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size() && value >= wanted;
}

}  // namespace

std::string Mount::text() const {
  return fmt::format("{} {} {} {}", source, target, type, options);
}

std::string_view Mount::option(std::string_view name) const noexcept {
  for (std::string_view rest = options; !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view entry = rest.substr(0, end);
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=')
      return entry.substr(name.size() + 1);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

bool Mount::has_option(std::string_view name) const noexcept {
  for (std::string_view rest = options; !rest.empty();) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (rest.substr(0, end) == name) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

std::string Mount::server() const {
  if (const std::string_view address = option("addr"); !address.empty()) return std::string(address);
  const std::size_t colon = source.rfind(":/");
  return colon == std::string::npos ? "" : source.substr(0, colon);
}

Result<Mount> parse_mount(std::string_view line) {
  const auto words = words_of(line);
  if (words.size() >= 4) return Mount{words[0], words[1], words[2], words[3]};
  return Error{ErrorCode::bad_format, "mount table", std::string(line.substr(0, 200)), "source target type options"};
}

Result<Mount> find_mount(const fs::path& table, const fs::path& folder) {
  std::ifstream lines(table);
  if (!lines) return Error{ErrorCode::io, table.string(), "cannot be read", "a mount table"};
  std::error_code failed;
  const fs::path place = fs::weakly_canonical(folder, failed);
  Mount found;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    auto mount = parse_mount(line);
    if (!mount) return mount;
    if (is_above(mount->target, place) && mount->target.size() >= found.target.size()) found = std::move(*mount);
  }
  if (!found.target.empty()) return found;
  return Error{ErrorCode::not_found, table.string(), "no mount above " + place.string(), "a line for it"};
}

std::string own_address_towards(const std::string& address) {
  boost::system::error_code failed;
  const auto numeric = asio::ip::make_address(address, failed);
  if (failed) return {};
  asio::io_context context;
  asio::ip::udp::socket socket(context);
  // Connecting a datagram socket sends nothing: it asks the routing table.
  socket.connect({numeric, 2049}, failed);
  if (failed) return {};
  const auto local = socket.local_endpoint(failed);
  return failed ? std::string{} : local.address().to_string();
}

std::vector<std::string> find_nfs_faults(const Mount& mount, const std::string& own_address) {
  std::vector<std::string> faults;
  if (mount.type != "nfs4" && mount.type != "nfs")
    return {fmt::format("the folder lies on {} ({}), not on an NFS mount", mount.type, mount.target)};
  if (mount.option("vers") != "4.2")
    faults.push_back(fmt::format("version {}, not 4.2", mount.option("vers").empty() ? "?" : mount.option("vers")));
  if (!mount.has_option("ro")) faults.push_back("not mounted read-only");
  if (!mount.has_option("hard")) faults.push_back("not mounted hard: a server that restarts would give read errors");
  for (const char* option : {"rsize", "wsize"}) {
    if (!is_at_least(mount, option, nfs_transfer_bytes))
      faults.push_back(fmt::format("{}={}, not 1048576", option, mount.option(option)));
  }
  if (!is_at_least(mount, "nconnect", nfs_connections))
    faults.push_back(fmt::format("nconnect={}, not {}", mount.option("nconnect"), nfs_connections));
  const std::string server = mount.server();
  boost::system::error_code failed;
  const auto address = asio::ip::make_address(server, failed);
  const bool is_own = !own_address.empty() && own_address == server;
  if ((!failed && address.is_loopback()) || is_own || server == "localhost")
    faults.push_back(fmt::format("its server {} is this node itself, over lo", server));
  return faults;
}

}  // namespace tandem::net::sync
