# cmake -D MODE=... -D SOURCE=<repository> -D BUILD=<its build> -D WORK=<folder> ... -P check.cmake
# Configures, builds and runs the consumer:
#   package       against the build's own install
#   subdirectory  with add_subdirectory and shared libraries; installs that build too
#   shared        against the install that `subdirectory` left
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result COMMAND_ECHO STDOUT)
  if(result)
    message(FATAL_ERROR "${MODE}: failed with ${result}")
  endif()
endfunction()

set(project "${WORK}/${MODE}")
set(shared_prefix "${WORK}/shared-prefix")
set(settings -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER}
  -D CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
if(MODE STREQUAL "subdirectory" AND LAUNCHER MATCHES "ccache")
  # As the build did, whose objects ccache has.
  list(APPEND settings -D CMAKE_BUILD_TYPE=${BUILD_TYPE} -D KDA_WERROR=${WERROR})
else()
  # Assertions are on; nobody debugs what -g would cost to write.
  list(APPEND settings -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_FLAGS_DEBUG=-O0)
endif()
file(REMOVE_RECURSE "${project}/CMakeCache.txt")

if(MODE STREQUAL "package")
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
  list(APPEND settings -D CMAKE_PREFIX_PATH=${WORK}/prefix)
elseif(MODE STREQUAL "subdirectory")
  list(APPEND settings -D KDA_SOURCE_DIR=${SOURCE} -D BUILD_SHARED_LIBS=ON -D KDA_INSTALL=ON
    -D KDA_CUDA_INCLUDE_DIR=${CUDA_INCLUDE} -D KDA_NVRTC_INCLUDE_DIR=${NVRTC_INCLUDE}
    -D KDA_XXHASH_INCLUDE_DIR=${XXHASH_INCLUDE})
elseif(MODE STREQUAL "shared")
  list(APPEND settings -D CMAKE_PREFIX_PATH=${shared_prefix})
endif()

run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${project} ${settings})
run(${CMAKE_COMMAND} --build ${project} --parallel 2)
run(${project}/consumer ${WORK}/cache)
run(${project}/consumer_c ${WORK}/cache)

if(MODE STREQUAL "package" AND TUNE)
  # The same program with its kernels linked in, where there is neither a cache nor a compiler.
  run(${TUNE} bundle create ${WORK}/kernels.kdab "T=64 H=2 HV=4 h0=0 ht=0" --arch sm_90a
    --cache-dir ${WORK}/cache)
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${project} -D KDA_BUNDLE=${WORK}/kernels.kdab)
  run(${CMAKE_COMMAND} --build ${project} --parallel 2)
  run(${CMAKE_COMMAND} -E env KDA_CACHE=off KDA_JIT=off KDA_NVRTC_PATH=/nonexistent
    ${project}/consumer none)
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${project} -D KDA_BUNDLE=)
endif()

if(MODE STREQUAL "subdirectory")
  file(REMOVE_RECURSE "${shared_prefix}")
  run(${CMAKE_COMMAND} --install ${project} --prefix ${shared_prefix})
endif()
