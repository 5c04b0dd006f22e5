# Kernels for CUDA devices, where nvcc is there. RIDGE_CUDA=AUTO uses it if found, ON insists, OFF leaves it alone; the
# rest of ridge never needs it. The library carries its own CUDA runtime and asks the driver for its entry points, so the
# binaries start on machines without either.
set(RIDGE_CUDA AUTO CACHE STRING "Kernels for CUDA devices: AUTO, ON or OFF")
set_property(CACHE RIDGE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(ridge_has_cuda FALSE)
if(NOT RIDGE_CUDA STREQUAL "OFF")
  # The code is for one architecture, named below: CMake need not probe for one (no GPU is needed to build).
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

# CMake 3.25 drops CMAKE_CUDA_STANDARD 20 for nvcc, so the flag is said by hand.
set(ridge_cuda_flags --expt-relaxed-constexpr -std=c++20 "-gencode=arch=compute_90a,code=sm_90a")

# `ridge kernels NAME --ptx` prints a menu row's PTX from the binary, which must then hold it. Compressed for size, both
# kinds of code take a third of what the machine code alone takes otherwise (0.42 MB for 17 rows, not 1.28).
set(ridge_menu_flags --expt-relaxed-constexpr -std=c++20 "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]")
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13.0)  # the oldest that this was tried with
  list(APPEND ridge_menu_flags --compress-mode=size)
endif()

function(ridge_add_rows TARGET NAME SOURCE)
  add_library(${NAME} OBJECT ${CMAKE_SOURCE_DIR}/src/ridge/kernels/${SOURCE})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_definitions(${NAME} PRIVATE ${ARGN})
  target_compile_options(${NAME} PRIVATE ${ridge_menu_flags})
  target_sources(${TARGET} PRIVATE $<TARGET_OBJECTS:${NAME}>)
endfunction()

function(ridge_add_cuda TARGET)
  if(NOT ridge_has_cuda)
    target_compile_definitions(${TARGET} PRIVATE RIDGE_HAS_CUDA=0)
    return()
  endif()
  set(kernels ${CMAKE_SOURCE_DIR}/src/ridge/kernels)
  target_compile_definitions(${TARGET} PRIVATE RIDGE_HAS_CUDA=1)
  set(sources ${kernels}/matmul_cuda.cu ${kernels}/matmul_plain.cu ${kernels}/tensor_maps.cu ${kernels}/gated_cuda.cu ${kernels}/gated_gradient.cu
              ${kernels}/input_gradient.cu
              ${kernels}/device.cu ${kernels}/chain_cuda.cu ${kernels}/rows_cuda.cu ${kernels}/reduce_cuda.cu ${kernels}/run_generated.cu ${kernels}/peak_cuda.cu
              ${kernels}/judge_cuda.cu)
  target_sources(${TARGET} PRIVATE ${sources})
  # One file, compiled once for each input type and part of the menu: no compilation takes a minute.
  foreach(type IN ITEMS Bf16 F16)
    ridge_add_rows(${TARGET} ridge_gated_${type} gated_sm90.cu RIDGE_TYPE=${type})
    foreach(part RANGE 6)
      ridge_add_rows(${TARGET} ridge_sm90_${type}_${part} matmul_sm90.cu RIDGE_TYPE=${type} RIDGE_PART=${part})
    endforeach()
  endforeach()
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${ridge_cuda_flags}")
  set_target_properties(${TARGET} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
endfunction()
