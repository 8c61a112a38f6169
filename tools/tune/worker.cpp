#include <unistd.h>

#include "tune/commands.hpp"
#include "worker/child.hpp"
#include "worker/process.hpp"

namespace kda::tune_tool {

int worker(const Request& request) {
  worker::end_with(STDIN_FILENO);
  return worker::serve(stdin, request.output.out, request.device, request.cache_dir);
}

}  // namespace kda::tune_tool
