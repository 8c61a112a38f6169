// An NVRTC that compiles nothing: its PTX is empty, and so unsigned.  The search must pass it by.
#include <nvrtc.h>

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 9;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult) { return "a fake"; }

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char*, const char*, int,
                               const char* const*, const char* const*) {
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram*) { return NVRTC_SUCCESS; }
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) { return NVRTC_SUCCESS; }

static nvrtcResult none(size_t* bytes) {
  *bytes = 0;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t* bytes) { return none(bytes); }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t* bytes) { return none(bytes); }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram, size_t* bytes) { return none(bytes); }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char*) { return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char*) { return NVRTC_SUCCESS; }
nvrtcResult nvrtcGetPTX(nvrtcProgram, char*) { return NVRTC_SUCCESS; }
}
