// OpenSSL does the arithmetic; what is hashed in which order is decided here.
#include "net/sync/handshake.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <vector>

#include "net/http/key_file.hpp"

namespace tandem::net::sync {
namespace {

constexpr std::size_t token_characters_min = 16;

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<std::string> load_token(const std::filesystem::path& file) {
  const auto lines = http::load_keys(file);
  if (!lines) return lines.error();
  if (lines->front().size() >= token_characters_min) return lines->front();
  return Error{ErrorCode::bad_config, file.string(), fmt::format("a token of {} characters", lines->front().size()),
               fmt::format("at least {}", token_characters_min)};
}

Result<Nonce> random_nonce() {
  Nonce nonce{};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) == 1) return nonce;
  return Error{ErrorCode::internal, "random generator", "no random bytes", ""};
}

Result<void> check_hello(const Hello& peer, const std::string& where) {
  if (peer.magic != Hello{}.magic) return Error{ErrorCode::bad_format, where, "no tandem sync", "its hello"};
  if (peer.version == protocol_version) return {};
  return Error{ErrorCode::mismatch, where, fmt::format("protocol version {}", peer.version),
               fmt::format("version {}: the same build on both nodes", protocol_version)};
}

Code Transcript::code_of(std::string_view label) const {
  const auto version = fmt::format("tandem sync {} ", protocol_version);
  return authenticate(bytes_of_text(token), {bytes_of_text(version), bytes_of_text(label), client, server});
}

Code authenticate(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> pieces) {
  std::vector<unsigned char> message;
  for (const auto& piece : pieces) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(piece.data());
    message.insert(message.end(), bytes, bytes + piece.size());
  }
  Code code{};
  unsigned length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), message.data(), message.size(),
       reinterpret_cast<unsigned char*>(code.data()), &length);
  return code;
}

bool same_code(const Code& a, const Code& b) noexcept {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tandem::net::sync
