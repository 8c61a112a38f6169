// Which compiler reads this: older ones of CUDA know less PTX, and pipeline less.
#pragma once

#define KDA_CUDA_SINCE(major, minor) \
  (__CUDACC_VER_MAJOR__ > major || (__CUDACC_VER_MAJOR__ == major && __CUDACC_VER_MINOR__ >= minor))
