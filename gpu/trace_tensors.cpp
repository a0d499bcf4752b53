// Which names stay FP32 and which are split over ranks follows from the last part of a name.
#include "gpu/trace_tensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "gpu/numeric/bf16.hpp"

namespace tandem::gpu {
namespace {

constexpr std::array<std::string_view, 9> fp32_sites{"logits",     "decode",        "pre_in",
                                                     "pre_out",    "router_weight", "router_margin",
                                                     "sel_margin", "index_score",   "engram_gate"};
// [T, heads of this rank, d]
constexpr std::array<std::string_view, 2> sites_of_heads{"q_rot", "attn_o"};

std::string_view site_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

template <std::size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& sites) {
  return std::find(sites.begin(), sites.end(), site_of(name)) != sites.end();
}

bool stays_fp32(std::string_view name) {
  return site_of(name).starts_with("hc_") || is_one_of(name, fp32_sites);
}

void append_bf16(const float* from, std::int64_t count, std::vector<std::byte>& bytes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint16_t bits = float_to_bf16(from[i]);
    const auto* raw = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), raw, raw + sizeof(bits));
  }
}

// Adds a later rank's heads behind those of each row of `all`.
void add_heads(TraceTensor& all, const TraceTensor& part) {
  const auto rows = static_cast<std::size_t>(all.shape.front());
  const std::size_t width = rows == 0 ? 0 : all.bytes.size() / rows, added = rows == 0 ? 0 : part.bytes.size() / rows;
  std::vector<std::byte> joined;
  joined.reserve(all.bytes.size() + part.bytes.size());
  for (std::size_t row = 0; row < rows; ++row) {
    const std::byte *first = all.bytes.data() + row * width, *second = part.bytes.data() + row * added;
    joined.insert(joined.end(), first, first + width);
    joined.insert(joined.end(), second, second + added);
  }
  all.bytes = std::move(joined);
  all.shape[1] += part.shape[1];
}

}  // namespace

void CollectingProbe::record(const std::string& name, const Tensor& value, const std::vector<std::int64_t>& shape) {
  if (options_.own_heads_only && !is_one_of(name, sites_of_heads)) return;
  const bool pack = options_.rounds && value.dtype == DType::f32 && !stays_fp32(name);
  TraceTensor& kept = tensors_[name];
  kept.dtype = pack ? DType::bf16 : value.dtype;
  if (kept.shape.empty()) {
    kept.shape = shape;
  } else {
    kept.shape.front() += shape.front();
  }
  const std::size_t element = element_bytes(value.dtype);
  for (std::int64_t row = 0; row < value.rows; ++row) {
    const auto* from =
        static_cast<const std::byte*>(value.data) + static_cast<std::size_t>(row * value.stride) * element;
    if (pack) {
      append_bf16(value.row<float>(row), value.cols, kept.bytes);
    } else {
      kept.bytes.insert(kept.bytes.end(), from, from + static_cast<std::size_t>(value.cols) * element);
    }
  }
}

TraceTensors join_ranks(std::vector<TraceTensors> ranks) {
  TraceTensors joined = std::move(ranks.front());
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    for (const auto& [name, part] : ranks[rank]) add_heads(joined.at(name), part);
  }
  return joined;
}

}  // namespace tandem::gpu
