# kda_cuda_headers: where cuda.h and nvrtc.h are.  Only headers: libcuda and libnvrtc are opened at
# run time.  In order: -DKDA_CUDA_INCLUDE_DIR, $CUDA_HOME, a toolkit on the machine, and the wheels
# that tools/setup.sh puts into .cache/cuda.
file(GLOB KDA_CUDA_WHEELS
  "${PROJECT_SOURCE_DIR}/.cache/cuda/lib/python3*/site-packages/nvidia/*/include")
file(GLOB KDA_CUDA_TOOLKITS "/usr/local/cuda-*/include" "/opt/cuda*/include")
set(KDA_CUDA_PLACES
  ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda /usr ${KDA_CUDA_TOOLKITS} ${KDA_CUDA_WHEELS})

find_path(KDA_CUDA_INCLUDE_DIR cuda.h
  HINTS ${KDA_CUDA_PLACES} PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(KDA_NVRTC_INCLUDE_DIR nvrtc.h
  HINTS ${KDA_CUDA_INCLUDE_DIR} ${KDA_CUDA_PLACES}
  PATH_SUFFIXES include targets/x86_64-linux/include)
if(NOT KDA_CUDA_INCLUDE_DIR OR NOT KDA_NVRTC_INCLUDE_DIR)
  message(FATAL_ERROR
    "cuda.h (${KDA_CUDA_INCLUDE_DIR}) or nvrtc.h (${KDA_NVRTC_INCLUDE_DIR}) was not found. "
    "tools/run.sh fetches both; or install a CUDA toolkit, or set CUDA_HOME, or give "
    "-DKDA_CUDA_INCLUDE_DIR=<folder with cuda.h> and -DKDA_NVRTC_INCLUDE_DIR=<folder with nvrtc.h>.")
endif()

add_library(kda_cuda_headers INTERFACE)
target_include_directories(kda_cuda_headers SYSTEM INTERFACE
  "${KDA_CUDA_INCLUDE_DIR}" "${KDA_NVRTC_INCLUDE_DIR}")
