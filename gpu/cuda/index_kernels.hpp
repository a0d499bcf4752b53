// The indexer: scores of index keys, maxima of candidate blocks, exact choice of the best (contract:
// Ops::index_select).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "gpu/kv_record.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu::cuda {

// One row; all pointers are the device's.
struct IndexSource {
  const std::byte* pool = nullptr;
  const std::int32_t* pages = nullptr;
  std::int32_t row = 0;                       // of iq and weights
  std::int32_t visible = 0;                   // entries 0 .. visible - 1
  bool takes_all = false;                     // visible <= topk: nothing is scored, every candidate is taken
  const std::uint64_t* candidates = nullptr;  // null: all
  std::uint64_t* published = nullptr;         // null: publishes nothing
  std::int32_t* selected = nullptr;           // [topk]
  std::int32_t* selected_count = nullptr;     // may be null
  float* scores = nullptr;                    // [visible]
  float* block_scores = nullptr;              // [blocks], publishing rows only
  // Where candidate blocks are listed: their numbers, ascending, and how many they are. scores is [blocks * 8] then, of
  // their entries.
  std::int32_t* listed = nullptr;
  std::int32_t* listed_count = nullptr;
};

struct IndexWork {
  Tensor iq, weights;  // with X4 keys the queries are values of X4 records too
  const IndexSource* rows = nullptr;
  std::int64_t row_count = 0;
  std::int64_t visible_most = 0;  // of all rows
  bool narrows = false;           // all rows have candidates
  int listed_most = 0;            // candidate blocks of a row, at most, where they are listed; else 0
  int heads = 0, head_dim = 0, topk = 0, block_size = 0, candidate_blocks = 0;
  RecordFormat format = RecordFormat::x4;
};

// Entries of a candidate block that can be listed.
inline constexpr int listed_block_entries = 8;

// Whether all rows have candidates, publish nothing, and may list their blocks (index_candidates.cu): what is no
// candidate costs nothing then.
bool may_list_candidates(const IndexWork& work, bool publishes);

// scores[j] of every row, in the order of gpu/index_order.hpp; entries that are no candidates get -infinity, rows that
// take all get 0 for the others.
cudaError_t score_entries(cudaStream_t stream, const IndexWork& work);

// Chooses the best topk entries of every row by their scores.
cudaError_t select_entries(cudaStream_t stream, const IndexWork& work);

// The same for rows that are worth a cluster of blocks each.
inline constexpr std::int64_t wide_select_least = 65536;
cudaError_t select_wide(cudaStream_t stream, const IndexWork& work);

// Both where candidate blocks are listed.
cudaError_t score_candidates(cudaStream_t stream, const IndexWork& work);
cudaError_t select_candidates(cudaStream_t stream, const IndexWork& work);

// Publishes the best blocks of the rows that do so, by their entries' scores.
cudaError_t publish_blocks(cudaStream_t stream, const IndexWork& work);

}  // namespace tandem::gpu::cuda
