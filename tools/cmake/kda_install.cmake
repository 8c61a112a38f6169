# find_package(kda): the library, its headers, and the packages that a static libkda needs again.
include(CMakePackageConfigHelpers)

install(TARGETS kda EXPORT kdaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/kda" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# CMAKE_INSTALL_DOCDIR would be that of a project around this one, with a LICENSE of its own.
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/kda")

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/kda")
install(EXPORT kdaTargets NAMESPACE kda:: DESTINATION ${package})
configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/cmake/kdaConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/kdaConfig.cmake" INSTALL_DESTINATION ${package})
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kdaConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kdaConfig.cmake" "${PROJECT_BINARY_DIR}/kdaConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/tools/cmake/kda_bundle.cmake"
  "${PROJECT_SOURCE_DIR}/tools/cmake/kda_needs_cxx.cmake"
  DESTINATION ${package})

foreach(program kda-tune kda-bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
