# kda_options: what every target of ours is compiled with, and nobody else's.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

add_library(kda_options INTERFACE)
target_compile_features(kda_options INTERFACE cxx_std_20)
target_compile_options(kda_options INTERFACE
  -Wall -Wextra -Wpedantic
  -Wno-missing-field-initializers  # designated initialisers leave the defaults to the struct
  # False alarms of g++ 12 in std::string's operator+ and std::sort of short arrays, at -O2 and up.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,14>>:-Wno-restrict>
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,14>>:-Wno-array-bounds>
  $<$<BOOL:${KDA_WERROR}>:-Werror>)

if(KDA_SANITIZE)
  # A false alarm of g++ 12 in std::regex, which Catch2's matchers hold, where addresses are checked.
  target_compile_options(kda_options INTERFACE
    -fsanitize=${KDA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(kda_options INTERFACE -fsanitize=${KDA_SANITIZE})
endif()

# A target of ours: position-independent (the objects serve static and shared), options applied.
# Whatever a parent project hides, tools/cmake/exports.map alone says what libkda.so shows.
function(kda_target target)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF CXX_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON
    VISIBILITY_INLINES_HIDDEN OFF)
  set_property(TARGET ${target} PROPERTY CXX_VISIBILITY_PRESET)
  set_property(TARGET ${target} PROPERTY C_VISIBILITY_PRESET)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:kda_options>)
endfunction()

# What a source includes takes most of the time that it compiles, so several are compiled as one text:
# those that have a UNITY_GROUP with their like (GROUP), or eight at a time (BATCH).  g++ takes them for
# headers then, which should hold nothing of an unnamed namespace.
function(kda_compile_together target mode)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE ${mode})
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
