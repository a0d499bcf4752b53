// Commands of other programs: an argument vector, never a shell; an end within a time limit; output with a bound.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engram/error.hpp"

namespace tandem::net::sync {

using CommandLine = std::vector<std::string>;  // program, found on PATH, and its arguments

class CommandRunner {
 public:
  virtual ~CommandRunner() = default;
  // Runs a command and returns what it wrote to its standard output. Errors: not_found (no such program), unavailable
  // (it ended with another code than 0; the last of what it complained is in the error), timeout, out_of_range (more
  // than 16 MiB of output), io.
  virtual Result<std::string> run(const CommandLine& command, std::chrono::seconds limit) = 0;
  // Runs two commands, the standard output of the first being the input of the second. Errors: as above.
  virtual Result<void> pipe(const CommandLine& from, const CommandLine& to, std::chrono::seconds limit) = 0;
};

// Runs real processes and kills them at their limit.
std::unique_ptr<CommandRunner> make_command_runner();

}  // namespace tandem::net::sync
