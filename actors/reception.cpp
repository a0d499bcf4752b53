// Spawns request actors, remembers them until they end, passes on what ends them.
#include "actors/reception.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <unordered_map>

#include "actors/last_words.hpp"
#include "actors/request_actor.hpp"

namespace tandem::actors {

namespace {

struct ReceptionState {
  static inline const char* name = "reception";
  // Not a handle first: CAF would build the state from the actor's own pointer, since an aggregate accepts (this).
  SnapshotBoard* board = nullptr;
  scheduler_actor scheduler;
  std::unordered_map<RequestId, request_actor> requests;
  std::unordered_map<caf::actor_id, RequestId> by_actor;
};

using Self = reception_actor::stateful_pointer<ReceptionState>;

void receive(Self self, NewRequest request) {
  ReceptionState& state = self->state;
  const RequestId id = request.id;
  request_actor actor = spawn_request(self, state.scheduler, std::move(request), state.board);
  self->monitor(actor);
  state.by_actor.emplace(actor.id(), id);
  state.requests.emplace(id, std::move(actor));
}

void forget(Self self, const caf::down_msg& down) {
  ReceptionState& state = self->state;
  const auto it = state.by_actor.find(down.source.id());
  if (it == state.by_actor.end()) return;
  if (down.reason) spdlog::error("the actor of request {} ended: {}", it->second, self->system().render(down.reason));
  state.requests.erase(it->second);
  state.by_actor.erase(it);
}

template <class Atom>
void pass_on(Self self, RequestId id, Atom atom) {
  const auto it = self->state.requests.find(id);
  if (it != self->state.requests.end()) self->send(it->second, atom);
}

reception_actor::behavior_type reception_behavior(Self self, scheduler_actor scheduler, SnapshotBoard* board) {
  self->state.scheduler = std::move(scheduler);
  self->state.board = board;
  self->set_down_handler([self](const caf::down_msg& down) { forget(self, down); });
  self->set_exception_handler(keep_exception);
  return {
      [self](submit_atom, NewRequest& request) { receive(self, std::move(request)); },
      [self](cancel_atom atom, RequestId id) { pass_on(self, id, atom); },
      [self](complete_atom atom, RequestId id) { pass_on(self, id, atom); },
      [self](drain_atom) {
        for (auto& [id, actor] : self->state.requests) self->send(actor, cancel_atom::value);
      },
      [self](inspect_atom) {
        return fmt::format(R"({{"actor":"reception","requests":{}}})", self->state.requests.size());
      },
  };
}

}  // namespace

reception_actor spawn_reception(caf::actor_system& system, scheduler_actor scheduler, SnapshotBoard* board) {
  return system.spawn(reception_behavior, std::move(scheduler), board);
}

}  // namespace tandem::actors
