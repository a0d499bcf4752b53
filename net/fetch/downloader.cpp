// The queue, the workers and the life of a file: looked at, opened, received, hashed, published.
#include "net/fetch/downloader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "gpu/weights_files/byte_count.hpp"
#include "net/fetch/backoff.hpp"
#include "net/fetch/piece_attempt.hpp"
#include "net/fetch/transfer_meter.hpp"

namespace tandem::net::fetch {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = Verdict::Kind;

// An attempt that got this share of a segment further is no failure: a line that drops now and then still gets there,
// and a server that trickles is given up in bounded time.
constexpr std::uint64_t progress_share = 64;

// Errors that every other file would meet too: those of the disk, a refused token, and what is wrong with the server
// itself, on which all files hang: its certificate is refused.
bool concerns_all(const Error& error, const Url& file) {
  const bool is_servers = error.code == ErrorCode::mismatch && error.where == file.host_field();
  return is_servers || error.code == ErrorCode::resource || error.code == ErrorCode::bad_config ||
         error.code == ErrorCode::io;
}

// Opens the part file, in a folder that is made if it is missing.
Result<PartFile> open_part(const PartPlan& plan) {
  const auto folder = plan.final_path.parent_path();
  std::error_code failed;
  if (std::filesystem::create_directories(folder, failed)) {
    if (auto synced = engram::sync_folder_of(folder); !synced) return synced.error();
  }
  if (failed) return Error{ErrorCode::io, folder.string(), "make the folder: " + failed.message(), ""};
  return PartFile::open(plan);
}

class Downloader {
 public:
  Downloader(const DownloadTools& tools, std::vector<FileJob> jobs)
      : tools_(tools),
        changed_(tools.session.context(), Clock::time_point::max()),
        meter_(tools.session, tools.watch, [this] { return progress(); }) {
    for (FileJob& job : jobs) files_.push_back(std::make_unique<FileTask>(std::move(job)));
  }

  Result<DownloadReport> run() {
    const int workers = std::clamp(tools_.limits.connections, 1, connections_max);
    for (int i = 0; i < workers; ++i) tools_.session.start(work());
    tools_.session.start(meter_.report());
    const auto ran = tools_.session.run();
    tools_.session.join();
    meter_.tell();
    tools_.client.drop_idle();
    if (first_error_) return *first_error_;
    if (!ran) return ran.error();
    report_.bytes_received = meter_.received();
    for (const auto& file : files_) report_.hashes.push_back(file->sha256);
    return report_;
  }

 private:
  Awaitable<void> work();
  Awaitable<FileTask*> next_file();
  Awaitable<void> prepare(FileTask& file);
  Awaitable<void> fetch_piece(FileTask& file, PieceAttempt& attempt);
  Awaitable<bool> keep_calm(const FileTask& file, const Piece& piece);
  Awaitable<bool> ask_for_part_again(FileTask& file, Piece& piece, const Verdict& verdict, Backoff& backoff);
  Awaitable<bool> retry(FileTask& file, const Verdict& verdict, Backoff& backoff);
  Awaitable<void> finish_piece(FileTask& file, const Piece& piece);
  Awaitable<void> start_over(FileTask& file, const Error& reason);
  Awaitable<void> reset(FileTask& file);
  Awaitable<void> complete(FileTask& file);
  void settle(FileTask& file);
  void give_up(FileTask& file, const Error& error);
  FetchProgress progress() const;
  void say(const std::string& text) const { tools_.watch.say(text); }

