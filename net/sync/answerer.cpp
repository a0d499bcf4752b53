// One member function a question.
#include "net/sync/answerer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "engram/input_file.hpp"
#include "engram/sha256.hpp"
#include "gpu/weights_files/file_hash.hpp"
#include "gpu/weights_files/manifest.hpp"
#include "net/sync/mount.hpp"
#include "net/sync/nonce_file.hpp"

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds receipts_saved_every{1};

// The whole file's size says what no part of it can: that nothing follows.
Result<Message> digest_of_range(const fs::path& file, std::uint64_t offset, std::uint64_t bytes) {
  const auto source = engram::open_buffered(file);
  if (!source) return source.error();
  std::vector<std::byte> data(bytes);
  if (auto read = engram::read_exactly(**source, offset, data); !read) return read.error();
  Message answer{MessageKind::digest_is};
  answer.sha256 = engram::sha256_hex(data);
  answer.bytes = (*source)->size();
  return answer;
}

// What a message says of the file that it is about.
IncomingIdentity identity_of(const Message& message) {
  return {message.path, {message.bytes, message.chunk_bytes}, message.modified_ns, message.sha256};
}

bool takes(MessageKind kind) {
  switch (kind) {
    case MessageKind::offer:
    case MessageKind::reserve:
    case MessageKind::chunk:
    case MessageKind::finish:
    case MessageKind::manifest:
    case MessageKind::end:
      return true;
    default:
      return false;
  }
}

Message have(std::string state, std::string sha256) {
  Message answer{MessageKind::have};
  answer.state = std::move(state);
  answer.sha256 = std::move(sha256);
  return answer;
}

Error offer_again(const std::string& path) {
  return {ErrorCode::unavailable, path, "a file that is not being received", "to be offered again"};
}

// All of it has to fit, with a hundredth more for what the file system needs for itself.
Result<void> check_room(const fs::path& folder, std::uint64_t bytes) {
  std::error_code failed;
  const auto space = fs::space(folder, failed);
  if (failed) return Error{ErrorCode::io, folder.string(), "free space: " + failed.message(), ""};
  const std::uint64_t wanted = bytes + bytes / 100;
  if (space.available >= wanted) return {};
  const auto mib = [](std::uint64_t count) { return static_cast<double>(count) / (1 << 20); };
  return Error{ErrorCode::resource, folder.string(), fmt::format("{:.1f} MiB free", mib(space.available)),
               fmt::format("{:.1f} MiB for what is missing of the model", mib(wanted))};
}

}  // namespace

Answerer::Answerer(AnswererOptions options)
    : options_(std::move(options)), receipts_(gpu::ReceiptBook::open(options_.folder, options_.state_folder)) {
  if (options_.takes_files) lock_.emplace(options_.folder);
}

Message Answerer::answer(const Question& question) {
  auto answered = answer_or_error(question);
  return answered ? std::move(*answered) : refusal(answered.error());
}

Result<Message> Answerer::answer_or_error(const Question& question) {
  const MessageKind kind = question.message.kind;
  if (takes(kind) && !options_.takes_files) {
    return Error{ErrorCode::invalid_argument, options_.folder.string(), "this node takes no files",
                 "tandem sync --receive there"};
  }
  switch (kind) {
    case MessageKind::revision:
      return tell_revision();
    case MessageKind::mount:
      return tell_mount();
    case MessageKind::digest:
      return tell_digest(question.message);
    case MessageKind::nonce:
      return tell_nonce(question.message);
    case MessageKind::offer:
      return take_offer(question);
    case MessageKind::reserve:
      return take_reserve(question);
    case MessageKind::chunk:
      return take_chunk(question);
    case MessageKind::finish:
      return take_finish(question);
    case MessageKind::manifest:
      return take_manifest(question);
    case MessageKind::end:
      return end_session();
    default:
      return Error{ErrorCode::invalid_argument, "message", std::string(to_string(kind)), "a question"};
  }
}

Result<Message> Answerer::tell_revision() const {
  Message answer{MessageKind::revision_is};
  const auto manifest = gpu::read_manifest(options_.folder);
  if (!manifest && manifest.error().code != ErrorCode::not_found) return manifest.error();
  if (!manifest) return answer;
  answer.sha256 = gpu::manifest_hash(*manifest);
  answer.text = manifest->revision;
  return answer;
}

