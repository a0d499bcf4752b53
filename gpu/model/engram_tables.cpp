// Opening the tables and moving rows from the reader into a tensor.
#include "gpu/model/engram_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "engram/hash.hpp"
#include "engram/pack/open_table.hpp"
#include "engram/storage.hpp"
#include "gpu/model/engram_sources.hpp"

namespace tandem::gpu {
namespace {

// A drive that needs longer than this for one step's rows is broken.
constexpr std::chrono::seconds read_timeout{60};

// The same error with the name of the table.
Error of_table(Error error, int layer) {
  error.where = fmt::format("layers.{}.engram.embed: {}", layer, error.where);
  return error;
}

engram::ReaderOptions reader_options(const ModelConfig& config, const EngramOptions& options) {
  const engram::RowShape row{config.engram.head_dim};
  const double bytes_a_table = options.cache_gib * (1U << 30) / static_cast<double>(config.engram.layers.size());
  engram::ReaderOptions reader;
  reader.cache_rows = static_cast<std::size_t>(bytes_a_table / static_cast<double>(row.bytes()));
  return reader;
}

// Opens every table, packed rows where there are right ones, and looks at a sample of its rows.
Result<std::vector<std::unique_ptr<engram::RowStore>>> open_stores(const ModelConfig& config,
                                                                   const Checkpoint& checkpoint,
                                                                   const engram::Geometry& geometry,
                                                                   const EngramTableOptions& options) {
  const auto sources = find_engram_sources(config, checkpoint);
  if (!sources) return sources.error();
  engram::StorageOptions storage_options;
  storage_options.depth = options.rows.io_depth;
  storage_options.announce = options.announce;
  const auto storage = std::make_shared<engram::Storage>(storage_options);
  const auto& folder = options.rows.packed_folder.empty() ? checkpoint.folder() : options.rows.packed_folder;
  std::vector<std::unique_ptr<engram::RowStore>> stores;
  for (std::size_t table = 0; table < sources->size(); ++table) {
    const engram::TableRequest request{geometry.layers[table].layer, (*sources)[table],
                                       engram::find_packed_files(folder, geometry, table)};
    auto store = engram::open_table(request, storage, options.announce);
    if (!store) return of_table(store.error(), request.layer);
    if (auto ok = engram::check_rows(**store); !ok) return of_table(ok.error(), request.layer);
    stores.push_back(std::move(*store));
  }
  return stores;
}

}  // namespace

EngramRequest::~EngramRequest() {
  if (reader_ == nullptr) return;
  for (const engram::Ticket ticket : tickets_) reader_->drop(ticket);
}

EngramTables::EngramTables(engram::TokenMap map, engram::Geometry geometry,
                           std::vector<std::unique_ptr<engram::RowStore>> stores, const engram::ReaderOptions& options)
    : map_(std::move(map)), geometry_(std::move(geometry)), reader_(std::move(stores), options) {}

Result<std::unique_ptr<EngramTables>> EngramTables::open(const ModelConfig& config, const Checkpoint& checkpoint,
                                                         const EngramTableOptions& options) {
  auto map = engram::TokenMap::open(checkpoint.folder(), options.cache_folder,
                                    {config.vocab_size, config.engram.compressed_vocab_size});
  if (!map) return map.error();
  auto geometry = make_engram_geometry(config.engram, map->class_of(config.engram.pad_token_id));
  if (!geometry) return geometry.error();
  auto stores = open_stores(config, checkpoint, *geometry, options);
  if (!stores) return stores.error();
  return std::unique_ptr<EngramTables>(new EngramTables(std::move(*map), std::move(*geometry), std::move(*stores),
                                                        reader_options(config, options.rows)));
}

std::size_t EngramTables::table_of(int layer) const noexcept {
  const auto& layers = geometry_.layers;
  const auto found =
      std::find_if(layers.begin(), layers.end(), [&](const auto& table) { return table.layer == layer; });
  return static_cast<std::size_t>(found - layers.begin());
}

Result<std::vector<engram::RowId>> EngramTables::row_ids(std::size_t table, const RowBatch& rows) const {
  const auto columns = static_cast<std::size_t>(geometry_.columns());
  std::vector<engram::RowId> ids(static_cast<std::size_t>(rows.rows()) * columns);
  std::vector<engram::ClassId> classes;
  for (const Segment& segment : rows.segments()) {
    const std::int64_t before = std::min<std::int64_t>(geometry_.look_back(), segment.first_position);
    const auto first = static_cast<std::size_t>(segment.first_position - before);
    const auto end = static_cast<std::size_t>(segment.first_position + segment.count);
    classes.clear();
    for (std::size_t position = first; position < end; ++position) {
      const bool is_image = segment.sequence->kinds()[position] == TokenKind::image;
      classes.push_back(is_image ? engram::dead_class : map_.class_of(segment.sequence->tokens()[position]));
    }
    const std::span<const engram::ClassId> all(classes);
    const std::span<engram::RowId> out(ids.data() + static_cast<std::size_t>(segment.first_row) * columns,
                                       static_cast<std::size_t>(segment.count) * columns);
    const auto split = static_cast<std::size_t>(before);
    if (auto ok = engram::hash_rows(geometry_, table, all.first(split), all.subspan(split), out); !ok)
      return ok.error();
  }
  return ids;
}

Result<EngramRequest> EngramTables::prefetch(const RowBatch& rows) {
  std::vector<engram::Ticket> tickets;
  for (std::size_t table = 0; table < reader_.tables(); ++table) {
    auto ids = row_ids(table, rows);
    auto ticket = ids ? reader_.prefetch(table, std::move(*ids)) : Result<engram::Ticket>(ids.error());
    if (!ticket) {
      const EngramRequest dropped(&reader_, std::move(tickets));
      return ticket.error();
    }
    tickets.push_back(*ticket);
  }
  return EngramRequest(&reader_, std::move(tickets));
}

std::vector<Buffer> EngramTables::make_room(std::int64_t rows) const {
  const std::int64_t width = geometry_.columns() * geometry_.head_dim;
  std::vector<Buffer> room;
  for (std::size_t table = 0; table < geometry_.layers.size(); ++table) {
    room.push_back(Buffer::host(static_cast<std::size_t>(rows * width) * sizeof(float)));
  }
  return room;
}

Result<void> EngramTables::read(const RowBatch& rows, std::span<const Buffer> out) {
  const auto request = prefetch(rows);
  if (!request) return request.error();
  for (std::size_t table = 0; table < out.size(); ++table) {
    const auto values = static_cast<std::int64_t>(out[table].bytes / sizeof(float));
    const Tensor rows_of_table = Tensor::f32(out[table].as<float>(), rows.rows(), values / rows.rows());
    if (auto ok = collect(*request, table, rows_of_table); !ok) return ok;
  }
  return {};
}

Result<void> EngramTables::collect(const EngramRequest& request, std::size_t table, const Tensor& out) {
  auto rows = reader_.wait(request.ticket(table), read_timeout);
  if (!rows) {
    // A silent disk is this rank's own failure, not a peer's.
    Error error = rows.error();
    if (error.code == ErrorCode::timeout) error.code = ErrorCode::io;
    return of_table(std::move(error), geometry_.layers[table].layer);
  }
  engram::dequantise(rows->codes, rows->scales,
                     {static_cast<float*>(out.data), static_cast<std::size_t>(out.rows * out.cols)});
  return {};
}

}  // namespace tandem::gpu
