// The shared ascending prime search and the checks around it.
//
// Each (layer, order) group of heads starts its search just above vocab_size - 1 and takes the next primes that no
// earlier column of any layer has taken. Worked example, vocab_size 64, 2 heads, orders 2 and 3: order 2 takes 67 71,
// order 3 skips those: 73 79.
#include "engram/geometry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "engram/numpy_random.hpp"

namespace tandem::engram {
namespace {

constexpr std::int64_t rows_max = std::numeric_limits<std::int32_t>::max();  // a RowId has 31 bits

bool is_prime(std::uint64_t n) noexcept {
  if (n < 4) return n >= 2;
  if (n % 2 == 0) return false;
  for (std::uint64_t d = 3; d * d <= n; d += 2) {
    if (n % d == 0) return false;
  }
  return true;
}

std::uint64_t next_unused_prime(std::uint64_t after, std::set<std::uint64_t>& used) {
  std::uint64_t candidate = after + 1;
  while (used.contains(candidate) || !is_prime(candidate)) ++candidate;
  used.insert(candidate);
  return candidate;
}

Error bad(const char* field, std::int64_t found, std::string expected) {
  return {ErrorCode::bad_config, field, std::to_string(found), std::move(expected)};
}

Result<void> check_numbers(const GeometrySpec& spec) {
  if (spec.max_ngram < 2 || spec.max_ngram > 16) return bad("engram_max_ngram_size", spec.max_ngram, "2 to 16");
  if (spec.heads < 1 || spec.heads > 256) return bad("engram_n_heads", spec.heads, "1 to 256");
  if (spec.head_dim < 32 || spec.head_dim > 65536 || spec.head_dim % 32 != 0) {
    return bad("engram_head_dim", spec.head_dim, "a multiple of 32 up to 65536");
  }
  if (spec.vocab_size < 1 || spec.vocab_size > rows_max) {
    return bad("engram_vocab_size", spec.vocab_size, fmt::format("1 to {}", rows_max));
  }
  const std::int64_t classes = spec.compressed_vocab_size;
  if (classes < 1 || classes > rows_max)
    return bad("engram_compressed_vocab_size", classes, fmt::format("1 to {}", rows_max));
  if (spec.pad_class < 0 || spec.pad_class >= classes) {
    return bad("class of engram_pad_token_id", spec.pad_class, fmt::format("0 to {}", classes - 1));
  }
  return {};
}

Result<void> check_lists(const GeometrySpec& spec) {
  if (spec.rows.size() != spec.layers.size()) {
    return Error{ErrorCode::bad_config, "engram_num_embeddings", fmt::format("{} entries", spec.rows.size()),
                 fmt::format("one for each of the {} engram_layer_ids", spec.layers.size())};
  }
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const bool ascending = i == 0 || spec.layers[i] > spec.layers[i - 1];
    if (spec.layers[i] < 0 || !ascending) return bad("engram_layer_ids", spec.layers[i], "ascending numbers from 0");
  }
  return {};
}

LayerGeometry make_layer(const GeometrySpec& spec, int layer, std::set<std::uint64_t>& used) {
  LayerGeometry out;
  out.layer = layer;
  out.multipliers = hash_multipliers(layer, spec.compressed_vocab_size, spec.max_ngram);
  std::uint64_t offset = 0;
  for (int order = 2; order <= spec.max_ngram; ++order) {
    auto last = static_cast<std::uint64_t>(spec.vocab_size - 1);
    for (int head = 0; head < spec.heads; ++head) {
      last = next_unused_prime(last, used);
      out.primes.push_back(last);
      out.offsets.push_back(offset);
      offset += last;
    }
  }
  out.rows = static_cast<std::int64_t>(offset);
  return out;
}

}  // namespace

std::vector<std::uint64_t> hash_multipliers(int layer, std::int64_t classes, int count) {
  // The bound keeps class * multiplier below 2^63: products never overflow a signed 64-bit integer.
  const std::int64_t bound = std::numeric_limits<std::int64_t>::max() / classes / 2;
  NumpyRandom random(10007ULL * static_cast<std::uint64_t>(layer));
  std::vector<std::uint64_t> multipliers;
  for (int i = 0; i < count; ++i) {
    multipliers.push_back(2 * random.below(static_cast<std::uint64_t>(std::max<std::int64_t>(bound, 1))) + 1);
  }
  return multipliers;
}

Result<Geometry> Geometry::make(const GeometrySpec& spec) {
  if (auto checked = check_numbers(spec); !checked) return checked.error();
  if (auto checked = check_lists(spec); !checked) return checked.error();
  Geometry geometry{spec.max_ngram, spec.heads, spec.head_dim, spec.compressed_vocab_size, spec.pad_class, {}};
  std::set<std::uint64_t> used;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    // Refused before the search, which would be long for absurd sizes.
    if (spec.vocab_size * geometry.columns() > rows_max) {
      return bad("engram_vocab_size", spec.vocab_size,
                 fmt::format("at most {} rows in {} columns", rows_max, geometry.columns()));
    }
    auto layer = make_layer(spec, spec.layers[i], used);
    if (layer.rows != spec.rows[i] || layer.rows > rows_max) {
      return Error{ErrorCode::mismatch, fmt::format("engram_num_embeddings of layer {}", layer.layer),
                   std::to_string(spec.rows[i]), fmt::format("{}, the sum of the bucket primes", layer.rows)};
    }
    geometry.layers.push_back(std::move(layer));
  }
  return geometry;
}

Result<Ownership> Geometry::owned(std::size_t layer_index, int rank, int ranks) const {
  if (layer_index >= layers.size() || ranks < 1 || rank < 0 || rank >= ranks) {
    return Error{ErrorCode::invalid_argument, "Engram ownership",
                 fmt::format("layer index {}, rank {} of {}", layer_index, rank, ranks), "an existing layer and rank"};
  }
  const int share = (columns() + ranks - 1) / ranks;
  const int first = rank * share;
  if (first >= columns()) {
    return Error{ErrorCode::invalid_argument, "Engram ownership",
                 fmt::format("{} columns for {} ranks", columns(), ranks), "at least one column for every rank"};
  }
  const int last = std::min(first + share, columns());
  const LayerGeometry& layer = layers[layer_index];
  const auto row_at = [&](int column) {
    return column == columns() ? layer.rows
                               : static_cast<std::int64_t>(layer.offsets[static_cast<std::size_t>(column)]);
  };
  return Ownership{first, last, row_at(first), row_at(last)};
}

}  // namespace tandem::engram
