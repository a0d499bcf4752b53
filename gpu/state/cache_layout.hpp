// CacheLayout: every size of what sequences own, computed from the configuration before anything is allocated.
//
// Two kinds of memory. A *lane* (fixed size, one per open sequence) holds what is addressed modulo a ring: window
// entries of every layer and draft stage, and the rows of open ratio-2 groups. *Page units* hold what grows with the
// sequence: a unit is page_tokens positions in every pool at once, so one free list serves pools of different ratios
// and the scheduler counts one number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/config.hpp"
#include "gpu/kv_record.hpp"
#include "gpu/numerics.hpp"

namespace tandem::gpu {

struct CacheLimits {
  std::int64_t max_positions = 0;  // longest sequence
  std::int64_t kv_tokens = 0;      // positions that all sequences together may reserve
  int lanes_max = 1;
  int chunk_rows_max = 1;  // most rows of one sequence in one step
};

// One KV source layer: where its compressed entries and index keys are kept.
struct SourceLayout {
  int layer = 0;
  int ratio = 1;
  bool has_index_keys = false;
  std::int64_t pages = 0;  // pages of page_entries records in each of its pools
};

struct CacheLayout {
  RecordFormat window_format = RecordFormat::f32;
  RecordFormat entry_format = RecordFormat::f32;
  RecordFormat index_format = RecordFormat::f32;
  int head_dim = 0;
  int index_dim = 0;
  int layers = 0;  // backbone rings of a lane
  int stages = 0;  // draft rings of a lane
  int window = 0;
  // Slots of every ring: window + rows of one step + a draft block, so that a step may write before it attends.
  std::int64_t window_slots = 0;
  std::int64_t open_slots = 0;     // rows of an open-group ring: any accepted length of a verify burst can resume
  std::int64_t rollback_rows = 0;  // rows that may be taken back exactly
  std::int64_t page_tokens = 0;
  std::int64_t units = 0;
  std::vector<SourceLayout> sources;  // ascending layer
  CacheLimits limits;

  std::size_t ring_bytes() const noexcept;        // one window ring
  std::size_t open_group_bytes() const noexcept;  // one source's open rows: k and g, FP32
  std::size_t lane_bytes() const noexcept;
  std::size_t pool_bytes(const SourceLayout& source) const noexcept;  // entries and index keys
  std::size_t total_bytes() const noexcept;                           // all lanes and all pools

  // Returns the index in `sources` of the source at `layer`; -1 if it is none.
  int source_index(int layer) const noexcept;
};

// Computes the layout. Errors: invalid_argument if a limit is not positive or the pools could not hold one page unit.
Result<CacheLayout> plan_caches(const ModelConfig& config, const Numerics& numerics, const CacheLimits& limits);

}  // namespace tandem::gpu
