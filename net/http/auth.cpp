// Hash first, then compare every stored hash without an early exit.
#include "net/http/auth.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace tandem::net::http {

KeyRing::KeyRing(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    if (!key.empty()) hashes_.push_back(hash(key));
}

KeyRing::Hash KeyRing::hash(std::string_view key) {
  Hash digest{};
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

bool KeyRing::holds(std::string_view key) const {
  const Hash digest = hash(key);
  unsigned matches = 0;
  for (const Hash& stored : hashes_)
    matches |= CRYPTO_memcmp(stored.data(), digest.data(), digest.size()) == 0 ? 1U : 0U;
  return matches != 0;
}

bool KeyRing::admits(const Request& request) const {
  if (is_open()) return true;
  if (const std::string* authorization = request.find_header("authorization")) {
    const std::string_view key = bearer_key(*authorization);
    if (!key.empty() && holds(key)) return true;
  }
  const std::string* api_key = request.find_header("x-api-key");
  return api_key != nullptr && !api_key->empty() && holds(*api_key);
}

std::string_view bearer_key(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer";
  if (!equal_ignoring_case(authorization.substr(0, scheme.size()), scheme)) return {};
  authorization.remove_prefix(scheme.size());
  if (authorization.empty() || authorization.front() != ' ') return {};
  const std::size_t first = authorization.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  const std::size_t last = authorization.find_last_not_of(' ');
  return authorization.substr(first, last - first + 1);
}

}  // namespace tandem::net::http
