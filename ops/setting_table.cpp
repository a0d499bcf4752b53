// The table itself. See setting_table.hpp.
#include "ops/setting_table.hpp"

namespace tandem::ops {

const std::vector<SettingRow>& setting_table() {
  using enum SettingKind;
  constexpr std::int64_t port_max = 65535;
  static const std::vector<SettingRow> table = {
      {"model.dir", text, "", 0, 0, "", "folder of the checkpoint"},
      {"model.names", list, "", 0, 0, "", "served model names, the first is canonical; default: the folder's name"},
      {"model.backend", choice, "cpu", 0, 0, "cpu|cuda",
       "what computes: the CPU, or a CUDA device in builds that have it"},
      {"model.numerics", choice, "serve", 0, 0, "serve|s32|noq8", "roundings of the forward pass"},
      {"model.device", text, "auto", 0, 0, "",
       "cuda: device of each rank: auto (its number modulo the visible devices), or numbers, taken in turn"},
      {"ranks", integer, "1", 1, 64, "", "ranks that share the model"},
      {"transport", choice, "threads", 0, 0, "threads|tcp", "ranks as threads of one process, or as processes"},
      {"threads", integer, "0", 0, 1024, "", "compute threads of one rank; 0 = cores / local ranks"},
      {"fabric.host", text, "127.0.0.1", 0, 0, "", "tcp: address of the head for its other ranks"},
      {"rdv.port", integer, "29500", 1, port_max - 1, "", "tcp: port of the tensors; the actors use the next one"},
      {"fabric.exchange", choice, "auto", 0, 0, "auto|nccl|host",
       "cuda: tensors through NCCL or by way of host memory; auto = NCCL where every rank has it and its own device"},
      {"fabric.head_if", text, "", 0, 0, "", "cuda: the head's network interface for NCCL; default: NCCL chooses"},
      {"fabric.worker_if", text, "", 0, 0, "", "the same of the other ranks"},
      {"fabric.head_hca", text, "", 0, 0, "", "cuda: the head's RDMA devices for NCCL, as name:port,name:port"},
      {"fabric.worker_hca", text, "", 0, 0, "", "the same of the other ranks"},
      {"fabric.head_gid", text, "", 0, 0, "", "cuda: pins the head's GID index, 0..255; default: found at each start"},
      {"fabric.worker_gid", text, "", 0, 0, "", "the same of the other ranks"},
      {"context.max", integer, "0", 0, 1'048'576, "", "longest sequence in tokens; 0 = the model's limit"},
      {"kv.tokens", integer, "0", 0, 1LL << 40, "",
       "positions the caches hold over all sequences; 0 = lanes x context"},
      {"lanes.max", integer, "8", 1, 64, "", "sequences that run at once"},
      {"step.rows", integer, "512", 1, 65536, "", "rows of one step over all sequences"},
      {"step.ahead", integer, "1", 0, 1, "", "1 = a step is sent to the ranks while the one before it runs"},
      {"prefill.rows", integer, "256", 1, 65536, "", "prompt rows of one sequence in one step"},
      {"queue.max", integer, "256", 1, 65536, "", "requests that may wait"},
      {"draft.tokens", integer, "3", 0, 5, "", "drafts verified per step and lane; 0 = no speculation"},
      {"draft.lanes", integer, "8", 0, 64, "", "lanes up to which drafts are used"},
      {"recovery.window_s", integer, "180", 1, 3600, "", "how long lost ranks may stay away before requests end"},
      {"api.host", text, "127.0.0.1", 0, 0, "", "address of the HTTP listener"},
      {"api.port", integer, "8000", 0, port_max, "", "port of the HTTP listener; 0 = any free one"},
      {"api.threads", integer, "1", 1, 64, "", "IO threads of the front end"},
      {"api.key_file", text, "", 0, 0, "",
       "file of bearer keys; default: api-keys in the state folder, if the listener is not loopback"},
      {"api.keepalive_s", integer, "10", 1, 3600, "", "seconds of silence before a stream gets a keep-alive"},
      {"api.connections_max", integer, "16384", 1, 1'000'000, "", "open connections"},
      {"api.body_bytes_max", integer, "67108864", 1024, 1LL << 32, "", "largest request body"},
      {"api.bodies_bytes_max", integer, "268435456", 1024, 1LL << 40, "", "request bodies of all connections at once"},
      {"api.cors_origins", list, "", 0, 0, "", "origins that browsers may call from, or *"},
      {"api.reasoning_field", choice, "reasoning_content", 0, 0, "reasoning_content|reasoning|both",
       "name of the reasoning in answers"},
      {"metrics.open", integer, "0", 0, 1, "", "1 = /metrics needs no key"},
      {"reasoning.default", text, "high", 0, 0, "", "effort when a request names none: off, low, high, max or 1..100"},
      {"memory.low_mib", integer, "3072", 0, 1 << 24, "", "MemAvailable below this is reported as low"},
      {"memory.critical_mib", integer, "1024", 0, 1 << 24, "", "MemAvailable below this is reported as critical"},
      {"engram.packed_dir", text, "", 0, 0, "",
       "folder of this node's packed Engram rows; default: the model's folder"},
      {"engram.io_depth", integer, "96", 1, 4096, "", "reads of Engram rows in flight"},
      {"engram.cache_gib", integer, "0", 0, 1024, "", "memory for recently read Engram rows; 0 = none"},
      {"weights.sync", choice, "auto", 0, 0, "auto|none|shared|nfs|zfs|copy",
       "sync: how the weights come to the other nodes"},
      {"weights.revision", text, "", 0, 0, "", "fetch: revision that the model must be; default: the server's"},
      {"weights.keep_parts", integer, "0", 0, 1, "", "fetch: 1 = keep the parts of shards that were joined"},
      {"state.dir", text, "", 0, 0, "", "folder for locks, keys and caches"},
  };
  return table;
}

}  // namespace tandem::ops
