# The CUDA language for one architecture: TANDEM_CUDA_ARCH is 90a (H100, H200) or 121a (GB10). Included only with
# TANDEM_CUDA=ON; sets TANDEM_HAVE_CUDA, and TANDEM_HAVE_NCCL.
set(TANDEM_CUDA_ARCH "90a" CACHE STRING "Compute capability that the kernels are compiled for")
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)  # often not on PATH
endif()
set(CMAKE_CUDA_ARCHITECTURES OFF)  # -gencode is ours: CMake 3.25 knows nothing past 90
if(CMAKE_VERSION VERSION_LESS 3.26)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit 13.0 REQUIRED)

# As on the host: no contraction that is not written down. Kernels say fmaf where they mean it.
add_library(tandem_cuda_options INTERFACE)
target_compile_options(tandem_cuda_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-gencode arch=compute_${TANDEM_CUDA_ARCH},code=sm_${TANDEM_CUDA_ARCH}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;--expt-relaxed-constexpr;-Xfatbin=-compress-all>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-ffp-contract=off>")
target_link_libraries(tandem_cuda_options INTERFACE CUDA::cudart_static)
set(TANDEM_HAVE_CUDA ON)

# Ranks with a device each exchange through NCCL where it is installed; without it they go through host memory.
option(TANDEM_NCCL "Use NCCL if it is found" ON)
find_path(TANDEM_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(TANDEM_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
if(TANDEM_NCCL AND TANDEM_NCCL_INCLUDE AND TANDEM_NCCL_LIBRARY)
  add_library(tandem_nccl INTERFACE)
  target_include_directories(tandem_nccl SYSTEM INTERFACE ${TANDEM_NCCL_INCLUDE})
  target_link_libraries(tandem_nccl INTERFACE ${TANDEM_NCCL_LIBRARY})
  target_compile_definitions(tandem_nccl INTERFACE TANDEM_HAVE_NCCL=1)
  set(TANDEM_HAVE_NCCL ON)
endif()
