// What the operations of one CpuOps share: its threads and their scratch memory. One thread calls operations at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/cpu/product.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

struct CpuContext {
  explicit CpuContext(int threads) : pool(threads), products(static_cast<std::size_t>(pool.threads())) {}

  ThreadPool pool;
  std::vector<ProductScratch> products;  // one a worker
  std::vector<float> quantised;          // the Q8 copy of a product's input; grows to the largest one and stays

  ProductScratch& product(int worker) { return products[static_cast<std::size_t>(worker)]; }

  // Calls body(row) for every row in [0, rows); `cost` is roughly the number of elements a row touches.
  template <class Body>
  void for_each_row(std::int64_t rows, std::int64_t cost, const Body& body) {
    constexpr std::int64_t worth_a_thread = 16384;
    pool.parallel_for(rows, 1 + worth_a_thread / (cost + 1), [&](const WorkRange& range) {
      for (std::int64_t row = range.first; row < range.last; ++row) body(row);
    });
  }
};

// Returns pointers to the rows of x, of their Q8 copy in context.quantised if `q8`. Valid until the next call.
std::vector<const float*> product_rows(CpuContext& context, const Tensor& x, bool q8);

// Units of `macs` multiply-adds that make a thread worth waking.
constexpr std::int64_t unit_grain(std::int64_t macs) {
  return 1 + 131072 / (macs + 1);
}

}  // namespace tandem::gpu
