// Handshake: both ends of a connection prove that they have the shared token, and neither shows it.
//
//   client -> server   Hello: magic, version, nonce C
//   server -> client   Hello: magic, version, nonce S
//   client -> server   HMAC-SHA256(token, "client" C S)
//   server -> client   Verdict, HMAC-SHA256(token, "server" C S)
//
// The roles are in what is hashed, so that a proof cannot be sent back to its maker; the nonces are random, so that one
// connection's proofs are worth nothing on the next. From the same three come the keys under which every later frame
// carries a code of its own: somebody who can write into the connection cannot add, repeat or change a frame.
// What travels is not encrypted, and a verdict of "wrong token" is proved by nothing: who hears it may ask again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "engram/error.hpp"
#include "net/sync/limits.hpp"

namespace tandem::net::sync {

using Nonce = std::array<std::byte, 32>;
using Code = std::array<std::byte, 32>;  // an HMAC-SHA256

struct Hello {
  std::array<char, 8> magic{'T', 'N', 'D', 'M', 'S', 'Y', 'N', 'C'};
  std::uint32_t version = protocol_version;
  std::uint32_t reserved = 0;
  Nonce nonce{};
};
static_assert(sizeof(Hello) == 48);

enum class Verdict : std::uint32_t { welcome = 1, wrong_token = 2 };

// Reads the secret that both nodes share. Errors: not_found, bad_config (others may read the file, or it has no line of
// at least 16 characters), io.
Result<std::string> load_token(const std::filesystem::path& file);

// Returns 32 bytes from the system's random generator. Errors: internal.
Result<Nonce> random_nonce();

// Checks what the other end says first. Errors: bad_format (not Tandem), mismatch (another version).
Result<void> check_hello(const Hello& peer, const std::string& where);

// Everything that one connection's secrets are made from.
struct Transcript {
  std::string token;
  Nonce client{}, server{};

  Code client_proof() const { return code_of("client proof"); }
  Code server_proof() const { return code_of("server proof"); }
  Code key_to_server() const { return code_of("key to server"); }
  Code key_to_client() const { return code_of("key to client"); }

 private:
  Code code_of(std::string_view label) const;
};

// HMAC-SHA256 over pieces laid end to end.
Code authenticate(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> pieces);

// Compares in a time that does not depend on where they differ.
bool same_code(const Code& a, const Code& b) noexcept;

}  // namespace tandem::net::sync
