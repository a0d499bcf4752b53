// Written member by member from the snapshot.
#include "net/http/status_json.hpp"

#include "net/http/json_writer.hpp"

#include <string_view>

namespace tandem::net::http {
namespace {

using actors::NodeState;

std::string_view health_word(NodeState state) {
  switch (state) {
    case NodeState::ready:
      return "ok";
    case NodeState::draining:
      return "draining";
    case NodeState::stopped:
    case NodeState::failed:
      return "failed";
    default:
      return "loading";
  }
}

void add_ranks(JsonWriter& json, const actors::RuntimeSnapshot& snapshot) {
  json.key("ranks").begin_array();
  for (const actors::RankReport& rank : snapshot.ranks) {
    json.begin_object().key("rank").integer(rank.rank).key("state").string(to_string(rank.state));
    json.key("progress").number(rank.progress).key("detail").string(rank.detail).end_object();
  }
  json.end_array();
}

void add_engine(JsonWriter& json, const gpu::EngineInfo& engine) {
  json.key("engine").begin_object();
  json.key("model").string(engine.model_name).key("layers").integer(engine.layers);
  json.key("vocab_size").integer(engine.vocab_size).key("max_positions").integer(engine.max_positions);
  json.key("page_tokens").integer(engine.page_tokens).key("pages_total").integer(engine.pages_total);
  json.key("lanes_max").integer(engine.lanes_max).key("drafts_max").integer(engine.drafts_max);
  json.key("weight_bytes").integer(engine.weight_bytes).key("cache_bytes").integer(engine.cache_bytes);
  json.end_object();
}

void add_counters(JsonWriter& json, const actors::Counters& counters) {
  json.key("counters").begin_object();
  json.key("prompt_tokens")
      .integer(counters.prompt_tokens)
      .key("generation_tokens")
      .integer(counters.generation_tokens);
  json.key("finished_stop").integer(counters.finished_stop).key("finished_length").integer(counters.finished_length);
  json.key("finished_error").integer(counters.finished_error).key("aborted").integer(counters.aborted);
  json.key("rejected").integer(counters.rejected).key("preemptions").integer(counters.preemptions);
  json.key("rank_losses").integer(counters.rank_losses);
  json.key("recoveries").integer(counters.recoveries).key("steps").integer(counters.steps);
  json.key("drafts").integer(counters.drafts).key("draft_tokens").integer(counters.draft_tokens);
  json.key("accepted_tokens").integer(counters.accepted_tokens);
  json.end_object();
}

}  // namespace

std::string health_json(const actors::RuntimeSnapshot& snapshot) {
  JsonWriter json;
  json.begin_object().key("status").string(health_word(snapshot.state));
  if (snapshot.state != NodeState::ready) {
    json.key("phase").string(to_string(snapshot.state));
    if (!snapshot.detail.empty()) json.key("detail").string(snapshot.detail);
  }
  json.end_object();
  return json.take();
}

std::string status_json(const actors::RuntimeSnapshot& snapshot) {
  JsonWriter json;
  json.begin_object().key("state").string(to_string(snapshot.state)).key("detail").string(snapshot.detail);
  json.key("run_id").string(snapshot.run_id);
  json.key("running").integer(snapshot.running).key("waiting").integer(snapshot.waiting);
  json.key("kv_usage").number(snapshot.kv_usage);
  add_ranks(json, snapshot);
  add_engine(json, snapshot.engine);
  add_counters(json, snapshot.counters);
  json.key("memory").begin_object().key("total_bytes").integer(snapshot.memory.total_bytes);
  json.key("available_bytes").integer(snapshot.memory.available_bytes);
  json.key("rss_bytes").integer(snapshot.memory.rss_bytes).key("level").string(snapshot.memory.level).end_object();
  json.end_object();
  return json.take();
}

}  // namespace tandem::net::http
