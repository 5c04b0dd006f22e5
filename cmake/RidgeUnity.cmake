# Compiles the sources of a folder as one translation unit, because parsing the same headers takes most of the time of a
# small source. RIDGE_UNITY=OFF compiles each source by itself, for work on one file and for tools that read
# compile_commands.json.
option(RIDGE_UNITY "Compile the sources of a folder together" ON)

# These repeat local names of other sources in their folders, each with its own meaning. Tests replace cuda_absent.cc
# (tests/device_failures), which therefore shares no object with other functions.
set(ridge_separate_sources device/cuda_absent.cc ops/cuda_absent.cc api/c.cc api/attention_device.cc api/compute_device.cc api/geglu_device.cc api/product.cc api/product_device.cc
    bench/stream_device.cc bench/time_plans.cc run/plan_timer.cc measure/reference.cc
    ops/fused/cuda.cc ops/library/product.cc ops/library/streamed.cc ops/product/plan.cc transport/nccl.cc)

# ridge_merge_sources(TARGET SOURCE...) merges the sources of each folder. Sources with options of their own (instruction
# sets, timelines) or definitions are compiled by themselves.
function(ridge_merge_sources TARGET)
  if(NOT RIDGE_UNITY)
    return()
  endif()
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    file(RELATIVE_PATH name ${CMAKE_SOURCE_DIR}/src/ridge ${source})
    if(options OR definitions OR name IN_LIST ridge_separate_sources)
      continue()
    endif()
    cmake_path(GET source PARENT_PATH folder)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/src/ridge ${folder})
    string(MAKE_C_IDENTIFIER "${folder}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()
