# cmake --build build --target check: clang-format and clang-tidy (both of version 14, whose layout
# the tree follows), then the tests that guard the tree's shape.  Ninja runs tidy in parallel and
# again only for the texts whose sources changed.  What is not installed is left out, and said.
find_program(KDA_CLANG_FORMAT clang-format-14)
find_program(KDA_CLANG_TIDY clang-tidy-14)
set(root "${PROJECT_SOURCE_DIR}")

file(GLOB_RECURSE formatted CONFIGURE_DEPENDS "${root}/include/*.h*" "${root}/src/*.[ch]pp"
  "${root}/templates/*.h" "${root}/templates/*.cu*" "${root}/tests/*.[ch]pp" "${root}/tools/*.[ch]pp"
  "${root}/tests/*.c" "${root}/tools/*.c")
file(GLOB tidied CONFIGURE_DEPENDS "${root}/src/*/*.cpp" "${root}/tools/*.cpp" "${root}/tools/*/*.cpp")

set(steps "")
set(left_out "")
if(KDA_CLANG_FORMAT)
  add_custom_target(check_format COMMAND ${KDA_CLANG_FORMAT} --dry-run -Werror ${formatted}
    COMMENT "clang-format over the tree" VERBATIM)
  list(APPEND steps check_format)
else()
  list(APPEND left_out COMMAND ${CMAKE_COMMAND} -E echo
    "check: the layout is not checked, as there is no clang-format-14")
endif()

if(KDA_CLANG_TIDY AND KDA_BUILD_TOOLS)
  set(script "${root}/tools/cmake/tidy.sh")
  set(settings "${root}/.clang-tidy" "${root}/tools/.clang-tidy")
  set(stamps "")
  # kda_tidy(<stamp> <what> <mode> <argument of tidy.sh>...)
  function(kda_tidy stamp what mode)
    set(sources ${ARGN})
    list(FILTER sources INCLUDE REGEX "[.]cpp$")
    add_custom_command(OUTPUT "${stamp}"
      COMMAND "${script}" ${KDA_CLANG_TIDY} "${PROJECT_BINARY_DIR}" ${mode} ${ARGN}
      COMMAND ${CMAKE_COMMAND} -E touch "${stamp}"
      DEPENDS ${sources} "${script}" ${settings} COMMENT "clang-tidy ${what}" VERBATIM)
    set(stamps ${stamps} "${stamp}" PARENT_SCOPE)
  endfunction()

  # A text of several sources has their settings.
  foreach(path IN LISTS settings)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${root}" OUTPUT_VARIABLE name)
    configure_file("${path}" "${PROJECT_BINARY_DIR}/tidy/${name}" COPYONLY)
  endforeach()
  # Half of a text's time is what all include: two texts of src and two of tools, for two cores.
  # Sources are dealt in turn, as those that share names, like strategies, lie side by side.
  set(turn 0)
  foreach(path IN LISTS tidied)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${root}" OUTPUT_VARIABLE name)
    string(REGEX MATCH "^[a-z]+" part ${name})
    list(APPEND "${part}_${turn}" "${path}")
    math(EXPR turn "1 - ${turn}")
  endforeach()
  foreach(text src_0 src_1 tools_0 tools_1)
    string(REPLACE "_" "/" folder ${text})
    set(work "${PROJECT_BINARY_DIR}/tidy/${folder}")
    file(MAKE_DIRECTORY "${work}")
    kda_tidy("${work}/together.ok" ${folder} together "${work}" ${${text}})
  endforeach()
  foreach(path IN LISTS tidied)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${root}" OUTPUT_VARIABLE name)
    kda_tidy("${PROJECT_BINARY_DIR}/tidy/${name}.ok" ${name} alone "${path}")
  endforeach()
  add_custom_target(check_tidy DEPENDS ${stamps})
  list(APPEND steps check_tidy)
elseif(KDA_CLANG_TIDY)
  list(APPEND left_out COMMAND ${CMAKE_COMMAND} -E echo
    "check: clang-tidy is not run, as KDA_BUILD_TOOLS is off")
else()
  list(APPEND left_out COMMAND ${CMAKE_COMMAND} -E echo
    "check: clang-tidy is not run, as there is no clang-tidy-14")
endif()

add_custom_target(check ${left_out} DEPENDS ${steps} VERBATIM)
if(KDA_BUILD_TESTS)
  add_custom_command(TARGET check POST_BUILD
    COMMAND ${CMAKE_CTEST_COMMAND} --output-on-failure -R "^(tree|templates)$" VERBATIM)
  foreach(room tree templates)
    if(TARGET kda_test_${room})
      add_dependencies(check kda_test_${room})
    endif()
  endforeach()
endif()
