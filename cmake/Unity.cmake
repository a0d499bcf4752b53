# Compiles the sources of a target five at a time: they share the parsing of the same headers, which is most of a clean build's time (a
# precompiled header was measured as well: g++ maps 100 to 300 MB of it into every compiler, which costs what it saves). What a source
# keeps in its anonymous namespace must therefore have a name of its own within the target. -DTANDEM_UNITY=OFF compiles each alone.
option(TANDEM_UNITY "Compile several sources of a target together" ON)

function(tandem_unity target)
  if(NOT TANDEM_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    # Sources that highway compiles once for each instruction set include themselves: they stand alone.
    file(STRINGS ${source} self_including REGEX "hwy/foreach_target.h")
    if(self_including)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It judges by the main file, which is now the one that includes the sources.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()
