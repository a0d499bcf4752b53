// Rounds of offers, chunks and comparisons; the state is CopyFiles, under one mutex.
#include "net/sync/sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "net/sync/copy_files.hpp"
#include "net/sync/copy_list.hpp"
#include "net/sync/own_hashes.hpp"
#include "net/sync/piece_reader.hpp"
#include "net/sync/rate_limit.hpp"

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

constexpr Millis report_every{500};
constexpr Millis round_pause_min{200}, round_pause_max{5'000};

// Before a token is proved nothing vouches for what the other end says. A node that never proved one is believed when
// it says so often that the tokens differ, or that it is no Tandem; one that did is waited for like a broken link.
constexpr int refusals_believed = 3;
// A file whose bytes were spoilt on the way or at the receiver's is sent again so often, all in all.
constexpr int sendings_max = 3;

// With a limit on the rate, chunks are small enough to keep it evenly; those of an unfinished file stay as they are.
CopyOptions paced(CopyOptions options) {
  constexpr std::uint64_t seconds_between_chunks = 4;
  if (options.bytes_per_s_max == 0) return options;
  const std::uint64_t bytes = std::max(options.bytes_per_s_max * seconds_between_chunks, chunk_bytes_min);
  options.chunk_bytes = std::min(options.chunk_bytes, bytes);
  options.connections = static_cast<int>(
      std::clamp<std::uint64_t>(bytes / options.chunk_bytes, 1, static_cast<std::uint64_t>(options.connections)));
  return options;
}

// Whether another round could do better: the link or the other process may come back; a full disk or a wrong token
// stays.
bool may_pass_by_itself(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::timeout || code == ErrorCode::corrupt;
}

// A message about a file, by which the receiver knows it from others of its name.
Message message_about(MessageKind kind, const CopyFile& file) {
  Message message{kind};
  message.path = file.path;
  message.bytes = file.bytes;
  message.modified_ns = file.modified_ns;
  message.chunk_bytes = file.shape.chunk_bytes;
  message.sha256 = file.sha256;
  return message;
}

class Copy {
 public:
  Copy(const CopyOptions& options, CopyFiles files, OwnHashes& hashes)
      : options_(options), hashes_(hashes), rate_(options.bytes_per_s_max), files_(std::move(files)) {}

  Result<CopyOutcome> run();

 private:
  Result<void> run_round();
  bool may_pass(const Error& lost) const;
  Result<std::unique_ptr<Channel>> connect();
  Result<void> offer_all(Channel& control);
  Result<Message> offer(Channel& control, const CopyFile& file);
  Result<void> offer_one(Channel& control, std::size_t index);
  Result<void> send_all(std::unique_ptr<Channel> control);
  Result<void> work_on(Channel& channel);
  Result<void> send_chunk(Channel& channel, PieceReader& reader, const CopyFiles::Work& work);
  Result<void> compare_whole(Channel& channel, std::size_t file);
  Error judge_mismatch(Channel& channel, CopyFile& file, const Error& told);
  Result<void> send_manifest();
  Result<void> rest_until_next_round(const Error& lost);
  void watch(const std::vector<Channel*>& channels);
  void report_locked();
  void announce(const std::string& text) const {
    if (options_.announce) options_.announce(text);
  }

  const CopyOptions& options_;
  OwnHashes& hashes_;
  RateLimit rate_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_gain_ = start_;
  Millis pause_ = round_pause_min;
  bool has_met_peer_ = false;  // it proved the token once
  bool is_refused_ = false;    // the round's error was said before any proof
  int refusals_ = 0;           // of these, in a row

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  CopyFiles files_;
  CopyOutcome outcome_;
  std::optional<Error> lost_;  // the first error of the round
  int working_ = 0;
  bool is_cancelled_ = false;
};

Result<CopyOutcome> Copy::run() {
  for (;;) {
    auto round = run_round();
    // A connection that is told to stop ends without an error and without its work.
    if (round && files_.is_done()) round = send_manifest();
    if (round && files_.is_done()) break;
    if (is_cancelled_) return Error{ErrorCode::cancelled, options_.folder.string(), "stopped while copying", ""};
    if (round) return Error{ErrorCode::internal, options_.peer.text(), "a round that left work", "all files done"};
    if (!may_pass(round.error())) return round.error();
    if (auto rested = rest_until_next_round(round.error()); !rested) return rested.error();
  }
  outcome_.files = files_.files().size();
  for (const CopyFile& file : files_.files()) outcome_.files_same += file.was_same ? 1 : 0;
  outcome_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return outcome_;
}

bool Copy::may_pass(const Error& lost) const {
  if (is_refused_) return has_met_peer_ || refusals_ < refusals_believed;
  return may_pass_by_itself(lost.code);
}

Result<std::unique_ptr<Channel>> Copy::connect() {
  auto channel = Channel::connect(options_.peer, options_.token, options_.timeouts);
  const auto code = channel ? ErrorCode::unavailable : channel.error().code;
  is_refused_ = code == ErrorCode::bad_config || code == ErrorCode::bad_format || code == ErrorCode::mismatch;
  refusals_ = is_refused_ ? refusals_ + 1 : 0;
  has_met_peer_ = has_met_peer_ || channel;
  return channel;
}

// Waits a growing while; gives up when nothing was gained for too long.
Result<void> Copy::rest_until_next_round(const Error& lost) {
  const auto idle = std::chrono::duration_cast<Millis>(Clock::now() - last_gain_);
  if (idle >= options_.patience) {
    return Error{lost.code, lost.where, fmt::format("{}; nothing was gained for {} s", lost.found, idle.count() / 1000),
                 lost.expected};
  }
  announce(fmt::format("{}; trying again", lost.message()));
  std::unique_lock lock(mutex_);
  // The last attempt is made when the patience ends, not before.
  changed_.wait_for(lock, std::min(pause_, options_.patience - idle), [] { return false; });
  pause_ = std::min(2 * pause_, round_pause_max);
  report_locked();
  if (is_cancelled_) return Error{ErrorCode::cancelled, options_.folder.string(), "stopped while copying", ""};
  return {};
}

Result<void> Copy::run_round() {
  ++outcome_.rounds;
  files_.begin_round();
  lost_.reset();
  is_refused_ = false;
  if (files_.is_done()) return {};
  auto control = connect();
  if (!control) return control.error();
  if (auto offered = offer_all(**control); !offered) return offered;
  if (files_.is_done()) return {};
  Message reserve{MessageKind::reserve};
  reserve.bytes = files_.bytes_missing();
  if (auto room = (*control)->ask_for(MessageKind::done, reserve); !room) return room.error();
  return send_all(std::move(*control));
}

Result<void> Copy::offer_all(Channel& control) {
  for (std::size_t i = 0; i < files_.files().size(); ++i) {
    if (files_.files()[i].state != CopyState::waiting) continue;
    if (auto offered = offer_one(control, i); !offered) return offered;
  }
  return {};
}

Result<Message> Copy::offer(Channel& control, const CopyFile& file) {
  Message message = message_about(MessageKind::offer, file);
  message.forced = options_.is_forced;
  return control.ask_for(MessageKind::have, message);
}

Result<void> Copy::offer_one(Channel& control, std::size_t index) {
  CopyFile& file = files_.files()[index];
  auto have = offer(control, file);
  if (!have) return have.error();
  auto judged = judge_offer(file, *have);
  if (judged && *judged == OfferOutcome::compare_hashes) {
    auto own = hashes_.read(file.path, control);
    if (!own) return own.error();
    file.sha256 = std::move(*own);
    have = offer(control, file);
    if (!have) return have.error();
    judged = judge_offer(file, *have);
  }
  if (!judged) return judged.error();
  if (*judged == OfferOutcome::same) {
    files_.note_same(index);
    last_gain_ = Clock::now();
    return {};
  }
  const auto there = ChunkSet::parse({file.bytes, have->chunk_bytes}, have->done);
  if (!there) return there.error();
  if (outcome_.rounds == 1) outcome_.bytes_resumed += there->bytes();
  files_.note_there(index, *there);
  return {};
}

// Every connection takes work until there is none; the first error ends the round for all of them.
Result<void> Copy::send_all(std::unique_ptr<Channel> control) {
  std::vector<std::unique_ptr<Channel>> channels;
  channels.push_back(std::move(control));
  for (int i = 1; i < options_.connections; ++i) {
    auto more = Channel::connect(options_.peer, options_.token, options_.timeouts);
    if (!more) break;  // fewer will do; if the link is gone the first one finds out
    channels.push_back(std::move(*more));
  }
  std::vector<Channel*> all;
  std::vector<std::thread> threads;
  working_ = static_cast<int>(channels.size());
  for (const auto& channel : channels) {
    all.push_back(channel.get());
    threads.emplace_back([this, at = channel.get()] {
      const auto worked = work_on(*at);
      const std::lock_guard lock(mutex_);
      if (!worked && !lost_) lost_ = worked.error();
      --working_;
      changed_.notify_all();
    });
  }
  watch(all);
  for (std::thread& thread : threads) thread.join();
  if (lost_) return *lost_;
  return {};
}

// Reports until all connections have ended; after an error, ends the others.
void Copy::watch(const std::vector<Channel*>& channels) {
  std::unique_lock lock(mutex_);
  bool is_ending = false;
  while (working_ > 0) {
    changed_.wait_for(lock, report_every);
    report_locked();
    if (is_ending || !(lost_ || is_cancelled_)) continue;
    is_ending = true;
    rate_.stop();
    for (Channel* channel : channels) channel->cancel();
  }
  rate_.resume();
}

Result<void> Copy::work_on(Channel& channel) {
  PieceReader reader(options_.folder);
  for (;;) {
    std::optional<CopyFiles::Work> work;
    {
      std::unique_lock lock(mutex_);
      if (lost_ || is_cancelled_) return {};
      work = files_.next();
    }
    // Other connections may still finish files; whoever stores a file's last chunk also compares it.
    if (!work) return {};
    auto done = work->chunk ? send_chunk(channel, reader, *work) : compare_whole(channel, work->file);
    if (!done) return done;
  }
}

Result<void> Copy::send_chunk(Channel& channel, PieceReader& reader, const CopyFiles::Work& work) {
  // Paths and shapes do not change while chunks are sent.
  const CopyFile& file = files_.files()[work.file];
  const auto piece = reader.read({file.path, file.shape.offset(*work.chunk), file.shape.bytes(*work.chunk)});
  if (!piece) return piece.error();
  Message message = message_about(MessageKind::chunk, file);
  message.index = *work.chunk;
  // A receiver that hears nothing gives the connection up; one that is gone is told by the chunk.
  rate_.take(piece->size(), [&channel] { (void)channel.send({MessageKind::working}); });
  const auto stored = channel.ask_for(MessageKind::stored, message, *piece);
  if (!stored) return stored.error();
  const std::lock_guard lock(mutex_);
  outcome_.bytes_sent += piece->size();
  last_gain_ = Clock::now();
  pause_ = round_pause_min;
  files_.note_stored(work);
  return {};
}

Result<void> Copy::compare_whole(Channel& channel, std::size_t index) {
  CopyFile& file = files_.files()[index];
  if (file.sha256.empty()) {
    auto own = hashes_.read(file.path, channel);
    if (!own) return own.error();
    file.sha256 = std::move(*own);
  }
  const auto finished = channel.ask_for(MessageKind::finished, message_about(MessageKind::finish, file));
  if (!finished && finished.error().code == ErrorCode::mismatch) return judge_mismatch(channel, file, finished.error());
  if (!finished) return finished.error();
  const std::lock_guard lock(mutex_);
  last_gain_ = Clock::now();
  files_.note_finished(index);
  return {};
}

// The receiver has thrown the file away. If it is here what was said of it, its bytes were spoilt on the way or there,
// and another round sends them again.
Error Copy::judge_mismatch(Channel& channel, CopyFile& file, const Error& told) {
  auto own = hashes_.read(file.path, channel);
  if (!own) return own.error();
  if (*own != file.sha256 && !hashes_.listed(file.path).empty()) {
    return {ErrorCode::mismatch, (options_.folder / file.path).string(), fmt::format("sha256 {:.16}...", *own),
            fmt::format("{:.16}..., as the manifest here says", file.sha256)};
  }
  file.sha256 = std::move(*own);  // another one if it was written to meanwhile
  if (++file.mismatches >= sendings_max) return told;
  return {ErrorCode::corrupt, told.where, told.found, told.expected};
}

Result<void> Copy::send_manifest() {
  gpu::Manifest manifest = hashes_.manifest().value_or(gpu::Manifest{});
  if (!hashes_.manifest()) {
    for (const CopyFile& file : files_.files()) manifest.files.push_back({file.path, file.bytes, file.sha256});
    if (auto written = gpu::write_manifest(options_.folder, manifest); !written)
      announce(fmt::format("no manifest is left here: {}", written.error().message()));
  }
  outcome_.manifest_hash = gpu::manifest_hash(manifest);
  // The connections of the copy may have idled for too long while a large file was compared.
  auto channel = connect();
  if (!channel) return channel.error();
  const std::string text = gpu::to_json(manifest);
  auto taken = (*channel)->ask_for(MessageKind::done, {MessageKind::manifest}, std::as_bytes(std::span(text)));
  if (!taken) return taken.error();
  auto ended = (*channel)->ask_for(MessageKind::done, {MessageKind::end});
  if (!ended) return ended.error();
  return {};
}

void Copy::report_locked() {
  if (!options_.progress) return;
  CopyProgress now;
  now.files_total = files_.files().size();
  for (const CopyFile& file : files_.files()) {
    now.files_done += file.state == CopyState::done ? 1 : 0;
    if (file.was_same) continue;
    now.bytes_total += file.bytes;
    now.bytes_done += file.state == CopyState::done ? file.bytes : file.bytes_there;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  now.bytes_per_s = static_cast<double>(outcome_.bytes_sent) / std::max(seconds, 1e-3);
  const auto left = static_cast<double>(now.bytes_total - now.bytes_done);
  now.eta_s = outcome_.bytes_sent > 0 ? left / now.bytes_per_s : 0;
  is_cancelled_ = is_cancelled_ || !options_.progress(now);
}

}  // namespace

Result<CopyOutcome> copy_model(const CopyOptions& wanted) {
  const CopyOptions options = paced(wanted);
  std::optional<gpu::Manifest> manifest;
  if (auto read = gpu::read_manifest(options.folder)) {
    manifest = std::move(*read);
  } else if (read.error().code != ErrorCode::not_found) {
    return read.error();
  }
  OwnHashes hashes(options.folder, options.state_folder, std::move(manifest));
  auto list = list_copy(options.folder, hashes, options.chunk_bytes);
  if (!list) return list.error();
  return Copy(options, CopyFiles(std::move(*list)), hashes).run();
}

}  // namespace tandem::net::sync
