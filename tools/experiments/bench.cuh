// What the experiments share: checked CUDA calls and one JSON object a line on stdout.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#define CHECK(call)                                                      \
  do {                                                                   \
    const cudaError_t error_ = (call);                                   \
    if (error_ != cudaSuccess) {                                         \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                   cudaGetErrorString(error_));                          \
      std::exit(1);                                                      \
    }                                                                    \
  } while (false)

namespace bench {

class Row {
 public:
  explicit Row(const char* what) { put("bench", std::string("\"") + what + "\""); }
  Row& add(const char* key, const std::string& value) { return put(key, "\"" + value + "\""); }
  Row& add(const char* key, int value) { return put(key, std::to_string(value)); }
  Row& add(const char* key, double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return put(key, text);
  }
  void print() const {
    std::printf("{%s}\n", text_.c_str());
    std::fflush(stdout);
  }

 private:
  Row& put(const char* key, const std::string& value) {
    text_ += std::string(text_.empty() ? "" : ", ") + "\"" + key + "\": " + value;
    return *this;
  }
  std::string text_;
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

inline int multiprocessors() {
  int count = 0;
  CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

// Milliseconds of one run of `work`, after one to warm up; the median of five.
template <class Work>
double milliseconds(const Work& work) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<double> times;
  for (int i = 0; i < 6; ++i) {
    CHECK(cudaEventRecord(begin));
    work();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i > 0) times.push_back(ms);
  }
  CHECK(cudaGetLastError());
  return median(times);
}

}  // namespace bench
