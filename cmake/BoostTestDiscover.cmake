# Registers every Boost.Test case of an executable with CTest after it is built: CMake has no discovery of its own for it.
set(BOOST_TEST_LIST_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/BoostTestList.cmake)
function(boost_discover_tests target)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set(listing ${CMAKE_CURRENT_BINARY_DIR}/${target}_tests.cmake)
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${listing}
    COMMAND ${CMAKE_COMMAND} -DEXE=$<TARGET_FILE:${target}> -DOUT=${listing} -DPREFIX=${target}
            -DTIMEOUT=${ARG_TIMEOUT} "-DLABELS=${ARG_LABELS}" -P ${BOOST_TEST_LIST_SCRIPT} VERBATIM)
  file(WRITE ${include}
    "if(EXISTS \"${listing}\")\n  include(\"${listing}\")\nelse()\n  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()
