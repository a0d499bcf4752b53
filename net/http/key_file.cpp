// Reading with a check of the permissions; writing by a temporary file and a link that never replaces a file somebody
// else made.
#include "net/http/key_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <system_error>

namespace tandem::net::http {
namespace {

constexpr std::string_view blanks = " \t\r\n";

Error io_error(const std::filesystem::path& file, int code) {
  return {ErrorCode::io, file.string(), std::strerror(code), "a key file"};
}

std::string trimmed(std::string_view line) {
  const std::size_t first = line.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return std::string(line.substr(first, line.find_last_not_of(blanks) - first + 1));
}

// 43 base62 characters: 256 bits.
std::string random_key() {
  constexpr std::string_view alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::random_device device;
  std::uniform_int_distribution<std::size_t> pick{0, alphabet.size() - 1};
  std::string key = "tk-";
  for (int i = 0; i < 43; ++i) key += alphabet[pick(device)];
  return key;
}

// Writes `text` to a new file of mode 0600. Returns 0 or errno.
int write_private_file(const std::filesystem::path& file, std::string_view text) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno;
  int failure = ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : EIO;
  if (failure == 0 && ::fsync(descriptor) != 0) failure = errno;
  ::close(descriptor);
  if (failure != 0) ::unlink(file.c_str());
  return failure;
}

}  // namespace

Result<std::vector<std::string>> load_keys(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    if (errno == ENOENT) return Error{ErrorCode::not_found, file.string(), "no such file", "a key file"};
    return io_error(file, errno);
  }
  if ((status.st_mode & 077) != 0)
    return Error{ErrorCode::bad_config, file.string(), fmt::format("mode {:03o}", status.st_mode & 0777),
                 "mode 600: only the owner may read a key file"};
  std::ifstream input{file};
  if (!input) return io_error(file, EACCES);
  std::vector<std::string> keys;
  for (std::string line; std::getline(input, line);) {
    std::string key = trimmed(line);
    if (!key.empty() && key.front() != '#') keys.push_back(std::move(key));
  }
  if (keys.empty()) return Error{ErrorCode::bad_config, file.string(), "no key", "one key a line"};
  return keys;
}

Result<std::vector<std::string>> load_or_create_keys(const std::filesystem::path& file) {
  auto loaded = load_keys(file);
  if (loaded || loaded.error().code != ErrorCode::not_found) return loaded;
  std::error_code error;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  if (error) return io_error(file, error.value());
  const std::filesystem::path temporary = file.string() + fmt::format(".{}.new", ::getpid());
  if (const int failure = write_private_file(temporary, random_key() + "\n")) return io_error(temporary, failure);
  // link() refuses to replace: when two servers start at once, both end up with the key of the first.
  const int failure = ::link(temporary.c_str(), file.c_str()) == 0 ? 0 : errno;
  ::unlink(temporary.c_str());
  if (failure != 0 && failure != EEXIST) return io_error(file, failure);
  return load_keys(file);
}

}  // namespace tandem::net::http
