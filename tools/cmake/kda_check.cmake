# cmake --build build --target check: clang-format and clang-tidy (both of version 14, whose layout
# the tree follows), then the tests that guard the tree's shape.  Ninja runs tidy in parallel and
# again only for sources that changed.
find_program(KDA_CLANG_FORMAT clang-format-14)
find_program(KDA_CLANG_TIDY clang-tidy-14)
set(root "${PROJECT_SOURCE_DIR}")

file(GLOB_RECURSE formatted CONFIGURE_DEPENDS "${root}/include/*.h*" "${root}/src/*.[ch]pp"
  "${root}/templates/*.h" "${root}/templates/*.cu*" "${root}/tests/*.[ch]pp" "${root}/tools/*.[ch]pp"
  "${root}/tests/*.c" "${root}/tools/*.c")
file(GLOB tidied CONFIGURE_DEPENDS "${root}/src/*/*.cpp" "${root}/tools/*.cpp" "${root}/tools/*/*.cpp")

set(steps "")
if(KDA_CLANG_FORMAT)
  add_custom_target(check_format COMMAND ${KDA_CLANG_FORMAT} --dry-run -Werror ${formatted}
    COMMENT "clang-format over the tree" VERBATIM)
  list(APPEND steps check_format)
endif()

if(KDA_CLANG_TIDY AND KDA_BUILD_TOOLS)
  set(stamps "")
  foreach(path IN LISTS tidied)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${root}" OUTPUT_VARIABLE name)
    set(stamp "${PROJECT_BINARY_DIR}/tidy/${name}.ok")
    cmake_path(GET stamp PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    add_custom_command(OUTPUT "${stamp}"
      COMMAND ${KDA_CLANG_TIDY} --quiet -p "${PROJECT_BINARY_DIR}" "${path}"
      COMMAND ${CMAKE_COMMAND} -E touch "${stamp}"
      DEPENDS "${path}" "${root}/.clang-tidy" "${root}/tools/.clang-tidy"
      COMMENT "clang-tidy ${name}" VERBATIM)
    list(APPEND stamps "${stamp}")
  endforeach()
  add_custom_target(check_tidy DEPENDS ${stamps})
  list(APPEND steps check_tidy)
endif()

add_custom_target(check DEPENDS ${steps})
if(KDA_BUILD_TESTS)
  add_custom_command(TARGET check POST_BUILD
    COMMAND ${CMAKE_CTEST_COMMAND} --output-on-failure -R "^(tree|templates)$" VERBATIM)
  foreach(room tree templates)
    if(TARGET kda_test_${room})
      add_dependencies(check kda_test_${room})
    endif()
  endforeach()
endif()
