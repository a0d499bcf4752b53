// Asks the driver for a map: the library is linked without it, so the runtime names the function.
#include "gpu/cuda/exl3/row_map.hpp"

#include <cudaTypedefs.h>

#include "gpu/cuda/exl3/product.hpp"

namespace tandem::gpu::cuda {
namespace {

using EncodeTiled = PFN_cuTensorMapEncodeTiled_v12000;

struct Encoder {
  EncodeTiled encode = nullptr;
  cudaError_t error = cudaSuccess;

  Encoder() {
    constexpr unsigned version = 12000;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void* function = nullptr;
    error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, version, cudaEnableDefault, &found);
    if (error == cudaSuccess && found != cudaDriverEntryPointSuccess) error = cudaErrorNotSupported;
    encode = reinterpret_cast<EncodeTiled>(function);
  }
};

}  // namespace

cudaError_t map_rotated_rows(const Exl3Rotated& rotated, const RowTiles& tiles, CUtensorMap& map) {
  static const Encoder encoder;
  if (encoder.error != cudaSuccess) return encoder.error;
  constexpr cuuint32_t rank = 2;
  const cuuint64_t sizes[rank] = {static_cast<cuuint64_t>(tiles.inputs), static_cast<cuuint64_t>(tiles.rows)};
  const cuuint64_t row_bytes[rank - 1] = {sizes[0] * sizeof(std::uint16_t)};
  constexpr cuuint32_t box[rank] = {exl3_group, chunk_rows_large}, every[rank] = {1, 1};
  const CUresult result = encoder.encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, rotated.values, sizes, row_bytes,
                                         box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                         CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

unsigned multiprocessors() {
  static const int count = [] {
    int device = 0, found = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 1;
    const cudaError_t error = cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device);
    return error == cudaSuccess && found > 0 ? found : 1;
  }();
  return static_cast<unsigned>(count);
}

}  // namespace tandem::gpu::cuda