  DownloadTools tools_;
  std::vector<std::unique_ptr<FileTask>> files_;
  std::size_t next_ = 0;  // the first file that nobody has looked at
  std::size_t settled_ = 0;
  boost::asio::steady_timer changed_;  // never expires; cancelled when there may be work again
  Clock::time_point calm_until_{};     // the server asked all of us to wait
  TransferMeter meter_;
  DownloadReport report_;
  std::optional<Error> first_error_;
  std::uint64_t seed_ = std::random_device{}();
};

Awaitable<void> Downloader::work() {
  PieceAttempt attempt(tools_.session, tools_.client, tools_.limits,
                       [this](std::uint64_t bytes) { meter_.receive(bytes); });
  while (FileTask* file = co_await next_file()) {
    if (file->part) {
      co_await fetch_piece(*file, attempt);
    } else {
      co_await prepare(*file);
    }
  }
}

// Returns a file with a pending piece, or one that nobody has opened yet; nothing when all are settled.
Awaitable<FileTask*> Downloader::next_file() {
  while (settled_ < files_.size()) {
    const auto has_pending = [](const auto& file) { return file->has_pending(); };
    const auto begun = files_.begin() + static_cast<std::ptrdiff_t>(next_);
    const auto ready = std::find_if(files_.begin(), begun, has_pending);
    if (ready != begun) co_return ready->get();
    if (next_ < files_.size()) co_return files_[next_++].get();
    co_await changed_.async_wait(as_values);
  }
  meter_.end();
  co_return nullptr;
}

Awaitable<void> Downloader::prepare(FileTask& file) {
  const auto look = [&]() { return tools_.verified.look_at(file.job.entry, tools_.session.token()); };
  const auto present = co_await run_on(tools_.session.hashing(), look);
  if (!present) co_return give_up(file, present.error());
  if (present->state == PresentFile::State::right) {
    // It came another way, or whole in an earlier run.
    const auto tidy = [&file] { return remove_part(file.job.final_path); };
    const auto tidied = co_await run_on(tools_.session.disk(), tidy);
    if (!tidied) co_return give_up(file, tidied.error());
    ++report_.files_present;
    file.sha256 = present->sha256;
    file.received = file.job.entry.bytes;
    co_return settle(file);
  }
  if (present->state == PresentFile::State::other)
    say(fmt::format("{}: has {}; it will be replaced", file.job.final_path.string(), present->reason));
  const FileJob& job = file.job;
  const PartPlan plan{
      job.final_path, job.entry.bytes, tools_.limits.segment_bytes,
      fmt::format("tandem-fetch 2: {} bytes, sha256 {}, revision {}", job.entry.bytes, job.entry.sha256, job.revision)};
  const auto open = [&plan] { return open_part(plan); };
  auto part = co_await run_on(tools_.session.disk(), open);
  if (!part) co_return give_up(file, part.error());
  file.part.emplace(std::move(*part));
  file.lay_out();
  report_.bytes_resumed += file.received;
  changed_.cancel();
  if (file.is_complete()) co_await complete(file);
}

Awaitable<void> Downloader::fetch_piece(FileTask& file, PieceAttempt& attempt) {
  Piece piece = file.take_pending();
  Backoff backoff(tools_.limits, ++seed_);
  const std::uint64_t step = std::max<std::uint64_t>(1, (piece.end - piece.begin) / progress_share);
  while (co_await keep_calm(file, piece)) {
    const Verdict verdict = co_await attempt.run(file, piece);
    if (!file.is_current(piece)) break;
    if (piece.at >= piece.furthest + step) {
      piece.furthest = piece.at;
      backoff.reset();
    }
    if (verdict.kind == Kind::failed) co_return give_up(file, verdict.error);
    if (verdict.kind == Kind::changed) co_return co_await start_over(file, verdict.error);
    if (verdict.kind == Kind::no_ranges && !co_await ask_for_part_again(file, piece, verdict, backoff)) co_return;
    if (verdict.kind == Kind::take) piece.wholes = 0;
    if (verdict.kind == Kind::take && piece.at == piece.end) co_return co_await finish_piece(file, piece);
    if (verdict.kind == Kind::retry && !co_await retry(file, verdict, backoff)) co_return;
  }
}

// Waits as long as the server wants all of us to; false if the piece became worthless meanwhile.
Awaitable<bool> Downloader::keep_calm(const FileTask& file, const Piece& piece) {
  if (const auto now = Clock::now(); file.is_current(piece) && now < calm_until_)
    co_await wait_for(std::chrono::ceil<std::chrono::milliseconds>(calm_until_ - now));
  co_return file.is_current(piece);
}

// The whole file came instead of a part. Taking it throws away what is there, so once may be a proxy's slip: the same
// part is asked for again, and a second whole answer is believed, or, of a server that did send parts of the file, one
// at the end of all attempts. False: the file starts over, as a whole.
Awaitable<bool> Downloader::ask_for_part_again(FileTask& file, Piece& piece, const Verdict& verdict, Backoff& backoff) {
  if (file.is_settled) co_return false;  // another piece of it was given up
  const auto wait = backoff.next();
  if (wait && (++piece.wholes == 1 || file.has_parts)) {
    ++report_.retries;
    // A server that never sends parts would have this said for every piece.
    if (file.has_parts) say(fmt::format("{}; trying again in {} ms", verdict.error.message(), wait->count()));
    co_await wait_for(*wait);
    co_return true;
  }
  say(fmt::format("{}: the server sends no parts of it: one connection for the whole", file.job.entry.path));
  file.is_whole = true;
  co_await reset(file);
  co_return false;
}

FetchProgress Downloader::progress() const {
  FetchProgress now{settled_, files_.size()};
  for (const auto& file : files_) {
    now.bytes_done = gpu::add_bytes(now.bytes_done, file->received);
    now.bytes_total = gpu::add_bytes(now.bytes_total, file->job.entry.bytes);
  }
  return now;
}

// Waits before the next attempt; false when there will be none.
Awaitable<bool> Downloader::retry(FileTask& file, const Verdict& verdict, Backoff& backoff) {
  if (file.is_settled) co_return false;  // another piece of it was given up
  const auto wait = backoff.next(verdict.wait);
  if (!wait) {
    Error error = verdict.error;
    error.found += fmt::format(" ({} attempts)", backoff.failures());
    give_up(file, error);
    co_return false;
  }
  ++report_.retries;
  say(fmt::format("{}; trying again in {} ms", verdict.error.message(), wait->count()));
  if (verdict.wait) calm_until_ = std::max(calm_until_, Clock::now() + *wait);
  co_await wait_for(*wait);
  co_return true;
}

Awaitable<void> Downloader::finish_piece(FileTask& file, const Piece& piece) {
  // Without ranges nothing of a broken transfer is of use, and nothing is noted.
  if (!file.is_whole) {
    const auto note = [part = &*file.part, segment = piece.segment] { return part->finish_segment(segment); };
    const auto noted = co_await run_on(tools_.session.disk(), note);
    if (!noted) co_return give_up(file, noted.error());
  }
  if (!file.is_current(piece)) co_return;
  file.finish(piece);
  if (file.is_complete()) co_await complete(file);
}

Awaitable<void> Downloader::start_over(FileTask& file, const Error& reason) {
  if (++file.restarts > tools_.limits.restarts) co_return give_up(file, reason);
  say(fmt::format("{}; starting over with it", reason.message()));
  co_await reset(file);
}

Awaitable<void> Downloader::reset(FileTask& file) {
  file.invalidate();
  file.resolved.reset();
  const auto emptied = co_await run_on(tools_.session.disk(), [part = &*file.part] { return part->start_over(); });
  if (!emptied) co_return give_up(file, emptied.error());
  file.lay_out();
  changed_.cancel();
  if (file.is_complete()) co_await complete(file);  // an empty one
}

// All bytes are there: are they the right ones?
Awaitable<void> Downloader::complete(FileTask& file) {
  const FileJob& job = file.job;
  const auto part = part_path(job.final_path);
  const auto hash = [part, token = tools_.session.token()] { return hash_until_stopped(part, token); };
  const auto receipt = co_await run_on(tools_.session.hashing(), hash);
  if (!receipt) co_return give_up(file, receipt.error());
  if (!job.entry.sha256.empty() && receipt->sha256 != job.entry.sha256) {
    // Named, as elsewhere: g++ 12 destroys a braced temporary of an awaited expression twice.
    const Error reason{ErrorCode::mismatch, job.entry.path, "sha256 " + receipt->sha256, job.entry.sha256};
    co_return co_await start_over(file, reason);
  }
  const auto publish = [this, &file, &receipt]() -> Result<void> {
    if (auto published = file.part->publish(); !published) return published;
    return tools_.verified.note(file.job.entry.path, *receipt);
  };
  const auto published = co_await run_on(tools_.session.disk(), publish);
  if (!published) co_return give_up(file, published.error());
  file.part.reset();  // thousands of files must not hold a descriptor each
  file.sha256 = receipt->sha256;
  ++report_.files_fetched;
  settle(file);
}

void Downloader::settle(FileTask& file) {
  if (std::exchange(file.is_settled, true)) return;
  ++settled_;
  changed_.cancel();
}

void Downloader::give_up(FileTask& file, const Error& error) {
  if (file.is_settled || error.code == ErrorCode::cancelled) return;
  file.drop_pending();  // what is in flight may still end well, and be of use to the next run
  const bool ends_all = concerns_all(error, file.job.url);
  const bool is_last = settled_ + 1 == files_.size();
  // The first error is the caller's to tell, at the end, which may be hours away.
  if (first_error_ || !(ends_all || is_last)) say(error.message() + (ends_all || is_last ? "" : "; the others go on"));
  if (!first_error_) first_error_ = error;
  settle(file);
  if (ends_all) tools_.session.stop();
}

}  // namespace

Result<DownloadReport> download(const DownloadTools& tools, std::vector<FileJob> jobs) {
  Downloader downloader(tools, std::move(jobs));
  return downloader.run();
}

}  // namespace tandem::net::fetch
