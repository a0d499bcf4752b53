// Threads take files from one list; the calling thread only tells how far they are.
#include "gpu/weights_files/file_hash.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "engram/sha256.hpp"

namespace tandem::gpu {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t piece_bytes = std::size_t{4} << 20;
constexpr auto report_every = std::chrono::milliseconds(500);

class ReadDescriptor {
 public:
  explicit ReadDescriptor(const fs::path& file) : value_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ReadDescriptor(const ReadDescriptor&) = delete;
  ReadDescriptor& operator=(const ReadDescriptor&) = delete;
  ~ReadDescriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int value() const noexcept { return value_; }

 private:
  int value_;
};

Error read_error(const fs::path& file) {
  return {errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, file.string(), std::generic_category().message(errno),
          "a readable file"};
}

Result<std::string> hash_content_of(const fs::path& file, const std::function<bool(std::uint64_t)>& on_bytes) {
  const ReadDescriptor descriptor(file);
  if (descriptor.value() < 0) return read_error(file);
  ::posix_fadvise(descriptor.value(), 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<std::byte> piece(piece_bytes);
  FastSha256 hash;
  for (off_t offset = 0;;) {
    const ssize_t got = ::pread(descriptor.value(), piece.data(), piece.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return read_error(file);
    if (got == 0) return hash.finish();
    hash.update(std::span(piece).first(static_cast<std::size_t>(got)));
    ::posix_fadvise(descriptor.value(), offset, got, POSIX_FADV_DONTNEED);
    offset += got;
    if (on_bytes && !on_bytes(static_cast<std::uint64_t>(got)))
      return Error{ErrorCode::cancelled, file.string(), "stopped while hashing", ""};
  }
}

// What the threads share; everything under one mutex.
class HashPool {
 public:
  HashPool(std::span<const fs::path> files, const HashOptions& options) : files_(files), options_(options) {
    results_.resize(files.size());
    progress_.files_total = files.size();
    std::vector<std::uint64_t> sizes;
    for (const fs::path& file : files) {
      const auto state = file_state(file);
      sizes.push_back(state ? state->bytes : 0);
    }
    progress_.bytes_total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    order_.resize(files.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  }

  std::vector<Result<FileReceipt>> run() {
    const auto wanted = static_cast<std::size_t>(std::max(options_.threads, 1));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < std::min(wanted, files_.size()); ++i) threads.emplace_back([this] { work(); });
    watch();
    for (std::thread& thread : threads) thread.join();
    tell_finished(std::exchange(finished_, {}));
    if (options_.progress) options_.progress(progress_);
    std::vector<Result<FileReceipt>> all;
    for (auto& result : results_) all.push_back(std::move(*result));
    return all;
  }

 private:
  void work() {
    for (;;) {
      std::size_t file = 0;
      {
        const std::lock_guard lock(mutex_);
        if (next_ == order_.size()) return;
        file = order_[next_++];
      }
      auto result = hash_file(files_[file], [this](std::uint64_t bytes) {
        const std::lock_guard lock(mutex_);
        progress_.bytes_done += bytes;
        return !is_stopped_;
      });
      const std::lock_guard lock(mutex_);
      results_[file].emplace(std::move(result));
      finished_.push_back(file);
      if (++progress_.files_done == files_.size()) done_.notify_all();
    }
  }

  void watch() {
    const auto start = Clock::now();
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, report_every, [&] { return progress_.files_done == files_.size(); })) {
      measure(std::chrono::duration<double>(Clock::now() - start).count());
      const HashProgress now = progress_;
      const auto finished = std::exchange(finished_, {});
      lock.unlock();
      tell_finished(finished);
      const bool goes_on = !options_.progress || options_.progress(now);
      lock.lock();
      is_stopped_ = is_stopped_ || !goes_on;
    }
  }

  void measure(double seconds) {
    progress_.bytes_per_s = static_cast<double>(progress_.bytes_done) / seconds;
    const auto left = progress_.bytes_total - std::min(progress_.bytes_done, progress_.bytes_total);
    progress_.eta_s = progress_.bytes_per_s > 0 ? static_cast<double>(left) / progress_.bytes_per_s : 0;
  }

  // A result is written once, before its file is listed as finished: it may be read without the lock.
  void tell_finished(const std::vector<std::size_t>& finished) {
    for (const std::size_t file : finished) {
      if (options_.on_file && *results_[file]) options_.on_file(file, **results_[file]);
    }
  }

  std::span<const fs::path> files_;
  const HashOptions& options_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<std::size_t> order_;
  std::vector<std::optional<Result<FileReceipt>>> results_;
  std::vector<std::size_t> finished_;  // not yet told
  HashProgress progress_;
  std::size_t next_ = 0;
  bool is_stopped_ = false;
};

}  // namespace

struct FastSha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

FastSha256::FastSha256() : state_(std::make_unique<State>()) {
  EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr);
}
FastSha256::FastSha256(FastSha256&&) noexcept = default;
FastSha256& FastSha256::operator=(FastSha256&&) noexcept = default;
FastSha256::~FastSha256() = default;

void FastSha256::update(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string FastSha256::finish() {
  engram::Sha256Digest digest{};
  EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return engram::to_hex(digest);
}

Result<FileReceipt> hash_file(const fs::path& file, const std::function<bool(std::uint64_t)>& on_bytes) {
  const auto before = file_state(file);
  if (!before) return before.error();
  auto hash = hash_content_of(file, on_bytes);
  if (!hash) return hash.error();
  const auto after = file_state(file);
  if (!after) return after.error();
  if (*after != *before) {
    return Error{ErrorCode::mismatch, file.string(), "the file changed while it was hashed", "a file at rest"};
  }
  return FileReceipt{*before, std::move(*hash)};
}

std::vector<Result<FileReceipt>> hash_files(std::span<const fs::path> files, const HashOptions& options) {
  if (files.empty()) return {};
  return HashPool(files, options).run();
}

}  // namespace tandem::gpu
