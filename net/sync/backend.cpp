// The names of the ways, and the loop over those that are to be tried: the first that works is taken.
#include "net/sync/backend.hpp"

#include <array>
#include <utility>

namespace tandem::net::sync {
namespace {

constexpr std::array<std::pair<Backend, std::string_view>, 5> backend_names{{{Backend::none, "none"},
                                                                             {Backend::shared, "shared"},
                                                                             {Backend::nfs, "nfs"},
                                                                             {Backend::zfs, "zfs"},
                                                                             {Backend::copy, "copy"}}};

}  // namespace

std::string_view to_string(Backend backend) noexcept {
  for (const auto& [value, name] : backend_names) {
    if (value == backend) return name;
  }
  return "?";
}

std::optional<Backend> parse_backend(std::string_view text) noexcept {
  for (const auto& [value, name] : backend_names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

Result<BackendOutcome> try_backends(std::span<const BackendTrial> trials,
                                    const std::function<void(Backend, const Error&)>& passed_over) {
  Error last{ErrorCode::invalid_argument, "backend", "none to try", "at least one"};
  for (const BackendTrial& trial : trials) {
    auto found = trial.attempt();
    if (found) return BackendOutcome{trial.backend, std::move(*found)};
    last = found.error();
    if (last.code == ErrorCode::cancelled) return last;
    if (&trial != &trials.back()) passed_over(trial.backend, last);
  }
  return last;
}

}  // namespace tandem::net::sync
