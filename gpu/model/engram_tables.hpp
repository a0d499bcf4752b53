// EngramTables: the n-gram memory of a model as the forward pass sees it: token ids in, dequantised rows out, read in
// the background.
//
// Rows depend on token ids alone. A step asks for the rows of all its Engram layers before layer 0 runs and collects
// them at each layer; the look-back is the tail of the sequence's own token list, so nothing is carried from step to
// step and nothing is rolled back.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engram/geometry.hpp"
#include "engram/reader.hpp"
#include "engram/token_map.hpp"
#include "gpu/checkpoint/checkpoint.hpp"
#include "gpu/config.hpp"
#include "gpu/engram_options.hpp"
#include "gpu/model/row_batch.hpp"

namespace tandem::gpu {

// The tickets of one step, one a layer; those not collected are dropped on destruction.
class EngramRequest {
 public:
  EngramRequest() = default;
  EngramRequest(engram::Reader* reader, std::vector<engram::Ticket> tickets)
      : reader_(reader), tickets_(std::move(tickets)) {}
  ~EngramRequest();
  EngramRequest(EngramRequest&& other) noexcept : reader_(other.reader_), tickets_(std::move(other.tickets_)) {
    other.reader_ = nullptr;
  }
  EngramRequest& operator=(EngramRequest&&) = delete;
  engram::Ticket ticket(std::size_t table) const noexcept { return tickets_[table]; }

 private:
  engram::Reader* reader_ = nullptr;
  std::vector<engram::Ticket> tickets_;
};

struct EngramTableOptions {
  EngramOptions rows;
  std::filesystem::path cache_folder;  // may keep a token map built from tokenizer.json; empty = not kept
  // Told about fallbacks and about files that are passed over; may be empty.
  std::function<void(const std::string&)> announce;
};

class EngramTables {
 public:
  // Opens the tables: packed files where they are right, the checkpoint's shards otherwise. Errors: those of TokenMap,
  // Geometry, open_table and RowStore, the last two naming the table; not_found or mismatch for a missing or misshapen
  // one.
  static Result<std::unique_ptr<EngramTables>> open(const ModelConfig& config, const Checkpoint& checkpoint,
                                                    const EngramTableOptions& options = {});

  const engram::TokenMap& token_map() const noexcept { return map_; }
  // Returns the index of an Engram layer among all Engram layers; requires that `layer` is one.
  std::size_t table_of(int layer) const noexcept;
  // Row ids of every row of the batch for one table: [T, columns]; no_row inside image spans.
  Result<std::vector<engram::RowId>> row_ids(std::size_t table, const RowBatch& rows) const;
  // Starts reading the rows of all tables.
  Result<EngramRequest> prefetch(const RowBatch& rows);
  // Host memory for the values of `rows` rows of every table, as read() fills it.
  std::vector<Buffer> make_room(std::int64_t rows) const;
  // Reads the rows of all tables and waits for them.
  Result<void> read(const RowBatch& rows, std::span<const Buffer> out);
  // Waits for one table's rows and writes their values: out [T, columns * head_dim].
  Result<void> collect(const EngramRequest& request, std::size_t table, const Tensor& out);
  engram::ReaderStats stats() const { return reader_.stats(); }

 private:
  EngramTables(engram::TokenMap map, engram::Geometry geometry, std::vector<std::unique_ptr<engram::RowStore>> stores,
               const engram::ReaderOptions& options);

  engram::TokenMap map_;
  engram::Geometry geometry_;
  engram::Reader reader_;
};

}  // namespace tandem::gpu
