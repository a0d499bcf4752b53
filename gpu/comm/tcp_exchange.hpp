// One all_gather over TCP: the bookkeeping of what each link still has to send and to receive. No waiting happens here.
//
// The group is a star around rank 0, which passes every block on as soon as it has it; with two ranks that is one
// message each way at the same time.
#pragma once

#include <deque>
#include <vector>

#include "gpu/comm/socket.hpp"
#include "gpu/comm/wire.hpp"

namespace tandem::gpu::comm {

class Exchange {
 public:
  // `all`: the result, the own block already in place. `links` by rank, closed where there is none.
  Exchange(std::vector<Socket>& links, int rank, std::uint64_t sequence, std::span<std::byte> all);

  // Sends and receives what is possible now on every link; true if any byte moved. Errors: unavailable, io, mismatch,
  // bad_format naming the rank; what a dying peer reported, if it did.
  Result<bool> advance();

  bool is_done() const noexcept;
  // Returns poll entries for the links that wait for something.
  std::vector<pollfd> wanted() const;
  // Returns "rank 1 2": those whose blocks have not come or who have not taken ours.
  std::string missing() const;
  // True if nothing of a frame is half sent to `peer`: another frame may follow.
  bool is_between_frames(int peer) const noexcept;

 private:
  struct Outgoing {
    FrameHeader header;
    std::span<const std::byte> payload;
  };
  struct Lane {  // one direction pair with one peer
    std::deque<Outgoing> out;
    std::size_t sent = 0;        // bytes of out.front() that are gone, header included
    std::size_t blocks_due = 0;  // blocks still to come
    FrameHeader header;          // of the block that is coming
    std::size_t header_got = 0;
    std::size_t payload_got = 0;
    std::string failure_text;  // of a failure frame that is coming
    bool is_waiting() const noexcept { return !out.empty() || blocks_due > 0; }
  };

  bool is_complete() const noexcept;  // all blocks are here
  bool is_listened_to(const Lane& lane) const noexcept;
  Result<bool> send(int peer);
  Result<bool> receive(int peer);
  Result<void> begin_block(int peer);
  void finish_block(int peer);
  void enqueue(int peer, int source);
  std::span<std::byte> incoming(Lane& lane) const;

  std::vector<Socket>& links_;
  const int rank_;
  const std::uint64_t sequence_;
  const std::span<std::byte> all_;
  const std::size_t block_bytes_;
  std::vector<Lane> lanes_;      // [peer]
  std::vector<bool> has_block_;  // [source]
};

}  // namespace tandem::gpu::comm
