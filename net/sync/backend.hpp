// Backend: the ways in which a node can come to the weights of another one, and the choice between them.
//
//   none    nothing is done: every node keeps its own files
//   shared  both nodes see the same storage; it is only checked
//   nfs     the other node reads ours over NFS; what was set up is only checked
//   zfs     snapshots are sent from dataset to dataset
//   copy    files are copied over TCP
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engram/error.hpp"

namespace tandem::net::sync {

enum class Backend : std::uint8_t { none, shared, nfs, zfs, copy };

std::string_view to_string(Backend backend) noexcept;
// Returns nothing for "auto" and for words that are no backend.
std::optional<Backend> parse_backend(std::string_view text) noexcept;

// One way, ready to be tried. The attempt returns what it found or did, in a sentence.
struct BackendTrial {
  Backend backend = Backend::none;
  std::function<Result<std::string>()> attempt;
};

struct BackendOutcome {
  Backend backend = Backend::none;
  std::string found;
};

// Tries the ways in the order given until one works. `passed_over` hears why each earlier one did not. Errors: that of
// the last one; cancelled ends the attempts at once.
Result<BackendOutcome> try_backends(std::span<const BackendTrial> trials,
                                    const std::function<void(Backend, const Error&)>& passed_over);

}  // namespace tandem::net::sync
