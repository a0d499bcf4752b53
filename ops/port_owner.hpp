// Who is behind a TCP port of this machine: whether it can be had, which process has it, and whether that is a Tandem
// of the same configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::ops {

// Returns the configuration that a Tandem at host:port names in its GET /livez, asked for at most two seconds; nothing
// if nobody or somebody else answers.
std::optional<std::string> ask_configuration(const std::string& host, std::uint16_t port);

// Returns "pid 123 (command)" of the process that listens on the TCP port, or "an unknown process".
std::string describe_port_owner(std::uint16_t port);

// Returns whether nobody listens there now: it can be bound. An address that is not this machine's counts as free: the
// one who binds it says so better.
bool is_port_free(const std::string& host, std::uint16_t port);

}  // namespace tandem::ops
