# Included where a project that has no C++ would fail later and obscurely: libkda is C++ inside.
get_property(kda_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT "CXX" IN_LIST kda_languages)
  message(FATAL_ERROR "kda needs CXX: project(app LANGUAGES C CXX)")
endif()
unset(kda_languages)
