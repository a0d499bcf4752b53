// The bytes that TCP communicators exchange: one hello a connection, one answer, then frames. Little-endian, fixed
// sizes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engram/error.hpp"

namespace tandem::gpu::comm {

inline constexpr std::uint32_t protocol_version = 1;

// What a rank says first to rank 0. The token itself does not travel, only its SHA-256.
struct Hello {
  std::array<char, 8> magic{'T', 'N', 'D', 'M', 'C', 'O', 'M', 'M'};
  std::uint32_t version = protocol_version;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t reserved = 0;
  std::array<std::byte, 32> token_sha256{};
};
static_assert(sizeof(Hello) == 56);

// Rank 0's verdict; `welcome` is sent only when the whole group is there.
enum class Answer : std::uint32_t { welcome = 0, wrong_protocol, wrong_token, wrong_size, wrong_rank };

enum class FrameKind : std::uint32_t {
  block = 1,   // `bytes` bytes of rank `source` in exchange number `sequence`
  failure = 2  // the sender is dead: `code`, and `bytes` bytes of text: where, newline, what was found
};

// Precedes every block.
struct FrameHeader {
  std::uint32_t magic = 0x4D4F4354;  // "TCOM"
  FrameKind kind = FrameKind::block;
  std::uint32_t source = 0;
  std::uint32_t code = 0;  // an ErrorCode, for failures
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(FrameHeader) == 32);

inline constexpr std::size_t failure_text_max = 1024;

// Returns the hello of a rank.
Hello make_hello(int rank, int size, const std::string& token);

// Checks a peer's hello against the own one. Returns what to answer; a rank that is taken is the caller's to find.
Answer judge(const Hello& peer, const Hello& own) noexcept;

// Returns the refusal as the error that the refused rank reports (mismatch). `where` names rank 0's address.
Error refusal(Answer answer, const std::string& where);

// Checks a block's header against what is due. Errors: bad_format, mismatch naming the peer.
Result<void> check_block(const FrameHeader& header, std::uint64_t sequence, std::size_t bytes, int peer);

template <class T>
std::span<const std::byte> bytes_of(const T& value) noexcept {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable_bytes_of(T& value) noexcept {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace tandem::gpu::comm
