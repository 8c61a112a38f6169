# kda_cuda_headers: where cuda.h and nvrtc.h are.  Only headers: libcuda and libnvrtc are opened at
# run time.  In order: -DKDA_CUDA_INCLUDE_DIR, $CUDA_HOME, a toolkit on the machine, and the wheels
# that tools/setup.sh puts into .cache/cuda.
file(GLOB KDA_CUDA_WHEELS
  "${PROJECT_SOURCE_DIR}/.cache/cuda/lib/python3*/site-packages/nvidia/*/include")
file(GLOB KDA_CUDA_TOOLKITS "/usr/local/cuda-*/include" "/opt/cuda*/include")
set(KDA_CUDA_PLACES
  ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda /usr ${KDA_CUDA_TOOLKITS} ${KDA_CUDA_WHEELS})

# Older ones lack calls that src/launch/driver.hpp names.
function(kda_is_new_enough result folder)
  file(STRINGS "${folder}/cuda.h" line REGEX "^#define CUDA_VERSION " LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+" version "${line}")
  if(NOT version OR version LESS 12040)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

find_path(KDA_CUDA_INCLUDE_DIR cuda.h VALIDATOR kda_is_new_enough
  HINTS ${KDA_CUDA_PLACES} PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(KDA_NVRTC_INCLUDE_DIR nvrtc.h
  HINTS ${KDA_CUDA_INCLUDE_DIR} ${KDA_CUDA_PLACES}
  PATH_SUFFIXES include targets/x86_64-linux/include)
if(NOT KDA_CUDA_INCLUDE_DIR OR NOT KDA_NVRTC_INCLUDE_DIR)
  message(FATAL_ERROR
    "cuda.h (${KDA_CUDA_INCLUDE_DIR}) or nvrtc.h (${KDA_NVRTC_INCLUDE_DIR}) of CUDA 12.4 or newer "
    "was not found. "
    "tools/run.sh fetches both; or install a CUDA toolkit, or set CUDA_HOME, or give "
    "-DKDA_CUDA_INCLUDE_DIR=<folder with cuda.h> and -DKDA_NVRTC_INCLUDE_DIR=<folder with nvrtc.h>.")
endif()

set(new_enough TRUE)
kda_is_new_enough(new_enough "${KDA_CUDA_INCLUDE_DIR}")
if(NOT new_enough)
  message(FATAL_ERROR "KDA_CUDA_INCLUDE_DIR=${KDA_CUDA_INCLUDE_DIR}: its cuda.h is of no CUDA 12.4 "
    "or newer, as the wheels nvidia-cuda-runtime and nvidia-cuda-nvrtc are, or a toolkit's")
endif()

add_library(kda_cuda_headers INTERFACE)
target_include_directories(kda_cuda_headers SYSTEM INTERFACE
  "${KDA_CUDA_INCLUDE_DIR}" "${KDA_NVRTC_INCLUDE_DIR}")
