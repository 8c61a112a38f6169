# cmake -D MODE=... -D SOURCE=<repository> -D BUILD=<its build> -D WORK=<folder> ... -P check.cmake
# Configures, builds and runs the consumer:
#   package       against the build's own install
#   subdirectory  with add_subdirectory and shared libraries; installs that build too
#   shared        against the install that `subdirectory` left
# and what a project in C alone gets of each.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result COMMAND_ECHO STDOUT)
  if(result)
    message(FATAL_ERROR "${MODE}: failed with ${result}")
  endif()
endfunction()

# The bug: a project without C++ failed when it was linked, or said nothing and left its bundle out.
function(refuses_c)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${WORK}/${MODE}_c
    -D LANGUAGES=C ${ARGV} RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE complaint)
  if(NOT result OR NOT complaint MATCHES "kda needs CXX: project\\(app LANGUAGES C CXX\\)")
    message(FATAL_ERROR "${MODE}: a project in C alone is told (${result}):\n${complaint}")
  endif()
endfunction()

set(project "${WORK}/${MODE}")
set(shared_prefix "${WORK}/shared-prefix")
# Assertions are on; nobody debugs what -g would cost to write.
set(settings -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER}
  -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_FLAGS_DEBUG=-O0)
file(REMOVE_RECURSE "${project}/CMakeCache.txt" "${project}_c/CMakeCache.txt")

if(MODE STREQUAL "package")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
  list(APPEND settings -D CMAKE_PREFIX_PATH=${WORK}/prefix)
elseif(MODE STREQUAL "subdirectory")
  list(APPEND settings -D KDA_SOURCE_DIR=${SOURCE} -D BUILD_SHARED_LIBS=ON -D KDA_INSTALL=ON
    -D KDA_CUDA_INCLUDE_DIR=${CUDA_INCLUDE} -D KDA_NVRTC_INCLUDE_DIR=${NVRTC_INCLUDE}
    -D KDA_XXHASH_INCLUDE_DIR=${XXHASH_INCLUDE}
    # The bug: of a parent that hides its own symbols libkda.so exported nothing.
    -D CMAKE_CXX_VISIBILITY_PRESET=hidden -D CMAKE_VISIBILITY_INLINES_HIDDEN=ON)
elseif(MODE STREQUAL "shared")
  list(APPEND settings -D CMAKE_PREFIX_PATH=${shared_prefix})
endif()

run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${project} ${settings})
run(${CMAKE_COMMAND} --build ${project} --parallel 2)
run(${project}/consumer ${WORK}/cache)
run(${project}/consumer_c ${WORK}/cache)

if(MODE STREQUAL "shared")  # C alone is enough, but for a bundle
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${project}_c -D LANGUAGES=C ${settings})
  run(${CMAKE_COMMAND} --build ${project}_c)
  run(${project}_c/consumer_c ${WORK}/cache)
  refuses_c(-D KDA_BUNDLE=kernels.kdab)
else()
  refuses_c(${settings})
endif()

if(MODE STREQUAL "package" AND TUNE)
  # The same program with its kernels linked in, where there is neither a cache nor a compiler.
  # The bug: a path's % was read as one of a format.  Make, but not Ninja, has a use for it, too.
  set(folder "${WORK}/bundle")
  if(GENERATOR MATCHES "Ninja")
    set(folder "${WORK}/bundle%s")
  endif()
  file(MAKE_DIRECTORY "${folder}")
  run(${TUNE} bundle create ${folder}/kernels.kdab "T=64 H=2 HV=4 h0=0 ht=0" --arch sm_90a
    --cache-dir ${WORK}/cache)
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${project} -D KDA_BUNDLE=${folder}/kernels.kdab)
  run(${CMAKE_COMMAND} --build ${project} --parallel 2)
  run(${CMAKE_COMMAND} -E env KDA_CACHE=off KDA_JIT=off KDA_NVRTC_PATH=/nonexistent
    ${project}/consumer none)
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${project} -D KDA_BUNDLE=)
endif()

if(MODE STREQUAL "subdirectory")
  file(REMOVE_RECURSE "${shared_prefix}")
  run(${CMAKE_COMMAND} --install ${project} --prefix ${shared_prefix})
endif()
