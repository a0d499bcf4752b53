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
  PieceAttempt(Session& session, Client& client, std::function<void(std::uint64_t)> received)
      : session_(session), client_(client), received_(std::move(received)), block_(block_bytes) {}

  // Tries to receive bytes piece.at to piece.end, and moves piece.at with every byte that is in the part file. `take`:
  // the answer's bytes are all there, though maybe fewer than the piece needs. Where the piece became worthless
  // meanwhile the verdict means nothing.
  Awaitable<Verdict> run(FileTask& file, Piece& piece);

 private:
  static constexpr std::size_t block_bytes = std::size_t{256} << 10;

  Awaitable<Result<void>> note_version(FileTask& file, std::string version);
  Awaitable<Verdict> receive(FileTask& file, Piece& piece, Reply reply, std::uint64_t bytes);
  Awaitable<bool> has_more(Reply& reply);

  Session& session_;
  Client& client_;
  std::function<void(std::uint64_t)> received_;
  std::vector<std::byte> block_;
};

}  // namespace tandem::net::fetch
