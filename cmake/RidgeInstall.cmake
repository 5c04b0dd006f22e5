# Installs the program, the library with its public headers, and the package for find_package(ridge). Users of a static
# library need its dependencies, so the package looks for them again. The components `runtime` and `development` become
# packages (RidgePackage.cmake).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(ridge_package ${CMAKE_INSTALL_LIBDIR}/cmake/ridge)
install(TARGETS ridge_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(TARGETS ridge EXPORT ridge_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT ridge_targets NAMESPACE ridge:: DESTINATION ${ridge_package} COMPONENT development)
# The public headers (docs/architecture.md, "What is installed"): they include only each other and the standard library.
set(ridge_public_headers ridge.h compute.h c.h matmul.h tuning.h base/check.h base/dtype.h base/error.h base/quantity.h base/result.h base/version.h
    machine/machine.h roofline/results.h symbol/dimensions.h)
foreach(header IN LISTS ridge_public_headers)
  cmake_path(GET header PARENT_PATH room)
  install(FILES src/ridge/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ridge/${room} COMPONENT development)
endforeach()
configure_package_config_file(cmake/ridgeConfig.cmake.in ${CMAKE_BINARY_DIR}/ridgeConfig.cmake INSTALL_DESTINATION ${ridge_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ridgeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ridgeConfig.cmake ${CMAKE_BINARY_DIR}/ridgeConfigVersion.cmake DESTINATION ${ridge_package}
        COMPONENT development)
