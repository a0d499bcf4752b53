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
#include "engram/pack/packer.hpp"
#include "engram/sha256.hpp"
#include "gpu/weights_files/file_hash.hpp"
#include "gpu/weights_files/manifest.hpp"
#include "net/sync/mount.hpp"
#include "net/sync/nonce_file.hpp"

namespace tandem::net::sync {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

Result<std::string> digest_of_range(const fs::path& file, std::uint64_t offset, std::uint64_t bytes) {
  const auto source = engram::open_buffered(file);
  if (!source) return source.error();
  std::vector<std::byte> data(bytes);
  if (auto read = engram::read_exactly(**source, offset, data); !read) return read.error();
  return engram::sha256_hex(data);
}

// Says "working" often enough while a file is hashed.
std::function<bool(std::uint64_t)> heartbeat(const std::function<bool()>& is_waited_for) {
  return [&is_waited_for, last = Clock::now()](std::uint64_t) mutable {
    if (!is_waited_for || Clock::now() - last < working_every) return true;
    last = Clock::now();
    return is_waited_for();
  };
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

Message have(std::string state, std::string sha256 = {}, std::string done = {}) {
  Message answer{MessageKind::have};
  answer.state = std::move(state);
  answer.sha256 = std::move(sha256);
  answer.done = std::move(done);
  return answer;
}

}  // namespace

Answerer::Answerer(AnswererOptions options)
    : options_(std::move(options)), receipts_(gpu::ReceiptBook::open(options_.folder, options_.state_folder)) {}

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
      return take_reserve(question.message);
    case MessageKind::chunk:
      return take_chunk(question);
    case MessageKind::finish:
      return take_finish(question);
    case MessageKind::manifest:
      return take_manifest(question);
    case MessageKind::end: {
      std::error_code in_use;
      fs::remove(options_.folder / parts_folder_name, in_use);  // stays where something unfinished is in it
      return Message{MessageKind::done};
    }
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
  auto digest = digest_of_range(options_.folder / asked.path, asked.offset, asked.bytes);
  if (!digest) return digest.error();
  Message answer{MessageKind::digest_is};
  answer.sha256 = std::move(*digest);
  return answer;
}

Result<Message> Answerer::tell_nonce(const Message& asked) const {
  if (!is_nonce_file_name(asked.text))
    return Error{ErrorCode::bad_format, "message nonce", "another name", "a nonce file's name"};
  auto digest = digest_of_range(options_.folder / asked.text, 0, nonce_file_bytes);
  if (!digest) return digest.error();
  Message answer{MessageKind::digest_is};
  answer.sha256 = std::move(*digest);
  return answer;
}

// The hash of the file that has the name already, if it has the offered size: from its receipt, or by reading it.
Result<std::optional<std::string>> Answerer::hash_of_existing(const Question& question) {
  const Message& offer = question.message;
  const fs::path file = options_.folder / offer.path;
  const auto state = gpu::file_state(file);
  if (!state || state->bytes != offer.bytes) return std::optional<std::string>{};
  {
    const std::lock_guard lock(mutex_);
    if (auto known = receipts_.hash_of(offer.path, *state)) return known;
  }
  const auto receipt = gpu::hash_file(file, heartbeat(question.is_waited_for));
  if (!receipt) return receipt.error();
  const std::lock_guard lock(mutex_);
  receipts_.note(offer.path, *receipt);
  // A receipt that cannot be written costs the next run the same time, nothing else.
  if (auto saved = receipts_.save(); !saved) return std::optional(receipt->sha256);
  return std::optional(receipt->sha256);
}

Result<Message> Answerer::take_offer(const Question& question) {
  const Message& offer = question.message;
  IncomingIdentity identity{offer.path, {offer.bytes, offer.chunk_bytes}, offer.modified_ns};
  if (auto ok = check_chunk_shape(identity.shape); !ok) return ok.error();
  if (!offer.forced) {
    const auto existing = hash_of_existing(question);
    if (!existing) return existing.error();
    if (*existing && **existing == offer.sha256) return have("same", **existing);
    if (*existing && offer.sha256.empty()) return have("exists", **existing);
  }
  const std::lock_guard lock(mutex_);
  auto& file = incoming_[offer.path];
  if (file && !(file->identity() == identity)) {
    return Error{ErrorCode::unavailable, offer.path, "another sender offers another file of this name", "one sender"};
  }
  if (!file) {
    auto opened = IncomingFile::open(options_.folder, identity);
    if (!opened) {
      incoming_.erase(offer.path);
      return opened.error();
    }
    file = std::move(*opened);
  }
  const ChunkSet chunks = file->chunks();
  return have(chunks.count() > 0 ? "part" : "new", "", chunks.to_text());
}

// What unfinished files took of the disk in an earlier run is theirs already. Only when there is room for all of them
// does the first one take its own.
Result<Message> Answerer::take_reserve(const Message& asked) {
  const std::lock_guard lock(mutex_);
  std::uint64_t missing = asked.bytes;
  for (const auto& [path, file] : incoming_) {
    const auto reserved = file->reserved_bytes();
    if (!reserved) return reserved.error();
    missing -= std::min(missing, *reserved);
  }
  if (auto enough = engram::check_free_space(options_.folder, missing); !enough) return enough.error();
  for (const auto& [path, file] : incoming_) {
    if (auto allocated = file->allocate(); !allocated) return allocated.error();
  }
  return Message{MessageKind::done};
}

Result<std::shared_ptr<IncomingFile>> Answerer::find_incoming(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto at = incoming_.find(path);
  if (at != incoming_.end()) return at->second;
  return Error{ErrorCode::invalid_argument, path, "a file that was not offered", "an offer first"};
}

Result<Message> Answerer::take_chunk(const Question& question) {
  const auto file = find_incoming(question.message.path);
  if (!file) return file.error();
  IncomingFile::Chunk chunk{question.message.index, question.data, 0};
  std::memcpy(&chunk.checksum, question.data_sha256.data(), sizeof chunk.checksum);
  if (auto written = (*file)->write(chunk); !written) return written.error();
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
  const auto file = find_incoming(path);
  if (!file) return file.error();
  const auto receipt = (*file)->finish(question.message.sha256, heartbeat(question.is_waited_for));
  const std::lock_guard lock(mutex_);
  // What was cancelled or could not be read may be finished later; with a wrong hash nothing is left of it.
  const bool is_over = receipt || receipt.error().code == ErrorCode::mismatch;
  if (is_over) incoming_.erase(path);
  if (!receipt) return receipt.error();
  ++counts_.files;
  receipts_.note(path, *receipt);
  (void)receipts_.save();  // lost receipts cost time, never a file
  return Message{MessageKind::finished};
}

Result<Message> Answerer::take_manifest(const Question& question) {
  const std::string_view text(reinterpret_cast<const char*>(question.data.data()), question.data.size());
  const auto manifest = gpu::parse_manifest(text, "the manifest that was sent");
  if (!manifest) return manifest.error();
  if (auto written = gpu::write_manifest(options_.folder, *manifest); !written) return written.error();
  return Message{MessageKind::done};
}

void Answerer::connection_opened() {
  const std::lock_guard lock(mutex_);
  ++connections_;
}

// Counting and letting go are one step: a connection that opens meanwhile finds either all files or none. A flush that
// fails shows again when the file is finished; what is not written down is sent once more.
void Answerer::connection_closed() {
  const std::lock_guard lock(mutex_);
  --connections_;
  for (const auto& [path, file] : incoming_) (void)file->flush();
  if (connections_ == 0) incoming_.clear();
}

AnswererCounts Answerer::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace tandem::net::sync
