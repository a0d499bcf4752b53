// Making and judging hellos and frame headers.
#include "gpu/comm/wire.hpp"

#include <fmt/format.h>

#include <bit>

#include "engram/sha256.hpp"

namespace tandem::gpu::comm {

static_assert(std::endian::native == std::endian::little, "the wire structures are sent as they lie in memory");

Hello make_hello(int rank, int size, const std::string& token) {
  Hello hello;
  hello.rank = static_cast<std::uint32_t>(rank);
  hello.size = static_cast<std::uint32_t>(size);
  engram::Sha256 hash;
  hash.update(std::as_bytes(std::span(token)));
  hello.token_sha256 = hash.finish();
  return hello;
}

Answer judge(const Hello& peer, const Hello& own) noexcept {
  if (peer.magic != own.magic || peer.version != own.version) return Answer::wrong_protocol;
  if (peer.token_sha256 != own.token_sha256) return Answer::wrong_token;
  if (peer.size != own.size) return Answer::wrong_size;
  if (peer.rank == 0 || peer.rank >= own.size) return Answer::wrong_rank;
  return Answer::welcome;
}

Error refusal(Answer answer, const std::string& where) {
  switch (answer) {
    case Answer::wrong_token:
      return {ErrorCode::mismatch, where, "rank 0 belongs to another run", "the same token on all ranks"};
    case Answer::wrong_size:
      return {ErrorCode::mismatch, where, "rank 0 expects another number of ranks", "the same size on all ranks"};
    case Answer::wrong_rank:
      return {ErrorCode::mismatch, where, "rank 0 has this rank already", "a rank of its own for every process"};
    case Answer::welcome:
    case Answer::wrong_protocol:
      break;
  }
  return {ErrorCode::mismatch, where, "another protocol",
          fmt::format("Tandem communicator version {}", protocol_version)};
}

Result<void> check_block(const FrameHeader& header, std::uint64_t sequence, std::size_t bytes, int peer) {
  const std::string where = fmt::format("rank {}", peer);
  if (header.magic != FrameHeader{}.magic || header.kind != FrameKind::block) {
    return Error{ErrorCode::bad_format, where, "bytes that are no frame", "a block"};
  }
  if (header.sequence != sequence) {
    return Error{ErrorCode::mismatch, where, fmt::format("exchange number {}", header.sequence),
                 fmt::format("{}", sequence)};
  }
  if (header.bytes != bytes) {
    return Error{ErrorCode::mismatch, where, fmt::format("a block of {} bytes", header.bytes),
                 fmt::format("{} bytes", bytes)};
  }
  return {};
}

}  // namespace tandem::gpu::comm
