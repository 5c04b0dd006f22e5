# libridge_c exports only the functions of ridge/c.h, for C and for languages that load a shared library. It contains the
# objects of the static library.
add_library(ridge_c SHARED ${CMAKE_BINARY_DIR}/generated/nothing.cc)
add_library(ridge::c ALIAS ridge_c)
file(STRINGS src/ridge/c.h ridge_c_abi REGEX "^#define RIDGE_C_ABI [0-9]+$")
string(REGEX REPLACE ".* " "" ridge_c_abi "${ridge_c_abi}")
set_target_properties(ridge_c PROPERTIES EXPORT_NAME c SOVERSION ${ridge_c_abi} VERSION ${ridge_c_abi}.${PROJECT_VERSION})
target_include_directories(ridge_c INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)
target_link_libraries(ridge_c PRIVATE $<BUILD_INTERFACE:ridge>)
target_link_options(ridge_c PRIVATE -Wl,-u,ridge_c_abi -Wl,--gc-sections -Wl,--version-script,${CMAKE_CURRENT_LIST_DIR}/ridge_c.map)
set_target_properties(ridge_c PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/ridge_c.map)

install(TARGETS ridge_c EXPORT ridge_targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
file(RELATIVE_PATH ridge_up_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/ridge.pc.in ${CMAKE_BINARY_DIR}/ridge.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ridge.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
