# What `cmake --install` lays down: the program, the library with its headers, and the package that find_package(ridge)
# reads. A static library's needs are its users' needs: the package looks for them again.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(ridge_package ${CMAKE_INSTALL_LIBDIR}/cmake/ridge)
install(TARGETS ridge_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ridge EXPORT ridge_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ridge_targets NAMESPACE ridge:: DESTINATION ${ridge_package})
install(DIRECTORY src/ridge DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN testing EXCLUDE PATTERN cli EXCLUDE)
configure_package_config_file(cmake/ridgeConfig.cmake.in ${CMAKE_BINARY_DIR}/ridgeConfig.cmake INSTALL_DESTINATION ${ridge_package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ridgeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ridgeConfig.cmake ${CMAKE_BINARY_DIR}/ridgeConfigVersion.cmake DESTINATION ${ridge_package})
