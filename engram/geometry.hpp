// Geometry of the Engram tables: hash multipliers, bucket primes and row offsets of every Engram layer, computed from
// the few numbers in a model's configuration and checked against the table sizes that the configuration declares.
//
// A column is one (n-gram order, hash head) pair, order-major: column k = (order - 2) * heads + head. Column k of a
// layer owns the rows [offset[k], offset[k] + prime[k]) of the layer's table. Wrong geometry gives plausible but worse
// text, never a crash; the sums of the primes are the one check that every model carries with it, so make() insists on
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "engram/error.hpp"

namespace tandem::engram {

// Class of a token after vocabulary compression, see TokenMap.
using ClassId = std::int32_t;

// The numbers as they stand in config.json (engram_*); `pad_class` is the class of engram_pad_token_id.
struct GeometrySpec {
  std::vector<int> layers;                 // engram_layer_ids, ascending
  std::vector<std::int64_t> rows;          // engram_num_embeddings, one per layer
  int max_ngram = 4;                       // orders 2..max_ngram
  int heads = 8;                           // hash heads per order
  int head_dim = 256;                      // values of one row, a multiple of 32
  std::int64_t vocab_size = 16'000'000;    // every bucket has at least this many rows
  std::int64_t compressed_vocab_size = 0;  // number of classes
  ClassId pad_class = 2;                   // stands for "nothing there"
};

struct LayerGeometry {
  int layer = 0;                           // backbone layer number
  std::vector<std::uint64_t> multipliers;  // [max_ngram], index = how far back; odd
  std::vector<std::uint64_t> primes;       // [columns], rows of the column's bucket
  std::vector<std::uint64_t> offsets;      // [columns], first row of the column's bucket
  std::int64_t rows = 0;                   // sum of the primes
};

// Half-open ranges of one rank: whole columns, hence one contiguous range of rows.
struct Ownership {
  int first_column = 0, last_column = 0;
  std::int64_t first_row = 0, last_row = 0;
};

struct Geometry {
  int max_ngram = 0;
  int heads = 0;
  int head_dim = 0;
  std::int64_t classes = 0;
  ClassId pad_class = 0;
  std::vector<LayerGeometry> layers;

  int columns() const noexcept { return (max_ngram - 1) * heads; }
  int look_back() const noexcept { return max_ngram - 1; }  // how many earlier tokens a position depends on

  // Errors: bad_config naming the field; mismatch if a layer's primes do not sum to its declared rows.
  static Result<Geometry> make(const GeometrySpec& spec);

  // Returns what `rank` of `ranks` owns of layers[layer_index]: ceil(columns / ranks) columns each. Errors:
  // invalid_argument if a rank would own nothing.
  Result<Ownership> owned(std::size_t layer_index, int rank, int ranks) const;
};

// Returns the `count` hash multipliers of backbone layer `layer`: odd, below 2^63 / classes, draws of NumPy's generator
// seeded with 10007 * layer. Requires 0 < classes <= 2^31.
std::vector<std::uint64_t> hash_multipliers(int layer, std::int64_t classes, int count);

}  // namespace tandem::engram