Result<Message> Answerer::tell_mount() const {
  const auto mount = find_mount(options_.mounts, options_.folder);
  if (!mount) return mount.error();
  Message answer{MessageKind::mount_is};
  answer.text = mount->text();
  answer.address = own_address_towards(mount->server());
  return answer;
}

Result<Message> Answerer::tell_digest(const Message& asked) const {
  if (asked.bytes > digest_bytes_max) {
    return Error{ErrorCode::out_of_range, asked.path, fmt::format("{} bytes", asked.bytes),
                 fmt::format("at most {}", digest_bytes_max)};
  }
  return digest_of_range(options_.folder / asked.path, asked.offset, asked.bytes);
}

Result<Message> Answerer::tell_nonce(const Message& asked) const {
  if (!is_nonce_file_name(asked.text))
    return Error{ErrorCode::bad_format, "message nonce", "another name", "a nonce file's name"};
  return digest_of_range(options_.folder / asked.text, 0, nonce_file_bytes);
}

// Says "working" often enough while a file is hashed or waited for.
std::function<bool(std::uint64_t)> Answerer::heartbeat(const Question& question) const {
  return [&question, every = options_.says_working_every, last = Clock::now()](std::uint64_t) mutable {
    if (!question.is_waited_for || Clock::now() - last < every) return true;
    last = Clock::now();
    return question.is_waited_for();
  };
}

// The hash of the file that has the name already, if it has the offered size: from its receipt, or by reading it.
Result<std::optional<std::string>> Answerer::hash_of_existing(const Question& question) {
  const Message& offer = question.message;
  const fs::path file = options_.folder / offer.path;
  const auto state = gpu::file_state(file);
  if (!state || state->bytes != offer.bytes) return std::optional<std::string>{};
  {
    const std::lock_guard lock(receipts_mutex_);
    if (auto known = receipts_.hash_of(offer.path, *state)) return known;
  }
  const auto receipt = gpu::hash_file(file, heartbeat(question));
  if (!receipt) return receipt.error();
  note_receipt(offer.path, *receipt);
  return std::optional(receipt->sha256);
}

// Receipts that are lost cost time, never a file: a folder of thousands of small files writes them once a second.
void Answerer::note_receipt(const std::string& path, const gpu::FileReceipt& receipt) {
  const std::lock_guard lock(receipts_mutex_);
  receipts_.note(path, receipt);
  if (Clock::now() - receipts_saved_at_ < receipts_saved_every) return;
  (void)receipts_.save();
  receipts_saved_at_ = Clock::now();
}

void Answerer::save_receipts() {
  const std::lock_guard lock(receipts_mutex_);
  (void)receipts_.save();
}

// A sender may be late: another one finished its file meanwhile, and a third offers another file of the same name. Its
// chunks would spoil that one.
Answerer::Incoming Answerer::find_incoming(const Message& message) const {
  Incoming file = find_incoming(message.path);
  return file && file->identity().is_same_file(identity_of(message)) ? file : nullptr;
}

Answerer::Incoming Answerer::find_incoming(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto at = incoming_.find(path);
  return at == incoming_.end() ? nullptr : at->second;
}

std::vector<Answerer::Incoming> Answerer::all_incoming() const {
  const std::lock_guard lock(mutex_);
  std::vector<Incoming> all;
  for (const auto& [path, file] : incoming_) all.push_back(file);
  return all;
}

// False if it was forgotten before, or another one has its path by now.
bool Answerer::forget(const Incoming& file) {
  const std::lock_guard lock(mutex_);
  const auto at = incoming_.find(file->identity().path);
  if (at == incoming_.end() || at->second != file) return false;
  incoming_.erase(at);
  return true;
}

// Two senders of one file share what arrives; of two files under one name the second waits until the first is whole.
Result<Answerer::Incoming> Answerer::incoming_for(const IncomingIdentity& identity) {
  Incoming file = find_incoming(identity.path);
  if (file && file->is_gone()) {
    forget(file);
    file = nullptr;
  }
  if (!file) {
    auto found = IncomingFile::find(options_.folder, identity);
    if (!found) return found.error();
    const std::lock_guard lock(mutex_);
    file = incoming_.try_emplace(identity.path, std::move(*found)).first->second;
  }
  if (file->identity().is_same_file(identity)) return file;
  return Error{ErrorCode::unavailable, identity.path, "another sender offers another file of this name", "one sender"};
}

