#include "kda/bundle.hpp"

#include <exception>
#include <string>
#include <string_view>

#include "cache/shipped.hpp"

namespace kda {

Status add_bundle(std::span<const std::byte> bundle) {
  try {
    return cache::add_linked_bundle({reinterpret_cast<const char*>(bundle.data()), bundle.size()});
  } catch (const std::exception& error) {
    return Status(Code::device_error, std::string("the host refused: ") + error.what());
  }
}

}  // namespace kda
