// Answerer: what a node answers to another one about one model folder. It knows messages and files, no sockets.
//
// Two kinds of nodes answer: one that only says what it has (`tandem sync --serve`), and one that takes files in as
// well (`--receive`). One answerer serves all connections; its calls may come from several threads. However long one of
// them hashes, flushes or makes room, the others are answered: no file is touched under the answerer's own lock.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpu/weights_files/receipts.hpp"
#include "net/sync/incoming_file.hpp"
#include "net/sync/leftovers.hpp"
#include "net/sync/message.hpp"

namespace tandem::net::sync {

struct AnswererOptions {
  std::filesystem::path folder;        // the model's
  std::filesystem::path state_folder;  // second place of receipts; may be empty
  std::filesystem::path mounts = "/proc/self/mounts";
  bool takes_files = false;
  std::chrono::milliseconds says_working_every = working_every;
};

struct AnswererCounts {
  std::uint64_t chunks = 0, chunk_bytes = 0;  // received
  std::uint64_t files = 0;                    // finished
};

class Answerer {
 public:
  explicit Answerer(AnswererOptions options);

  struct Question {
    const Message& message;
    std::span<const std::byte> data;
    std::array<std::byte, 32> data_sha256{};
    // Called now and then while an answer takes long; false ends the work.
    std::function<bool()> is_waited_for;
  };
  // Returns the answer; an error is a refusal.
  Message answer(const Question& question);
  // A connection begins to ask, or has ended. What arrived is then written down, and after the last one let go of.
  void connection_opened();
  void connection_closed();
  AnswererCounts counts() const;

 private:
  Result<Message> answer_or_error(const Question& question);
  Result<Message> tell_revision() const;
  Result<Message> tell_mount() const;
  Result<Message> tell_digest(const Message& asked) const;
  Result<Message> tell_nonce(const Message& asked) const;
  Result<Message> take_offer(const Question& question);
  Result<Message> take_reserve(const Question& question);
  Result<Message> take_chunk(const Question& question);
  Result<Message> take_finish(const Question& question);
  Result<Message> take_manifest(const Question& question);
  Message end_session();
  Result<std::optional<std::string>> hash_of_existing(const Question& question);
  using Incoming = std::shared_ptr<IncomingFile>;
  Result<Incoming> incoming_for(const IncomingIdentity& identity);
  Incoming find_incoming(const std::string& path) const;
  Incoming find_incoming(const Message& message) const;
  std::vector<Incoming> all_incoming() const;
  bool forget(const Incoming& file);
  void note_receipt(const std::string& path, const gpu::FileReceipt& receipt);
  void save_receipts();
  std::function<bool(std::uint64_t)> heartbeat(const Question& question) const;

  const AnswererOptions options_;
  std::optional<ReceiverLock> lock_;  // where files are taken
  std::mutex receipts_mutex_;         // guards the book, also while it is written
  gpu::ReceiptBook receipts_;
  std::chrono::steady_clock::time_point receipts_saved_at_{};
  mutable std::mutex mutex_;  // guards everything below
  int connections_ = 0;
  std::map<std::string, Incoming> incoming_;
  AnswererCounts counts_;
};

}  // namespace tandem::net::sync
