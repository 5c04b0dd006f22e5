# Kernels for CUDA devices. RIDGE_CUDA=AUTO uses nvcc if found, ON requires it, OFF does not use it; the rest of ridge
# does not need it. The library contains the static CUDA runtime and gets entry points from the driver at run time, so
# the binaries start on machines without either.
set(RIDGE_CUDA AUTO CACHE STRING "Kernels for CUDA devices: AUTO, ON or OFF")
set_property(CACHE RIDGE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(RIDGE_MENU WHOLE CACHE STRING "Kernels to compile: WHOLE for all, or a SAMPLE with one of each kind, for tests without a device")
set_property(CACHE RIDGE_MENU PROPERTY STRINGS WHOLE SAMPLE)
if(RIDGE_MENU STREQUAL "WHOLE")
  set(ridge_whole_menu 1)
else()
  set(ridge_whole_menu 0)
endif()
set(ridge_has_cuda FALSE)
if(NOT RIDGE_CUDA STREQUAL "OFF")
  # The code is for the one architecture below, so CMake need not detect one and the build needs no GPU.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.4)
      set(ridge_has_cuda TRUE)
    endif()
  endif()
  if(NOT ridge_has_cuda AND RIDGE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "RIDGE_CUDA is ON: expected nvcc 12.4 or later, found ${CMAKE_CUDA_COMPILER_VERSION}")
  endif()
endif()
message(STATUS "CUDA kernels: ${ridge_has_cuda}")

# CMake 3.25 drops CMAKE_CUDA_STANDARD 20 for nvcc, so the flag is set here.
set(ridge_cuda_flags --expt-relaxed-constexpr -std=c++20 "-gencode=arch=compute_90a,code=sm_90a")

# `ridge kernels NAME --ptx` prints a config's PTX, so the binary must contain it. Compressed, PTX and machine code
# together take a third of the uncompressed machine code (0.42 MB for 17 configurations instead of 1.28).
set(ridge_menu_flags --expt-relaxed-constexpr -std=c++20 "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]")
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)  # the oldest version tested with this flag
  list(APPEND ridge_menu_flags --compress-mode=size)
endif()

function(ridge_add_configs TARGET NAME SOURCE)
  add_library(${NAME} OBJECT ${CMAKE_SOURCE_DIR}/src/ridge/ops/${SOURCE})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_definitions(${NAME} PRIVATE ${ARGN} RIDGE_WHOLE_MENU=${ridge_whole_menu})
  target_compile_options(${NAME} PRIVATE ${ridge_menu_flags})
  set_target_properties(${NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_sources(${TARGET} PRIVATE $<TARGET_OBJECTS:${NAME}>)
endfunction()

function(ridge_add_cuda TARGET)
  if(NOT ridge_has_cuda)
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ridge/*.cu)
  list(FILTER sources EXCLUDE REGEX "sm90\\.cu$")
  target_sources(${TARGET} PRIVATE ${sources})
  target_compile_definitions(${TARGET} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:RIDGE_WHOLE_MENU=${ridge_whole_menu}>)
  # One file, compiled once per input type and part of the configurations, so that no compilation takes a minute.
  file(READ ${CMAKE_SOURCE_DIR}/src/ridge/ops/product/sm90.h text)
  string(REGEX MATCH "int config_parts = device::has_all_kernels . ([0-9]+) : ([0-9]+)" parts "${text}")
  set(parts ${CMAKE_MATCH_1})
  if(NOT ridge_whole_menu)
    set(parts ${CMAKE_MATCH_2})
  endif()
  math(EXPR last "${parts} - 1")
  foreach(type IN ITEMS Bf16 F16 E4m3 float ScaledE4m3 int8_t)  # operands of products: base/operand_type.h
    foreach(part RANGE ${last})
      ridge_add_configs(${TARGET} ridge_sm90_${type}_${part} product/sm90.cu RIDGE_TYPE=${type} RIDGE_PART=${part})
    endforeach()
  endforeach()
  foreach(type IN ITEMS Bf16 F16)  # SixteenBitFloats in base/dtype_set.h
    ridge_add_configs(${TARGET} ridge_gated_${type} gated/sm90.cu RIDGE_TYPE=${type})
    ridge_add_configs(${TARGET} ridge_attention_${type} attention/sm90.cu RIDGE_TYPE=${type})
    ridge_add_configs(${TARGET} ridge_attention_backward_${type} attention/backward_sm90.cu RIDGE_TYPE=${type})
  endforeach()
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${ridge_cuda_flags}")
  set_target_properties(${TARGET} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
endfunction()
