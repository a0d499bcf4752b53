// Ids are dealt out to the stores that hold them; each store reads its share in one batch.
#include "engram/split_store.hpp"

#include <algorithm>

namespace tandem::engram {
namespace {

// The ids of one store and the places where their rows go.
struct Share {
  std::vector<RowId> ids;
  std::vector<std::size_t> places;
};

class SplitStore final : public RowStore {
 public:
  explicit SplitStore(std::vector<std::unique_ptr<RowStore>> stores) : stores_(std::move(stores)) {}

  const TableInfo& info() const noexcept override { return stores_.back()->info(); }

  Result<void> read(std::span<const RowId> ids, RowBlock out) override {
    std::vector<Share> shares(stores_.size());
    for (std::size_t place = 0; place < ids.size(); ++place) {
      Share& share = shares[store_of(ids[place])];
      share.ids.push_back(ids[place]);
      share.places.push_back(place);
    }
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      // Also the way of an `out` of the wrong size, so that the store refuses it.
      if (shares[i].ids.size() == ids.size()) return stores_[i]->read(ids, out);
    }
    for (std::size_t i = 0; i < stores_.size(); ++i) {
      if (auto done = read_share(*stores_[i], shares[i], ids.size(), out); !done) return done;
    }
    return {};
  }

 private:
  // The source stands last and takes what nobody else holds, ids beyond the table included: it refuses them.
  std::size_t store_of(RowId id) const noexcept {
    const std::int64_t row = index_of(id);
    std::size_t store = 0;
    while (store + 1 < stores_.size()) {
      const TableInfo& part = stores_[store]->info();
      if (row >= part.first_row && row < part.last_row) break;
      ++store;
    }
    return store;
  }

  Result<void> read_share(RowStore& store, const Share& share, std::size_t rows, RowBlock out) const {
    if (share.ids.empty()) return {};
    const auto head_dim = static_cast<std::size_t>(info().shape.head_dim);
    const auto scales = static_cast<std::size_t>(info().shape.scales());
    if (out.codes.size() != rows * head_dim || out.scales.size() != rows * scales) {
      return Error{ErrorCode::invalid_argument, "Engram rows", "room of the wrong size", "one place a row"};
    }
    std::vector<E4m3> codes(share.ids.size() * head_dim);
    std::vector<E8m0> row_scales(share.ids.size() * scales);
    if (auto read = store.read(share.ids, {codes, row_scales}); !read) return read;
    for (std::size_t i = 0; i < share.places.size(); ++i) {
      std::copy_n(codes.data() + i * head_dim, head_dim, out.codes.data() + share.places[i] * head_dim);
      std::copy_n(row_scales.data() + i * scales, scales, out.scales.data() + share.places[i] * scales);
    }
    return {};
  }

  std::vector<std::unique_ptr<RowStore>> stores_;
};

}  // namespace

std::unique_ptr<RowStore> make_split_store(std::unique_ptr<RowStore> whole,
                                           std::vector<std::unique_ptr<RowStore>> parts) {
  if (parts.empty()) return whole;
  parts.push_back(std::move(whole));
  return std::make_unique<SplitStore>(std::move(parts));
}

}  // namespace tandem::engram
