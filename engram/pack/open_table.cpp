// The decision about each candidate, in the order of cost: absent, header, size, fingerprint, checksums, rows.
#include "engram/pack/open_table.hpp"

#include <fmt/format.h>

#include <system_error>

#include "engram/pack/block_check.hpp"
#include "engram/pack/fingerprint.hpp"
#include "engram/split_store.hpp"

namespace tandem::engram {
namespace {

constexpr std::size_t blocks_sampled = 8;  // 33 MiB of 264-byte rows
constexpr std::int64_t rows_compared = 256;

struct RowBytes {
  std::vector<E4m3> codes;
  std::vector<E8m0> scales;
  bool operator==(const RowBytes&) const = default;
};

Result<RowBytes> read_rows(RowStore& store, std::span<const RowId> ids) {
  const RowShape shape = store.info().shape;
  RowBytes rows{std::vector<E4m3>(ids.size() * static_cast<std::size_t>(shape.head_dim)),
                std::vector<E8m0>(ids.size() * static_cast<std::size_t>(shape.scales()))};
  if (auto read = store.read(ids, {rows.codes, rows.scales}); !read) return read.error();
  return rows;
}

// True if a sample of the packed rows are the source's, byte for byte.
Result<bool> same_rows(RowStore& packed, RowStore& source) {
  const auto ids = spread_rows(packed.info().first_row, packed.info().last_row, rows_compared);
  const auto ours = read_rows(packed, ids);
  if (!ours) return ours.error();
  const auto theirs = read_rows(source, ids);
  if (!theirs) return theirs.error();
  return *ours == *theirs;
}

class Opening {
 public:
  Opening(const TableRequest& request, std::shared_ptr<Storage> storage, const Announce& announce)
      : request_(request), storage_(std::move(storage)), announce_(announce) {}

  Result<std::unique_ptr<RowStore>> run() {
    auto source = open_shard_store(request_.source, storage_);
    if (!source) return source.error();
    std::vector<std::unique_ptr<RowStore>> parts;
    for (const PackedCandidate& candidate : request_.packed) {
      auto part = open_part(candidate, **source);
      if (part) {
        parts.push_back(std::move(*part));
        continue;
      }
      const ErrorCode code = part.error().code;
      if (code == ErrorCode::mismatch) say(part.error().message() + "; its rows are read from the checkpoint instead");
      if (code != ErrorCode::mismatch && code != ErrorCode::not_found) return part.error();
    }
    return make_split_store(std::move(*source), std::move(parts));
  }

 private:
  void say(const std::string& text) const {
    if (announce_) announce_(text);
  }

  // Errors: not_found and mismatch mean "do without"; anything else is damage.
  Result<std::unique_ptr<RowStore>> open_part(const PackedCandidate& candidate, RowStore& source) {
    const ShardTable& table = request_.source;
    const PackedTable expected{request_.layer, {table.shape, table.rows, candidate.first_row, candidate.last_row}};
    auto store = open_packed_store(candidate.file, expected, storage_);
    if (!store) return store.error();
    const auto receipt = read_receipt(candidate.file);
    const bool has_receipt = receipt.has_value();
    if (!has_receipt && receipt.error().code != ErrorCode::not_found) return receipt.error();
    if (has_receipt) {
      if (auto ok = check_origin(*receipt, expected, source, receipt_path(candidate.file).string()); !ok)
        return ok.error();
      if (auto ok = check_content(candidate.file, *receipt); !ok) return ok.error();
    } else {
      say(fmt::format("{}: no receipt beside it, so only {} rows are compared with the checkpoint",
                      candidate.file.string(), rows_compared));
    }
    const auto same = same_rows(**store, source);
    if (!same) return same.error();
    if (*same) return store;
    return Error{has_receipt ? ErrorCode::corrupt : ErrorCode::mismatch, candidate.file.string(),
                 "rows that differ from the checkpoint's", "the same rows"};
  }

  // `where` names the receipt.
  Result<void> check_origin(const PackedReceipt& receipt, const PackedTable& expected, RowStore& source,
                            const std::string& where) {
    const TableInfo& ours = receipt.table.info;
    const TableInfo& theirs = expected.info;
    if (receipt.table.layer != expected.layer || ours.first_row != theirs.first_row ||
        ours.last_row != theirs.last_row || ours.rows != theirs.rows || ours.shape != theirs.shape) {
      return Error{ErrorCode::mismatch, where, "a receipt of another packed file",
                   "one that says what the file's header says"};
    }
    if (source_print_.empty()) {
      auto print = fingerprint(source);
      if (!print) return print.error();
      source_print_ = std::move(*print);
    }
    if (receipt.source == source_print_) return {};
    return Error{ErrorCode::mismatch, where,
                 fmt::format("rows of another model (fingerprint {:.12}...)", receipt.source),
                 fmt::format("{:.12}...", source_print_)};
  }

  Result<void> check_content(const std::filesystem::path& path, PackedReceipt receipt) {
    const auto modified = modified_ns(path);
    if (!modified) return modified.error();
    const auto file = storage_->open(path);
    if (!file) return file.error();
    if (*modified == receipt.modified_ns) return check_blocks(**file, receipt, sample_blocks(receipt, blocks_sampled));
    say(fmt::format("{} was touched since its checksums were last verified; checking all {} blocks", path.string(),
                    receipt.checksums.size()));
    if (auto ok = check_blocks(**file, receipt, all_blocks(receipt)); !ok) return ok;
    receipt.modified_ns = *modified;
    // A read-only folder costs the same pass at the next start, nothing else.
    if (auto written = write_receipt(path, receipt); !written) say(written.error().message());
    return {};
  }

  const TableRequest& request_;
  std::shared_ptr<Storage> storage_;
  const Announce& announce_;
  std::string source_print_;  // computed when the first receipt asks for it
};

}  // namespace

Result<std::unique_ptr<RowStore>> open_table(const TableRequest& request, const std::shared_ptr<Storage>& storage,
                                             const Announce& announce) {
  return Opening(request, storage, announce).run();
}

std::vector<PackedCandidate> find_packed_files(const std::filesystem::path& folder, const Geometry& geometry,
                                               std::size_t layer_index) {
  std::vector<PackedCandidate> found;
  const int layer = geometry.layers[layer_index].layer;
  for (int ranks = 1; ranks <= geometry.columns(); ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto file = folder / packed_file_name(layer, rank, ranks);
      // A link that leads nowhere is there: opening it says what is wrong.
      std::error_code unknown;
      if (std::filesystem::symlink_status(file, unknown).type() == std::filesystem::file_type::not_found) continue;
      // A rank that would own nothing has no packed file, whatever a file's name says.
      if (const auto owned = geometry.owned(layer_index, rank, ranks)) {
        found.push_back({file, owned->first_row, owned->last_row});
      }
    }
  }
  return found;
}

std::string packed_file_name(int layer, int rank, int ranks) {
  return fmt::format("engram-l{}-r{}of{}.bin", layer, rank, ranks);
}

}  // namespace tandem::engram
