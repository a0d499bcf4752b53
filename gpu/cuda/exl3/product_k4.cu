// The product kernels for weights of 4 bits.
#include "gpu/cuda/exl3/product_launch.cuh"

namespace tandem::gpu::cuda {

cudaError_t launch_product_k4(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job) {
  return launch_product_of_bits<4>(stream, shape, job);
}

}  // namespace tandem::gpu::cuda
