// The handshake is plain HTTP; the owner of a port is found through /proc.
#include "ops/port_owner.hpp"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tandem::ops {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto handshake_limit = std::chrono::seconds(2);

// Where a listener on `host` is reached from here.
std::optional<tcp::endpoint> endpoint_of(std::string host, std::uint16_t port) {
  if (host == "localhost" || host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) return std::nullopt;
  return tcp::endpoint{address, port};
}

std::optional<std::string> configuration_in(const std::string& answer) {
  constexpr std::string_view key = R"("configuration":")";
  if (!answer.starts_with("HTTP/1.1 200")) return std::nullopt;
  const auto begin = answer.find(key);
  if (begin == std::string::npos) return std::nullopt;
  const auto value = begin + key.size();
  const auto end = answer.find('"', value);
  return end == std::string::npos ? std::nullopt : std::optional(answer.substr(value, end - value));
}

}  // namespace

std::optional<std::string> ask_configuration(const std::string& host, std::uint16_t port) {
  const auto endpoint = endpoint_of(host, port);
  if (!endpoint) return std::nullopt;
  asio::io_context context;
  tcp::socket socket{context};
  const std::string request = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  std::string answer;
  socket.async_connect(*endpoint, [&](error_code failed) {
    if (failed) return;
    asio::async_write(socket, asio::buffer(request), [&](error_code failed_write, std::size_t) {
      if (failed_write) return;
      asio::async_read(socket, asio::dynamic_buffer(answer, 4096), [](error_code, std::size_t) {});
    });
  });
  context.run_for(handshake_limit);
  return configuration_in(answer);
}

bool is_port_free(const std::string& host, std::uint16_t port) {
  const auto endpoint = endpoint_of(host, port);
  if (!endpoint) return true;
  asio::io_context context;
  tcp::acceptor acceptor{context};
  error_code error;
  acceptor.open(endpoint->protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(*endpoint, error);
  if (!error) acceptor.listen(1, error);
  return error != asio::error::address_in_use;
}

namespace {

// Returns the socket inode of a listener (state 0A) on the port from a /proc/net/tcp table.
std::string find_inode(const char* table, std::uint16_t port) {
  std::ifstream file{table};
  std::string line;
  const std::string suffix = fmt::format(":{:04X}", port);
  while (std::getline(file, line)) {
    std::istringstream fields{line};
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    if (state == "0A" && local.ends_with(suffix)) return inode;
  }
  return {};
}

bool has_socket(const fs::path& process, const std::string& link) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process / "fd", error))
    if (fs::read_symlink(entry.path(), error) == link) return true;
  return false;
}

std::string read_text(const fs::path& file) {
  std::ifstream in{file};
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string command_of(const fs::path& process) {
  std::string command = read_text(process / "cmdline");
  for (char& c : command)
    if (c == '\0') c = ' ';
  while (!command.empty() && command.back() == ' ') command.pop_back();
  return command;
}

}  // namespace

std::string describe_port_owner(std::uint16_t port) {
  std::string inode = find_inode("/proc/net/tcp", port);
  if (inode.empty()) inode = find_inode("/proc/net/tcp6", port);
  if (inode.empty()) return "an unknown process";
  const std::string link = "socket:[" + inode + "]";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || !has_socket(entry.path(), link)) continue;
    return fmt::format("pid {} ({})", name, command_of(entry.path()));
  }
  return "a process of another user";
}

}  // namespace tandem::ops
