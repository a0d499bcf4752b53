// Settings to variables; see gpu/comm/nccl_environment.hpp for what they are.
#include "ops/fabric_environment.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "gpu/backend.hpp"
#include "gpu/comm/nccl_environment.hpp"

namespace tandem::ops {

Result<void> prepare_fabric(const Settings& settings, int rank) {
  const std::string node = rank == 0 ? "fabric.head_" : "fabric.worker_";
  const gpu::NcclFabric fabric{settings.text(node + "if"), settings.text(node + "hca"), settings.text(node + "gid")};
  auto variables = gpu::nccl_environment(fabric);
  if (!variables) {
    Error error = variables.error();
    error.where += fmt::format(" ({}*)", node);
    return error;
  }
  const bool is_used = gpu::find_nccl() != nullptr && settings.text("model.backend") == "cuda" &&
                       settings.integer("ranks") > 1 && settings.text("fabric.exchange") != "host";
  if (!is_used) return {};
  std::string told;
  for (const gpu::NcclVariable& variable : *variables) {
    ::setenv(variable.name.c_str(), variable.value.c_str(), variable.is_wish ? 1 : 0);
    const char* value = std::getenv(variable.name.c_str());
    told += fmt::format(" {}={}", variable.name, value == nullptr ? "" : value);
  }
  spdlog::info("NCCL:{}", told);
  return {};
}

}  // namespace tandem::ops
