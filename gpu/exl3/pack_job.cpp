// The identity is FNV-1a over texts. Of each tensor its place and its first bytes count: enough to tell a model that
// was trained again from the one that a pack was begun with, without reading hundreds of gigabytes.
#include "gpu/exl3/pack_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gpu/checkpoint/exl3_tensors.hpp"
#include "gpu/exl3/codebook.hpp"
#include "gpu/exl3/model_study.hpp"

namespace tandem::gpu::exl3 {
namespace {

constexpr int method = 1;  // changes with every change of the quantiser that changes its results

class Identity {
 public:
  void add(std::string_view text) {
    for (const char c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
    value_ = (value_ ^ 0xFFU) * 0x100000001B3U;  // "ab", "c" is not "a", "bc"
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

Result<void> add_tensors(Identity& identity, const Checkpoint& checkpoint) {
  constexpr std::uint64_t sample_bytes = 64;
  for (const auto& [name, place] : checkpoint.tensors()) {
    const TensorEntry& entry = *place.entry;
    std::array<std::byte, sample_bytes> sample{};
    const auto count = static_cast<std::size_t>(std::min(sample_bytes, entry.bytes));
    if (auto ok = place.shard->read(entry, 0, std::span(sample).first(count)); !ok) return ok;
    identity.add(fmt::format("{} {} {}", name, describe(entry.dtype, entry.shape), entry.offset));
    identity.add({reinterpret_cast<const char*>(sample.data()), count});
  }
  return {};
}

Result<std::string> identify(const PackJob& job) {
  const PackOptions& options = job.options;
  Identity identity;
  identity.add(fmt::format("{} {} {} {} {} {} {} {}", method, options.bits, options.widths.head, options.widths.draft,
                           to_string(options.codebook), static_cast<int>(options.layout), options.packed_only,
                           options.only));
  for (const auto& sequence : options.sequences) {
    identity.add({reinterpret_cast<const char*>(sequence.data()), sequence.size() * sizeof(std::int32_t)});
  }
  if (auto ok = add_tensors(identity, job.checkpoint); !ok) return ok.error();
  return identity.text();
}

Result<void> check(const PackOptions& options) {
  if (!(options.bits >= 1 && options.bits <= bits_max)) {
    return Error{ErrorCode::invalid_argument, "bits", fmt::format("{}", options.bits), "1 to 8"};
  }
  return {};
}

Result<void> check_is_official(const PackJob& job) {
  for (const ExpectedTensor& tensor : job.inventory) {
    if (tensor.use != TensorUse::matrix || !has_exl3(job.checkpoint, tensor)) continue;
    return Error{ErrorCode::invalid_argument, job.options.model.string() + ": " + tensor.module_name(),
                 "packed already", "a checkpoint in official formats"};
  }
  return {};
}

}  // namespace

Result<PackJob> PackJob::open(const PackOptions& options) {
  if (auto ok = check(options); !ok) return ok.error();
  auto config = ModelConfig::load(options.model);
  if (!config) return config.error();
  if (auto ok = check_calibration(options.sequences, *config); !ok) return ok.error();
  auto checkpoint = Checkpoint::open(options.model);
  if (!checkpoint) return checkpoint.error();
  PackJob job{options, std::move(*config), std::move(*checkpoint), {}, {}, {}};
  job.inventory = make_inventory(job.config);
  if (auto ok = check_inventory(job.checkpoint, job.config, job.inventory); !ok) return ok.error();
  if (auto ok = check_is_official(job); !ok) return ok.error();
  std::vector<ExpectedTensor> chosen = job.inventory;
  std::erase_if(chosen, [&](const ExpectedTensor& tensor) { return !tensor.name.starts_with(options.only); });
  job.plan = make_pack_plan(chosen, options.layout, options.widths);
  if (job.plan.matrices.empty()) {
    return Error{ErrorCode::invalid_argument, options.model.string(),
                 options.only.empty() ? "no matrix whose sides are multiples of 128"
                                      : "no such matrix beginning with " + options.only,
                 "matrices that EXL3 can hold"};
  }
  auto identity = identify(job);
  if (!identity) return identity.error();
  job.identity = std::move(*identity);
  return job;
}

bool PackJob::refers_natives() const noexcept {
  return options.packed_only || !options.only.empty() || options.layout == PackLayout::experts;
}

}  // namespace tandem::gpu::exl3
