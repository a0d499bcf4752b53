// SplitStore: one whole table put together from several stores: ranges of rows from packed files, the rest from the
// source.
#pragma once

#include <memory>
#include <vector>

#include "engram/row_store.hpp"

namespace tandem::engram {

// Rows inside a part's range come from that part (the first that has them), all others from `whole`, which holds the
// whole table. Requires that all stores have the shape and rows of `whole`.
std::unique_ptr<RowStore> make_split_store(std::unique_ptr<RowStore> whole,
                                           std::vector<std::unique_ptr<RowStore>> parts);

}  // namespace tandem::engram
