// Launches with attributes: as a dependent of the kernel before (it may start early and waits itself), and in clusters.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace tandem::gpu::cuda {

struct LaunchShape {
  dim3 grid;
  int threads = 0;
  int cluster = 1;               // blocks along x
  std::size_t shared_bytes = 0;  // dynamic
};

template <class... Parameters, class... Arguments>
cudaError_t launch_dependent(cudaStream_t stream, const LaunchShape& shape, void (*kernel)(Parameters...),
                             const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = shape.cluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace tandem::gpu::cuda
