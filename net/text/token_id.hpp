// A token's number in the vocabulary.
#pragma once

#include <cstdint>

namespace tandem::net::text {

using TokenId = std::uint32_t;

}  // namespace tandem::net::text