Result<Message> Answerer::take_offer(const Question& question) {
  const Message& offer = question.message;
  const IncomingIdentity identity = identity_of(offer);
  if (auto ok = check_chunk_shape(identity.shape); !ok) return ok.error();
  if (!offer.forced) {
    const auto existing = hash_of_existing(question);
    if (!existing) return existing.error();
    if (*existing && offer.sha256.empty()) return have("exists", **existing);
    if (*existing && **existing == offer.sha256) {
      if (!find_incoming(offer.path)) IncomingFile::remove_part(options_.folder, offer.path);
      return have("same", **existing);
    }
  }
  const auto file = incoming_for(identity);
  if (!file) return file.error();
  const ChunkSet chunks = (*file)->chunks();
  Message answer = have(chunks.count() > 0 ? "part" : "new", "");
  answer.done = chunks.to_text();
  answer.chunk_bytes = chunks.shape().chunk_bytes;
  return answer;
}

// Room for everything that is being received, other senders' files included; what unfinished files took of the disk is
// theirs already. Only when there is room for all of them does the first one take its own.
Result<Message> Answerer::take_reserve(const Question& question) {
  const auto files = all_incoming();
  std::uint64_t offered = 0, wanted = 0;
  for (const auto& file : files) {
    offered += file->identity().shape.file_bytes - file->chunks().bytes();
    wanted += file->bytes_to_allocate();
  }
  wanted += question.message.bytes - std::min(question.message.bytes, offered);
  if (auto enough = check_room(options_.folder, wanted); !enough) return enough.error();
  const auto is_waited_for = heartbeat(question);
  for (const auto& file : files) {
    if (auto allocated = file->allocate(); !allocated) return allocated.error();
    if (!is_waited_for(0)) return Error{ErrorCode::cancelled, options_.folder.string(), "stopped making room", ""};
  }
  return Message{MessageKind::done};
}

Result<Message> Answerer::take_chunk(const Question& question) {
  const Message& message = question.message;
  const auto file = find_incoming(message);
  // Chunks of another size are those of a file that another sender has begun anew.
  if (!file || file->identity().shape.chunk_bytes != message.chunk_bytes) return offer_again(message.path);
  IncomingFile::Chunk chunk{message.index, question.data, 0};
  std::memcpy(&chunk.checksum, question.data_sha256.data(), sizeof chunk.checksum);
  if (auto written = file->write(chunk); !written) return written.error();
  Message answer{MessageKind::stored};
  answer.index = chunk.index;
  const std::lock_guard lock(mutex_);
  ++counts_.chunks;
  counts_.chunk_bytes += question.data.size();
  return answer;
}

Result<Message> Answerer::take_finish(const Question& question) {
  const std::string& path = question.message.path;
  if (question.message.sha256.empty()) return Error{ErrorCode::invalid_argument, path, "no hash", "a SHA-256"};
  const auto file = find_incoming(question.message);
  if (!file) return offer_again(path);
  const auto receipt = file->finish(question.message.sha256, heartbeat(question));
  // What was cancelled or could not be read may be finished later.
  const bool is_over = file->is_gone() && forget(file);
  if (!receipt) return receipt.error();
  if (is_over) {
    note_receipt(path, *receipt);
    const std::lock_guard lock(mutex_);
    ++counts_.files;
  }
  return Message{MessageKind::finished};
}

Result<Message> Answerer::take_manifest(const Question& question) {
  const std::string_view text(reinterpret_cast<const char*>(question.data.data()), question.data.size());
  const auto manifest = gpu::parse_manifest(text, "the manifest that was sent");
  if (!manifest) return manifest.error();
  if (auto written = gpu::write_manifest(options_.folder, *manifest); !written) return written.error();
  return Message{MessageKind::done};
}

Message Answerer::end_session() {
  save_receipts();
  // The model is whole: what is unfinished and nobody sends is of other versions, and would fill the disk for ever.
  if (all_incoming().empty()) IncomingFile::remove_parts(options_.folder);
  return Message{MessageKind::done};
}

void Answerer::connection_opened() {
  const std::lock_guard lock(mutex_);
  ++connections_;
}

// First what arrived is written down, then the last one lets go: a connection that opens meanwhile finds either all
// files or none. A flush that fails shows again when the file is finished; what is not written down is sent once more.
void Answerer::connection_closed() {
  {
    const std::lock_guard lock(mutex_);
    --connections_;
  }
  for (const auto& file : all_incoming()) (void)file->flush();
  save_receipts();
  const std::lock_guard lock(mutex_);
  if (connections_ == 0) incoming_.clear();
}

AnswererCounts Answerer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace tandem::net::sync
