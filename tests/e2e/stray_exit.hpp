// A stranger on the actors' port that tells whoever is published there to end.
#pragma once

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <chrono>
#include <cstdint>

namespace tandem::test {

// Returns whether the actor published at this port of the loopback interface ended within `limit`.
inline bool end_published(std::uint16_t port, std::chrono::seconds limit = std::chrono::seconds(20)) {
  caf::actor_system_config config;
  config.load<caf::io::middleman>();
  config.set("middleman.workers", 0);
  caf::actor_system system{config};
  auto target = system.middleman().remote_actor("127.0.0.1", port);
  if (!target) return false;
  caf::scoped_actor self{system};
  self->monitor(*target);
  self->send_exit(*target, caf::exit_reason::kill);
  bool has_ended = false;
  self->receive([&](const caf::down_msg&) { has_ended = true; }, caf::after(limit) >> [] {});
  return has_ended;
}

}  // namespace tandem::test
