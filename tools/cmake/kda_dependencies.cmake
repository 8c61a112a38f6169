# Dependencies: the installed package first, else a pinned release with its hash.  None of them
# shows in a public header.  A fetched one is used header-only and is never installed: libkda then
# carries what it needs of it.  They go by names of kda's own, as a project around it may fetch the
# same.  -DFETCHCONTENT_SOURCE_DIR_KDA_<NAME>=<folder> gives a local copy.
include(FetchContent)
find_package(Threads REQUIRED)
option(KDA_BUNDLE_DEPENDENCIES "Compile installed fmt and spdlog into libkda, too; do not link them"
       OFF)

# kda_fetch(<name> <url> <sha256>): unpacks a release; its own CMakeLists.txt is not run.
# Sets kda_<name>_SOURCE_DIR.
macro(kda_fetch name url sha256)
  message(STATUS "${name} is not installed; using ${url}")
  FetchContent_Declare(
    kda_${name} URL "${url}" URL_HASH SHA256=${sha256} SOURCE_SUBDIR headers-only)
  FetchContent_MakeAvailable(kda_${name})
endmacro()

# kda_headers(<target> <folder> [<definition>...]): a header-only library from a folder.
function(kda_headers target folder)
  if(NOT EXISTS "${folder}")
    message(FATAL_ERROR "${target} is not installed, and ${folder}, from where its release was "
      "to come, is not there; FETCHCONTENT_FULLY_DISCONNECTED keeps it from being fetched")
  endif()
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} INTERFACE "${folder}")
  target_compile_definitions(${target} INTERFACE ${ARGN})
endfunction()

set(KDA_LIBRARIES "")  # compiled ones: an installed static libkda needs them again ...
set(KDA_PACKAGES "")   # ... from these packages
add_library(kda_headers_only INTERFACE)  # the others

# kda_installed(<package> <compiled target> <header-only target>)
macro(kda_installed package compiled header_only)
  if(KDA_BUNDLE_DEPENDENCIES)
    target_link_libraries(kda_headers_only INTERFACE ${header_only})
  else()
    list(APPEND KDA_LIBRARIES ${compiled})
    list(APPEND KDA_PACKAGES ${package})
  endif()
endmacro()

find_package(fmt 9.1 QUIET)
if(TARGET fmt::fmt)
  kda_installed(fmt fmt::fmt fmt::fmt-header-only)
  get_target_property(imported fmt::fmt IMPORTED)
  if(imported)  # an installed spdlog needs the installed fmt, not one of a project around this
    find_package(spdlog 1.10 QUIET)
  endif()
else()
  kda_fetch(fmt https://github.com/fmtlib/fmt/archive/10.2.1.tar.gz
            1250e4cc58bf06ee631567523f48848dc4596133e163f02615c97f78bab6c811)
  kda_headers(fmt::fmt "${kda_fmt_SOURCE_DIR}/include" FMT_HEADER_ONLY)
  target_link_libraries(kda_headers_only INTERFACE fmt::fmt)
endif()

if(TARGET spdlog::spdlog)
  kda_installed(spdlog spdlog::spdlog spdlog::spdlog_header_only)
else()
  kda_fetch(spdlog https://github.com/gabime/spdlog/archive/v1.14.0.tar.gz
            429a6b73ade8285cb21f83bacf89e2821dd1720ea7faa3cb518ffe04b4e00efc)
  kda_headers(spdlog::spdlog "${kda_spdlog_SOURCE_DIR}/include" SPDLOG_FMT_EXTERNAL)
  target_link_libraries(kda_headers_only INTERFACE spdlog::spdlog)
endif()

find_path(KDA_XXHASH_INCLUDE_DIR xxhash.h)  # inlined (XXH_INLINE_ALL): its library is not linked
if(NOT KDA_XXHASH_INCLUDE_DIR)
  kda_fetch(xxhash https://github.com/Cyan4973/xxHash/archive/v0.8.2.tar.gz
            baee0c6afd4f03165de7a4e67988d16f0f2b257b51d0e3cb91909302a26a79c4)
  set_property(CACHE KDA_XXHASH_INCLUDE_DIR PROPERTY VALUE "${kda_xxhash_SOURCE_DIR}")
endif()
target_include_directories(kda_headers_only SYSTEM INTERFACE "${KDA_XXHASH_INCLUDE_DIR}")

find_package(nlohmann_json 3.11 QUIET)
if(NOT TARGET nlohmann_json::nlohmann_json)
  kda_fetch(nlohmann_json https://github.com/nlohmann/json/archive/v3.11.3.tar.gz
            0d8ef5af7f9794e3263480193c491549b2ba6cc74bb018906202ada498a79406)
  kda_headers(nlohmann_json::nlohmann_json "${kda_nlohmann_json_SOURCE_DIR}/single_include")
endif()
target_link_libraries(kda_headers_only INTERFACE nlohmann_json::nlohmann_json)

if(KDA_BUILD_TOOLS)
  find_package(CLI11 2.1 QUIET)
  if(NOT TARGET CLI11::CLI11)
    kda_fetch(cli11 https://github.com/CLIUtils/CLI11/archive/v2.4.2.tar.gz
              f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a)
    kda_headers(CLI11::CLI11 "${kda_cli11_SOURCE_DIR}/include")
  endif()
endif()

if(KDA_BUILD_TESTS)
  find_package(Catch2 QUIET)
  if(NOT TARGET Catch2::Catch2)
    message(STATUS "Catch2 is not installed; using its release 3.5.4")
    FetchContent_Declare(Catch2 URL https://github.com/catchorg/Catch2/archive/v3.5.4.tar.gz
      URL_HASH SHA256=b7754b711242c167d8f60b890695347f90a1ebc95949a045385114165d606dbb SYSTEM)
    FetchContent_MakeAvailable(Catch2)
  endif()
endif()
