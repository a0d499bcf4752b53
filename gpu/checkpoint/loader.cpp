// Checks first, then one walk over all weights (weight_walk.hpp) with a loader that streams each of them.
#include "gpu/checkpoint/loader.hpp"

#include <fmt/format.h>

#include <new>

#include "gpu/checkpoint/inventory.hpp"
#include "gpu/checkpoint/matrix_loader.hpp"
#include "gpu/checkpoint/weight_walk.hpp"

namespace tandem::gpu {
namespace {

// Turns bytes done into rare progress calls.
class ProgressMeter {
 public:
  ProgressMeter(const LoadRequest& request, std::uint64_t bytes_all) : request_(request), bytes_all_(bytes_all) {}

  void add(std::uint64_t bytes, const std::string& name) {
    constexpr double step = 0.005;
    done_ += bytes;
    const double fraction = bytes_all_ == 0 ? 1.0 : static_cast<double>(done_) / static_cast<double>(bytes_all_);
    if (!request_.progress || (fraction < told_ + step && done_ < bytes_all_)) return;
    told_ = fraction;
    request_.progress(fraction, name);
  }

 private:
  const LoadRequest& request_;
  std::uint64_t bytes_all_;
  std::uint64_t done_ = 0;
  double told_ = 0;
};

// Bytes of the files that loading will pass over.
std::uint64_t file_bytes(const Checkpoint& checkpoint, std::span<const ExpectedTensor> inventory, bool with_draft) {
  std::uint64_t bytes = 0;
  for (const ExpectedTensor& tensor : inventory) {
    if (tensor.group == TensorGroup::engram_table || (tensor.group == TensorGroup::dspark && !with_draft)) continue;
    const Result<Storage> storage = find_storage(checkpoint, tensor);
    if (!storage) continue;
    for (const std::string& name : stored_names(checkpoint, tensor, *storage))
      bytes += checkpoint.find(name)->entry->bytes;
  }
  return bytes;
}

}  // namespace

Result<ModelWeights> load_weights(const Checkpoint& checkpoint, const ModelConfig& config, const LoadRequest& request) {
  if (auto divisible = check_ranks(config, request.ranks); !divisible) return divisible.error();
  if (request.rank < 0 || request.rank >= request.ranks) {
    return Error{ErrorCode::invalid_argument, "rank", std::to_string(request.rank),
                 fmt::format("0..{}", request.ranks - 1)};
  }
  const std::vector<ExpectedTensor> inventory = make_inventory(config);
  if (auto complete = check_inventory(checkpoint, config, inventory); !complete) return complete.error();
  const bool with_draft = request.draft && config.dspark.stages > 0;
  ProgressMeter meter(request, file_bytes(checkpoint, inventory, with_draft));
  try {
    MatrixLoader load(checkpoint, inventory, {request.rank, request.ranks},
                      TensorStream(request.piece_bytes, request.stop));
    load.place_with(request.placer);
    load.on_bytes([&meter](std::uint64_t bytes, const std::string& name) { meter.add(bytes, name); });
    ModelWeights weights;
    walk_weights(load, weights, config, with_draft);
    if (load.error()) return *load.error();
    weights.bytes = load.resident_bytes();
    return weights;
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::resource, checkpoint.folder().string(), "not enough memory for this rank's weights", ""};
  }
}

Result<ModelWeights> load_weights(const std::filesystem::path& folder, const ModelConfig& config,
                                  const LoadRequest& request) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return checkpoint.error();
  return load_weights(*checkpoint, config, request);
}

}  // namespace tandem::gpu
