# Compiler settings shared by every target: language level, warnings, exact floating point, sanitizers, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(TANDEM_WERROR "Warnings are errors" ON)

add_library(tandem_options INTERFACE)
target_compile_options(tandem_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra> $<$<COMPILE_LANGUAGE:CXX>:-Wno-psabi>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TANDEM_WERROR}>>:-Werror>
  # The bits of a row must not depend on how the compiler groups operations: no contraction, no fast math.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # These judge by what was inlined, which changes with the compiler's version and with what else a unity batch holds, and then accuse
  # libraries: they stay visible, but must not break a build.
  foreach(warning stringop-overflow stringop-overread array-bounds maybe-uninitialized restrict dangling-pointer)
    target_compile_options(tandem_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=${warning}>)
  endforeach()
endif()
target_include_directories(tandem_options INTERFACE "${CMAKE_SOURCE_DIR}")

if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumentation hides initialisations from this analysis: it then accuses the standard library itself.
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
  if(TANDEM_SANITIZE MATCHES "thread")
    add_compile_options(-Wno-tsan)
  endif()
  if(TANDEM_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined -fno-sanitize=null)
  endif()
endif()

find_program(TANDEM_CCACHE ccache)
if(TANDEM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TANDEM_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${TANDEM_CCACHE}")
endif()
find_program(TANDEM_MOLD mold)
if(TANDEM_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  add_link_options(-fuse-ld=mold)
endif()
