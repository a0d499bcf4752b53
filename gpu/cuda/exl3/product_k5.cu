// The product kernels for weights of 5 bits.
#include "gpu/cuda/exl3/product_launch.cuh"

namespace tandem::gpu::cuda {

cudaError_t launch_product_k5(cudaStream_t stream, const LaunchShape& shape, const ProductJob& job) {
  return launch_product_of_bits<5>(stream, shape, job);
}

}  // namespace tandem::gpu::cuda
