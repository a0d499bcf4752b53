// What serving would pass over with an announcement is a fault here; what would stop it is one that stops loading.
#include "gpu/weights_files/packed_table_check.hpp"

#include <fmt/format.h>

#include <memory>

#include "engram/pack/fingerprint.hpp"
#include "engram/pack/open_table.hpp"
#include "engram/pack/receipt.hpp"
#include "gpu/model/engram_sources.hpp"

namespace tandem::gpu {
namespace {

constexpr const char* packed_tables_what = "packed Engram files";
constexpr std::int64_t rows_compared = 256;

Result<bool> same_origin(const engram::PackedReceipt& receipt, engram::RowStore& source) {
  const auto print = engram::fingerprint(source);
  if (!print) return print.error();
  return receipt.source == *print;
}

Result<bool> same_rows(engram::RowStore& packed, engram::RowStore& source) {
  const auto& info = packed.info();
  const auto ids = engram::spread_rows(info.first_row, info.last_row, rows_compared);
  const auto read = [&](engram::RowStore& store) -> Result<std::vector<std::byte>> {
    std::vector<engram::E4m3> codes(ids.size() * static_cast<std::size_t>(info.shape.head_dim));
    std::vector<engram::E8m0> scales(ids.size() * static_cast<std::size_t>(info.shape.scales()));
    if (auto rows = store.read(ids, {codes, scales}); !rows) return rows.error();
    const auto code_bytes = std::as_bytes(std::span(codes)), scale_bytes = std::as_bytes(std::span(scales));
    std::vector<std::byte> bytes(code_bytes.begin(), code_bytes.end());
    bytes.insert(bytes.end(), scale_bytes.begin(), scale_bytes.end());
    return bytes;
  };
  const auto ours = read(packed), theirs = read(source);
  if (!ours) return ours.error();
  if (!theirs) return theirs.error();
  return *ours == *theirs;
}

class PackedTables {
 public:
  explicit PackedTables(int ranks) : suffix_(fmt::format("of{}.bin", ranks)) {}

  void check_layer(int layer, const engram::ShardTable& source, const std::vector<engram::PackedCandidate>& found) {
    for (const engram::PackedCandidate& candidate : found) {
      if (!candidate.file.filename().string().ends_with(suffix_)) continue;
      ++files_;
      check_file({layer, source, {candidate}});
    }
  }

  WeightCheck verdict() {
    if (files_ == 0) {
      return WeightCheck::skip("W8", packed_tables_what,
                               fmt::format("none named *{}: rows are read from the checkpoint", suffix_));
    }
    WeightCheck check = WeightCheck::judge("W8", packed_tables_what, fmt::format("{} files", files_), faults_);
    check.stops_loading = is_damaged_;
    return check;
  }

 private:
  void check_file(const engram::TableRequest& request) {
    const auto fits = fits_table(request);
    if (!fits) return fault(fits.error());
    if (!*fits) return;
    // The expensive half, exactly as at the start of a rank: checksums and rows.
    if (const auto table = engram::open_table(request, storage_, {}); !table) fault(table.error());
  }

  // True if the file belongs to this table and has a receipt that its content can be held against; false if it has none
  // and its rows are the table's. Errors: mismatch (another model or rank), or damage.
  Result<bool> fits_table(const engram::TableRequest& request) {
    const engram::PackedCandidate& candidate = request.packed.front();
    const engram::ShardTable& table = request.source;
    auto packed = engram::open_packed_store(
        candidate.file, {request.layer, {table.shape, table.rows, candidate.first_row, candidate.last_row}}, storage_);
    if (!packed) return packed.error();
    auto source = engram::open_shard_store(table, storage_);
    if (!source) return source.error();
    const auto receipt = engram::read_receipt(candidate.file);
    if (!receipt && receipt.error().code != ErrorCode::not_found) return receipt.error();
    const auto same = receipt ? same_origin(*receipt, **source) : same_rows(**packed, **source);
    if (!same) return same.error();
    if (*same) return receipt.has_value();
    return Error{ErrorCode::mismatch, candidate.file.string(), "rows of another model",
                 "rows of this one; they are read from the checkpoint instead"};
  }

  void fault(Error error) {
    is_damaged_ = is_damaged_ || error.code != ErrorCode::mismatch;
    faults_.push_back(std::move(error));
  }

  std::string suffix_;
  std::shared_ptr<engram::Storage> storage_ = std::make_shared<engram::Storage>();
  std::vector<Error> faults_;
  std::size_t files_ = 0;
  bool is_damaged_ = false;
};

}  // namespace

WeightCheck check_packed_tables(const WeightHeaders& headers, const std::filesystem::path& folder, int ranks) {
  if (!headers.is_complete()) return WeightCheck::skip("W8", packed_tables_what, "needs what W1 did not find");
  const EngramConfig& config = headers.config->engram;
  if (config.layers.empty()) return WeightCheck::skip("W8", packed_tables_what, "the model has no Engram");
  const auto sources = find_engram_sources(*headers.config, *headers.checkpoint);
  const auto geometry = make_engram_geometry(config, 0);
  if (!sources || !geometry) return WeightCheck::skip("W8", packed_tables_what, "needs what W5 did not find");
  PackedTables tables(ranks);
  for (std::size_t i = 0; i < sources->size(); ++i) {
    tables.check_layer(config.layers[i], (*sources)[i], engram::find_packed_files(folder, *geometry, i));
  }
  return tables.verdict();
}

}  // namespace tandem::gpu
