// FileRowStore: the one RowStore over files, whatever lies in them. A table is one or two parts, each a row-major
// extent of a file whose rows hold codes, scales or both; the official shards have two parts, a packed file one.
#pragma once

#include <memory>
#include <vector>

#include "engram/read_plan.hpp"
#include "engram/row_store.hpp"

namespace tandem::engram {

// An extent of rows; each row has `code_bytes` codes followed by `scale_bytes` scales, either may be 0.
struct TablePart {
  std::unique_ptr<InputFile> file;
  std::uint64_t offset = 0;  // of row info.first_row
  std::size_t code_bytes = 0;
  std::size_t scale_bytes = 0;
  std::size_t row_bytes() const noexcept { return code_bytes + scale_bytes; }
};

class FileRowStore final : public RowStore {
 public:
  // Errors: bad_config (a row does not fit one read), invalid_argument (range of rows).
  static Result<std::unique_ptr<RowStore>> make(const TableInfo& info, std::vector<TablePart> parts,
                                                std::shared_ptr<Storage> storage);

  // For make() only: nothing is checked.
  FileRowStore(const TableInfo& info, std::vector<TablePart> parts, std::shared_ptr<Storage> storage);

  const TableInfo& info() const noexcept override { return info_; }
  Result<void> read(std::span<const RowId> ids, RowBlock out) override;

 private:
  Result<void> check(std::span<const RowId> ids, const RowBlock& out) const;
  Result<void> fetch(const DistinctRows& distinct, const RowBlock& out);
  Result<void> check_numbers(const DistinctRows& distinct, const RowBlock& out) const;

  TableInfo info_;
  std::vector<TablePart> parts_;
  std::shared_ptr<Storage> storage_;
};

}  // namespace tandem::engram
