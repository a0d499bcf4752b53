// Two folders of a copy: random files here, nothing there; and what must hold between them at any time.
#pragma once

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/folder_contents.hpp"
#include "tests/e2e/tandem_process.hpp"

namespace tandem::test {

inline void put_content(const std::filesystem::path& file, const std::string& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Everything of one test below one folder that goes with it.
class SyncFolders {
 public:
  explicit SyncFolders(std::size_t large_bytes) : root_(make_folder()) {
    std::mt19937_64 random(large_bytes);
    const auto bytes = [&](std::size_t count) {
      std::string text(count, '\0');
      for (char& c : text) c = static_cast<char>(random());
      return text;
    };
    put_content(source() / "large.safetensors", bytes(large_bytes));
    put_content(source() / "exl3/qn/bank.safetensors", bytes(large_bytes / 3 + 1));
    put_content(source() / "config.json", "{}");
    put_content(source() / "empty", "");
    std::filesystem::create_directories(target());
    write_token("token", "0123456789abcdef0123456789abcdef");
  }
  SyncFolders(const SyncFolders&) = delete;
  SyncFolders& operator=(const SyncFolders&) = delete;
  ~SyncFolders() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  std::filesystem::path source() const { return root_ / "source"; }
  std::filesystem::path target() const { return root_ / "target"; }
  std::string state() const { return (root_ / "state").string(); }
  std::string token(const std::string& name = "token") const { return (root_ / name).string(); }
  void write_token(const std::string& name, const std::string& text, int mode = 0600) const {
    put_content(token(name), text + "\n");
    ::chmod(token(name).c_str(), static_cast<mode_t>(mode));
  }

  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& name : names()) sum += std::filesystem::file_size(source() / name);
    return sum;
  }
  // Bytes of the files that have their final name there.
  std::int64_t whole_bytes() const {
    std::uint64_t sum = 0;
    for (const auto& name : names()) {
      if (std::filesystem::exists(target() / name)) sum += std::filesystem::file_size(source() / name);
    }
    return static_cast<std::int64_t>(sum);
  }
  // Whether every file that has its final name there is the one that is here.
  bool has_only_whole_files() const {
    for (const auto& name : names()) {
      if (std::filesystem::exists(target() / name) && file_bytes(target() / name) != file_bytes(source() / name))
        return false;
    }
    return true;
  }
  bool is_equal() const {
    for (const auto& name : names()) {
      if (!std::filesystem::exists(target() / name)) return false;
    }
    return has_only_whole_files() &&
           file_bytes(target() / "tandem-manifest.json") == file_bytes(source() / "tandem-manifest.json");
  }

  std::vector<std::string> receive(const std::string& listen, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"sync",  "--receive",   "--model", target().string(), "--token-file",
                                 token(), "--state-dir", state(),   "--listen",        listen};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<std::string> send(const std::string& to, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"sync",         "--backend", "copy",        "--model", source().string(),
                                 "--token-file", token(),     "--to",        to,        "--json",
                                 "--chunk-kib",  "256",       "--state-dir", state()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 private:
  static std::vector<std::string> names() {
    return {"large.safetensors", "exl3/qn/bank.safetensors", "config.json", "empty"};
  }
  std::filesystem::path root_;
};

// The number behind "NAME": in the last line that has it, or -1.
inline std::int64_t number_in(const std::string& output, const std::string& name) {
  const std::string key = "\"" + name + "\":";
  const std::size_t at = output.rfind(key);
  return at == std::string::npos ? -1 : std::stoll(output.substr(at + key.size()));
}

// "address:port" of the line in which a receiver says that it listens.
inline std::string address_of(TandemProcess& receiver) {
  const auto line = receiver.wait_for_line("listening on ");
  BOOST_REQUIRE_MESSAGE(line, receiver.output());
  return line->substr(line->find("listening on ") + 13);
}

// Waits until a sender says that so many bytes are there.
inline bool wait_for_bytes(TandemProcess& sender, std::int64_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + start_limit;
  for (std::size_t lines = 0; std::chrono::steady_clock::now() < deadline;) {
    const std::string output = sender.output();
    if (number_in(output, "bytes_done") >= bytes) return true;
    if (sender.wait_for_exit(std::chrono::milliseconds(20)) && output.size() == lines) return false;
    lines = output.size();
  }
  return false;
}

}  // namespace tandem::test
