// Reading /proc and the actor that does so once a period.
#include "actors/memory_guard.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "actors/last_words.hpp"

namespace tandem::actors {

namespace {

std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file{path};
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the value of "Name:   123 kB" in bytes.
std::optional<std::uint64_t> find_kib(const std::string& text, const std::string& name) {
  const auto at = text.find(name + ":");
  if (at == std::string::npos) return std::nullopt;
  std::istringstream rest{text.substr(at + name.size() + 1)};
  std::uint64_t kib = 0;
  if (!(rest >> kib)) return std::nullopt;
  return kib * 1024;
}

const char* level_of(std::uint64_t available, const MemoryGuardOptions& options) {
  if (available < options.critical_bytes) return "critical";
  return available < options.low_bytes ? "low" : "ok";
}

struct GuardState {
  static inline const char* name = "memory-guard";
  MemoryGuardOptions options;
  SnapshotBoard* board = nullptr;
  MemorySample last;
  std::uint64_t available_min = UINT64_MAX;
};

using Self = memory_guard_actor::stateful_pointer<GuardState>;

void tick(Self self) {
  GuardState& state = self->state;
  if (auto sample = sample_memory(state.options)) {
    state.last = *sample;
    state.available_min = std::min(state.available_min, sample->available_bytes);
    state.board->update([&](RuntimeSnapshot& s) { s.memory = *sample; });
  }
  self->delayed_send(caf::actor_cast<memory_guard_actor>(self), state.options.period, tick_atom::value);
}

memory_guard_actor::behavior_type guard_behavior(Self self, MemoryGuardOptions options, SnapshotBoard* board) {
  self->state.options = std::move(options);
  self->state.board = board;
  self->set_exception_handler(keep_exception);
  self->send(caf::actor_cast<memory_guard_actor>(self), tick_atom::value);
  return {
      [self](tick_atom) { tick(self); },
      [self](inspect_atom) {
        return fmt::format(R"({{"actor":"memory-guard","level":"{}","available_bytes":{},"available_bytes_min":{}}})",
                           self->state.last.level, self->state.last.available_bytes, self->state.available_min);
      },
  };
}

}  // namespace

Result<MemorySample> sample_memory(const MemoryGuardOptions& options) {
  const auto meminfo_path = options.proc / "meminfo";
  const auto meminfo = read_text(meminfo_path);
  if (!meminfo) return Error{ErrorCode::io, meminfo_path.string(), "cannot be read", "a readable file"};
  const auto total = find_kib(*meminfo, "MemTotal");
  const auto available = find_kib(*meminfo, "MemAvailable");
  if (!total || !available)
    return Error{ErrorCode::bad_format, meminfo_path.string(), "no MemTotal or MemAvailable", "both in kB"};
  MemorySample sample;
  sample.total_bytes = *total;
  sample.available_bytes = *available;
  sample.level = level_of(*available, options);
  if (const auto status = read_text(options.proc / "self" / "status"))
    sample.rss_bytes = find_kib(*status, "VmRSS").value_or(0);
  return sample;
}

memory_guard_actor spawn_memory_guard(caf::actor_system& system, MemoryGuardOptions options, SnapshotBoard* board) {
  return system.spawn(guard_behavior, std::move(options), board);
}

}  // namespace tandem::actors
