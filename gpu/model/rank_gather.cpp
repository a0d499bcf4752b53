// Communicators exchange host bytes: a backend with its own memory goes through a copy on each side, unless it can
// exchange on its device with this group.
#include "gpu/model/rank_gather.hpp"

namespace tandem::gpu {

Result<void> gather_over_ranks(const StepContext& step, const Tensor& own, const Tensor& all) {
  Memory& memory = step.ops().memory();
  Communicator& communicator = *step.model.communicator;
  if (memory.is_host()) return communicator.all_gather(bytes_of(own), bytes_of(all));
  if (step.ops().gather(communicator, own, all)) return {};
  const Buffer sent = Buffer::host(bytes_of(own).size());
  const Buffer received = Buffer::host(bytes_of(all).size());
  if (auto ok = memory.download(own.data, {sent.data.get(), sent.bytes}); !ok) return ok;
  const std::span<std::byte> gathered(received.data.get(), received.bytes);
  if (auto ok = communicator.all_gather({sent.data.get(), sent.bytes}, gathered); !ok) return ok;
  memory.upload(gathered, all.data);
  return {};
}

}  // namespace tandem::gpu
