// First merging, then sorting of results, then the one check that needs the merged form.
#include "net/text/conversation.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace tandem::net::text {
namespace {

using CallOrder = std::unordered_map<std::string, std::size_t>;

TurnKind turn_kind(Role role) {
  switch (role) {
    case Role::system:
      return TurnKind::system;
    case Role::assistant:
      return TurnKind::assistant;
    case Role::latest_reminder:
      return TurnKind::latest_reminder;
    case Role::user:
    case Role::tool:
      break;
  }
  return TurnKind::user;
}

void add_message(std::vector<Turn>& turns, Message message) {
  const TurnKind kind = turn_kind(message.role);
  Block block{message.role == Role::tool, std::move(message.tool_call_id), std::move(message.content)};
  const bool is_merged = kind == TurnKind::user && !turns.empty() && turns.back().kind == kind && !turns.back().task;
  if (!is_merged)
    turns.push_back({kind, {}, std::move(message.reasoning), std::move(message.calls), {}, message.is_prefix});
  turns.back().blocks.push_back(std::move(block));
  turns.back().task = message.task;
}

CallOrder order_of(const std::vector<ToolCall>& calls) {
  CallOrder order;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].id.empty()) order[calls[i].id] = i;
  }
  return order;
}

// Sorts the results among the places that results have; a result of an unknown call counts as one of the first call.
void sort_results(std::vector<Block>& blocks, const CallOrder& order) {
  std::vector<Block> results;
  for (Block& block : blocks) {
    if (block.is_result) results.push_back(std::move(block));
  }
  const auto place = [&](const Block& block) {
    const auto found = order.find(block.call_id);
    return found == order.end() ? 0 : found->second;
  };
  std::stable_sort(results.begin(), results.end(), [&](const Block& a, const Block& b) { return place(a) < place(b); });
  auto next = results.begin();
  for (Block& block : blocks) {
    if (block.is_result) block = std::move(*next++);
  }
}

}  // namespace

RequestResult<std::vector<Turn>> make_turns(std::vector<Message> messages, bool needs_system) {
  std::vector<Turn> turns;
  if (needs_system && (messages.empty() || messages.front().role != Role::system)) {
    turns.push_back({TurnKind::system, {Block{}}, {}, {}, {}, false});
  }
  for (Message& message : messages) add_message(turns, std::move(message));

  CallOrder order;
  for (Turn& turn : turns) {
    if (turn.kind == TurnKind::assistant && !turn.calls.empty()) order = order_of(turn.calls);
    if (turn.kind == TurnKind::user) sort_results(turn.blocks, order);
  }
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].kind != TurnKind::latest_reminder) continue;
    if (i + 1 == turns.size() || turns[i + 1].kind != TurnKind::user) {
      return invalid_value("messages", "a latest_reminder message must be followed by a user message");
    }
  }
  return turns;
}

}  // namespace tandem::net::text
