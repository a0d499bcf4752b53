// Frames in, frames out, one state per link.
#include "gpu/comm/tcp_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/comm/block_layout.hpp"

namespace tandem::gpu::comm {
namespace {

Error named(Error error, int peer) {
  error.where = fmt::format("rank {}", peer);
  return error;
}

// What a dying peer said: where, newline, what.
Error reported(const FrameHeader& header, const std::string& text) {
  const bool is_code = header.code <= static_cast<std::uint32_t>(ErrorCode::internal);
  const auto split = std::min(text.find('\n'), text.size());
  return {is_code ? static_cast<ErrorCode>(header.code) : ErrorCode::unavailable, text.substr(0, split),
          text.substr(std::min(split + 1, text.size())), ""};
}

}  // namespace

Exchange::Exchange(std::vector<Socket>& links, int rank, std::uint64_t sequence, std::span<std::byte> all)
    : links_(links),
      rank_(rank),
      sequence_(sequence),
      all_(all),
      block_bytes_(all.size() / links.size()),
      lanes_(links.size()),
      has_block_(links.size()) {
  has_block_[static_cast<std::size_t>(rank)] = true;
  for (std::size_t peer = 0; peer < links.size(); ++peer) {
    if (!links[peer].is_open()) continue;
    lanes_[peer].blocks_due = rank == 0 ? 1 : links.size() - 1;
    enqueue(static_cast<int>(peer), rank);
  }
}

void Exchange::enqueue(int peer, int source) {
  FrameHeader header;
  header.source = static_cast<std::uint32_t>(source);
  header.sequence = sequence_;
  header.bytes = block_bytes_;
  lanes_[static_cast<std::size_t>(peer)].out.push_back({header, block_of(all_, block_bytes_, source)});
}

Result<bool> Exchange::advance() {
  bool moved = false;
  for (std::size_t peer = 0; peer < lanes_.size(); ++peer) {
    if (!links_[peer].is_open()) continue;
    // Receiving first and last: a peer that died after a last word is better quoted than found closed.
    const auto received = receive(static_cast<int>(peer));
    if (!received) return received;
    const auto sent = send(static_cast<int>(peer));
    if (!sent) {
      const auto last_word = receive(static_cast<int>(peer));
      return last_word ? sent : last_word;
    }
    moved = moved || *received || *sent;
  }
  return moved;
}

Result<bool> Exchange::send(int peer) {
  Lane& lane = lanes_[static_cast<std::size_t>(peer)];
  bool moved = false;
  while (!lane.out.empty()) {
    const Outgoing& frame = lane.out.front();
    const bool in_header = lane.sent < sizeof(FrameHeader);
    const auto rest =
        in_header ? bytes_of(frame.header).subspan(lane.sent) : frame.payload.subspan(lane.sent - sizeof(FrameHeader));
    const auto sent = links_[static_cast<std::size_t>(peer)].send_some(rest);
    if (!sent) return named(sent.error(), peer);
    lane.sent += *sent;
    if (lane.sent == sizeof(FrameHeader) + frame.payload.size()) {
      lane.out.pop_front();
      lane.sent = 0;
    } else if (*sent == 0) {
      break;
    }
    moved = true;
  }
  return moved;
}

std::span<std::byte> Exchange::incoming(Lane& lane) const {
  if (lane.header_got < sizeof(FrameHeader)) return writable_bytes_of(lane.header).subspan(lane.header_got);
  if (lane.header.kind == FrameKind::failure)
    return std::as_writable_bytes(std::span(lane.failure_text)).subspan(lane.payload_got);
  return block_of(all_, block_bytes_, static_cast<int>(lane.header.source)).subspan(lane.payload_got);
}

Result<bool> Exchange::receive(int peer) {
  Lane& lane = lanes_[static_cast<std::size_t>(peer)];
  bool moved = false;
  while (is_listened_to(lane)) {
    const auto room = incoming(lane);
    if (!room.empty()) {
      const auto got = links_[static_cast<std::size_t>(peer)].receive_some(room);
      if (!got) return named(got.error(), peer);
      if (*got == 0) break;
      moved = true;
      const bool in_header = lane.header_got < sizeof(FrameHeader);
      (in_header ? lane.header_got : lane.payload_got) += *got;
      if (in_header && lane.header_got == sizeof(FrameHeader)) {
        if (auto begun = begin_block(peer); !begun) return begun.error();
      }
      if (*got < room.size()) continue;
    }
    if (lane.header_got == sizeof(FrameHeader) && incoming(lane).empty()) {
      if (lane.header.kind == FrameKind::failure) return reported(lane.header, lane.failure_text);
      finish_block(peer);
    }
  }
  return moved;
}

Result<void> Exchange::begin_block(int peer) {
  Lane& lane = lanes_[static_cast<std::size_t>(peer)];
  const FrameHeader& header = lane.header;
  if (header.magic == FrameHeader{}.magic && header.kind == FrameKind::failure && header.bytes <= failure_text_max) {
    lane.failure_text.resize(header.bytes);
    return {};
  }
  if (auto checked = check_block(header, sequence_, block_bytes_, peer); !checked) return checked;
  const bool is_known = header.source < has_block_.size() && !has_block_[header.source];
  const bool is_own = rank_ != 0 || header.source == static_cast<std::uint32_t>(peer);
  if (is_known && is_own) return {};
  return Error{ErrorCode::bad_format, fmt::format("rank {}", peer), fmt::format("a block of rank {}", header.source),
               "a missing block"};
}

void Exchange::finish_block(int peer) {
  Lane& lane = lanes_[static_cast<std::size_t>(peer)];
  const int source = static_cast<int>(lane.header.source);
  has_block_[lane.header.source] = true;
  --lane.blocks_due;
  lane.header_got = 0;
  lane.payload_got = 0;
  if (rank_ != 0) return;
  for (int other = 1; other < static_cast<int>(links_.size()); ++other) {
    if (other != source) enqueue(other, source);
  }
}

bool Exchange::is_complete() const noexcept {
  return std::all_of(has_block_.begin(), has_block_.end(), [](bool has) { return has; });
}

// While blocks are missing nobody can be ahead of this exchange: what a peer sends besides its blocks is the news of a
// failure.
bool Exchange::is_listened_to(const Lane& lane) const noexcept {
  return lane.blocks_due > 0 || !is_complete();
}

bool Exchange::is_done() const noexcept {
  return std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.is_waiting(); });
}

std::vector<pollfd> Exchange::wanted() const {
  std::vector<pollfd> entries;
  for (std::size_t peer = 0; peer < lanes_.size(); ++peer) {
    if (!links_[peer].is_open()) continue;
    short events = 0;
    if (is_listened_to(lanes_[peer])) events |= POLLIN;
    if (!lanes_[peer].out.empty()) events |= POLLOUT;
    if (events != 0) entries.push_back({links_[peer].descriptor(), events, 0});
  }
  return entries;
}

std::string Exchange::missing() const {
  std::string text = "rank";
  for (std::size_t source = 0; source < has_block_.size(); ++source) {
    if (!has_block_[source]) text += fmt::format(" {}", source);
  }
  if (text != "rank") return text;
  for (std::size_t peer = 0; peer < lanes_.size(); ++peer) {
    if (!lanes_[peer].out.empty()) text += fmt::format(" {} (not receiving)", peer);
  }
  return text;
}

bool Exchange::is_between_frames(int peer) const noexcept {
  return lanes_[static_cast<std::size_t>(peer)].sent == 0;
}

}  // namespace tandem::gpu::comm
