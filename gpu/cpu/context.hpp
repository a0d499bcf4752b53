// What the operations of one CpuOps share: its threads and their scratch memory. One thread calls operations at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/cpu/product.hpp"
#include "gpu/cpu/reference_rows.hpp"
#include "gpu/cpu/simd/kernels.hpp"
#include "gpu/cpu/thread_pool.hpp"
#include "gpu/tensor.hpp"

namespace tandem::gpu {

struct CpuContext {
  explicit CpuContext(int threads, SumOrder sum_order)
      : order(sum_order),
        pool(threads),
        products(static_cast<std::size_t>(pool.threads()), ProductScratch(sum_order)) {}

  SumOrder order;
  ThreadPool pool;
  std::vector<ProductScratch> products;  // one a worker
  std::vector<float> quantised;          // the Q8 copy of a product's input; grows to the largest one and stays

  ProductScratch& product(int worker) { return products[static_cast<std::size_t>(worker)]; }

  // Sums over a row in the order of this backend; see simd/kernels.hpp and reference_rows.hpp.
  bool in_reference_order() const noexcept { return order == SumOrder::reference; }
  float sum_of_squares(const float* x, std::int64_t n) const {
    return in_reference_order() ? reference_sum_of_squares(x, n) : simd::sum_of_squares(x, n);
  }
  float dot3(const float* a, const float* b, const float* c, std::int64_t n) const {
    return in_reference_order() ? reference_dot3(a, b, c, n) : simd::dot3(a, b, c, n);
  }
  void add_scaled(float a, const float* x, std::int64_t n, float* y) const {
    in_reference_order() ? reference_add_scaled(a, x, n, y) : simd::add_scaled(a, x, n, y);
  }

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
