# Dependencies: the installed package first, else a pinned release with its hash.  None of them
# shows in a public header.  A fetched one is used header-only and not installed: libkda then
# carries what it needs of it.
include(FetchContent)
find_package(Threads REQUIRED)

# kda_fetch(<name> <url> <sha256>): unpacks a release without running its CMakeLists.txt and sets
# <name>_SOURCE_DIR.
macro(kda_fetch name url sha256)
  FetchContent_Declare(${name} URL ${url} URL_HASH SHA256=${sha256}
    SOURCE_SUBDIR "headers only" DOWNLOAD_EXTRACT_TIMESTAMP ON)
  FetchContent_MakeAvailable(${name})
endmacro()

set(KDA_LIBRARIES "")  # imported targets that an installed static libkda needs again
set(KDA_PACKAGES "")   # ... and the packages they come from
add_library(kda_header_libraries INTERFACE)

find_package(fmt 9.1 QUIET)
if(TARGET fmt::fmt)
  list(APPEND KDA_LIBRARIES fmt::fmt)
  list(APPEND KDA_PACKAGES fmt)
  find_package(spdlog 1.10 QUIET)
endif()
if(TARGET fmt::fmt AND TARGET spdlog::spdlog)
  list(APPEND KDA_LIBRARIES spdlog::spdlog)
  list(APPEND KDA_PACKAGES spdlog)
endif()
find_package(nlohmann_json 3.11 QUIET)
find_path(KDA_XXHASH_INCLUDE_DIR xxhash.h)
target_include_directories(kda_header_libraries SYSTEM INTERFACE ${KDA_XXHASH_INCLUDE_DIR})
target_link_libraries(kda_header_libraries INTERFACE nlohmann_json::nlohmann_json)
if(KDA_BUILD_TOOLS)
  find_package(CLI11 2.1 QUIET)
endif()
if(KDA_BUILD_TESTS)
  find_package(Catch2 QUIET)
endif()
