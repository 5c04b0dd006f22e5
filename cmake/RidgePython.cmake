# The Python module: `ridge` in build/python and in the wheel of pyproject.toml. RIDGE_PYTHON=AUTO builds it if the
# interpreter that CMake finds has nanobind, ON requires it, OFF does not build it.
set(RIDGE_PYTHON AUTO CACHE STRING "The Python module: AUTO, ON or OFF")
set_property(CACHE RIDGE_PYTHON PROPERTY STRINGS AUTO ON OFF)
if(RIDGE_PYTHON STREQUAL "OFF")
  return()
endif()
find_package(Python 3.10 COMPONENTS Interpreter Development.Module QUIET)
if(Python_Interpreter_FOUND AND NOT nanobind_DIR)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_DIR ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(Python_Development.Module_FOUND)
  find_package(nanobind 3.1 CONFIG QUIET)
endif()
if(NOT nanobind_FOUND)
  if(RIDGE_PYTHON STREQUAL "ON")
    message(FATAL_ERROR "RIDGE_PYTHON is ON: expected Python 3.10 or later with its headers (python3-dev) and nanobind 3.1 or later, "
                        "found Python '${Python_VERSION}' (${Python_EXECUTABLE}) and nanobind '${nanobind_VERSION}'")
  endif()
  return()
endif()

file(GLOB python_sources CONFIGURE_DEPENDS src/ridge/python/*.cc)
nanobind_add_module(ridge_python BACKEND_MODULE nanobind_backend NB_SUPPRESS_WARNINGS ${python_sources})
set_target_properties(ridge_python PROPERTIES OUTPUT_NAME _ridge LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/ridge
                                              CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
target_link_libraries(ridge_python PRIVATE ridge fmt::fmt)
target_compile_options(ridge_python PRIVATE ${ridge_warnings} ${ridge_light_options})
# Other modules of the process, such as PyTorch's, must not replace the library's symbols with theirs.
target_link_options(ridge_python PRIVATE -Wl,--exclude-libs,ALL)
file(GLOB_RECURSE package_files RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS python/ridge/*.py python/ridge/*.pyi python/ridge/py.typed)
foreach(file IN LISTS package_files)
  cmake_path(GET file PARENT_PATH folder)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${file} ${CMAKE_BINARY_DIR}/${file} SYMBOLIC)
endforeach()

install(TARGETS ridge_python LIBRARY DESTINATION ridge COMPONENT python)
