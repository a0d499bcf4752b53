// KeyRing: the bearer keys that open the API. Only their SHA-256 hashes are kept; comparison takes the same time for
// every guess.
#pragma once

#include "net/http/message.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::net::http {

class KeyRing {
 public:
  KeyRing() = default;  // no key: everything is allowed
  explicit KeyRing(const std::vector<std::string>& keys);

  bool is_open() const noexcept { return hashes_.empty(); }
  bool holds(std::string_view key) const;
  // Returns whether the request carries a key of the ring as "Authorization: Bearer KEY" or "x-api-key: KEY".
  bool admits(const Request& request) const;

 private:
  using Hash = std::array<unsigned char, 32>;
  static Hash hash(std::string_view key);
  std::vector<Hash> hashes_;
};

// Returns the key of "Bearer KEY" (scheme case ignored), or an empty view.
std::string_view bearer_key(std::string_view authorization);

}  // namespace tandem::net::http
