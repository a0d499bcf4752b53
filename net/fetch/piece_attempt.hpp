// One attempt at a piece of a file: a request, the judgement of its answer, and the bytes into the part file.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "net/fetch/client.hpp"
#include "net/fetch/file_task.hpp"
#include "net/fetch/range_reply.hpp"
#include "net/fetch/session.hpp"

namespace tandem::net::fetch {

class PieceAttempt {
 public:
  // `received` hears of every block that was written.
  PieceAttempt(Session& session, Client& client, const FetchLimits& limits, std::function<void(std::uint64_t)> received)
      : session_(session), client_(client), limits_(limits), received_(std::move(received)), block_(block_bytes) {}

  // Tries to receive bytes piece.at to piece.end, and moves piece.at with every byte that is in the part file. `take`:
  // the answer's bytes are all there, though maybe fewer than the piece needs. Where the piece became worthless
  // meanwhile the verdict means nothing.
  Awaitable<Verdict> run(FileTask& file, Piece& piece);

 private:
  static constexpr std::size_t block_bytes = std::size_t{256} << 10;

  Awaitable<Result<void>> note_version(FileTask& file, std::string version);
  Awaitable<Verdict> receive(FileTask& file, Piece& piece, Reply reply, std::uint64_t bytes);
  Awaitable<bool> has_more(Reply& reply);

  bool trickles(std::uint64_t got);

  Session& session_;
  Client& client_;
  const FetchLimits& limits_;
  std::function<void(std::uint64_t)> received_;
  std::vector<std::byte> block_;
  // The time in which enough bytes must come.
  struct Window {
    std::chrono::steady_clock::time_point begin;
    std::uint64_t bytes = 0;
  };
  Window window_;
};

}  // namespace tandem::net::fetch
