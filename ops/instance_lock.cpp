// The lock is flock on a file; the owner of a port is found through /proc.
#include "ops/instance_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace tandem::ops {

namespace fs = std::filesystem;

Result<std::optional<InstanceLock>> InstanceLock::take(const fs::path& file, const std::string& identity) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return Error{ErrorCode::io, file.string(), std::strerror(errno), "a writable lock file"};
  InstanceLock lock{descriptor};
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::optional<InstanceLock>{};
    return Error{ErrorCode::io, file.string(), std::strerror(errno), "a lock"};
  }
  if (::ftruncate(descriptor, 0) != 0 || ::pwrite(descriptor, identity.data(), identity.size(), 0) < 0)
    return Error{ErrorCode::io, file.string(), std::strerror(errno), "a writable lock file"};
  return std::optional<InstanceLock>{std::move(lock)};
}

std::string InstanceLock::read_identity(const fs::path& file) {
  std::ifstream in{file};
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

InstanceLock::InstanceLock(InstanceLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

InstanceLock::~InstanceLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool answers_livez(const std::string& host, std::uint16_t port) {
  namespace asio = boost::asio;
  asio::io_context context;
  asio::ip::tcp::socket socket{context};
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host == "0.0.0.0" ? "127.0.0.1" : host == "::" ? "::1" : host, error);
  if (error) return false;
  const std::string request = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  std::string answer(12, '\0');
  bool is_alive = false;
  socket.async_connect({address, port}, [&](auto failed) {
    if (failed) return;
    asio::async_write(socket, asio::buffer(request), [&](auto failed_write, std::size_t) {
      if (failed_write) return;
      asio::async_read(socket, asio::buffer(answer),
                       [&](auto failed_read, std::size_t) { is_alive = !failed_read && answer == "HTTP/1.1 200"; });
    });
  });
  context.run_for(std::chrono::seconds(2));
  return is_alive;
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

std::string command_of(const fs::path& process) {
  std::string command = InstanceLock::read_identity(process / "cmdline");
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
