// Backends by their names. A build without CUDA knows the name too, and says what is missing.
#include "gpu/backend.hpp"

#include "gpu/cpu/cpu_ops.hpp"
#if defined(TANDEM_HAVE_CUDA)
#include "gpu/cuda/cuda_ops.hpp"
#endif
#if defined(TANDEM_HAVE_NCCL)
#include "gpu/comm/nccl_library.hpp"
#endif

namespace tandem::gpu {

bool has_backend(std::string_view name) noexcept {
#if defined(TANDEM_HAVE_CUDA)
  if (name == "cuda") return true;
#endif
  return name == "cpu";
}

int visible_devices() noexcept {
#if defined(TANDEM_HAVE_CUDA)
  return count_cuda_devices();
#else
  return 0;
#endif
}

NcclApi* find_nccl() noexcept {
#if defined(TANDEM_HAVE_NCCL)
  return &nccl_library();
#else
  return nullptr;
#endif
}

Result<std::unique_ptr<Ops>> make_ops(const BackendOptions& options) {
  if (options.name == "cpu") return make_cpu_ops(options.threads, options.order);
  if (options.name != "cuda") {
    return Error{ErrorCode::invalid_argument, "backend", "'" + options.name + "'", "cpu or cuda"};
  }
#if defined(TANDEM_HAVE_CUDA)
  CudaOptions cuda;
  cuda.device = options.device;
  return make_cuda_ops(cuda);
#else
  return Error{ErrorCode::bad_config, "backend", "cuda", "a build with TANDEM_CUDA=ON"};
#endif
}

}  // namespace tandem::gpu
