# Instruction sets of x86-64 CPUs that kernels are compiled for. The file name says which one:
#   x_avx2.cc, x_avx512.cc, x_avx512bf16.cc, x_amx.cc   for that instruction set, with its intrinsics
#   body.cc, x_body.cc                                   once for each of plain, avx2 and avx512, in a namespace of that name
# All are called only after a choice at run time (src/ridge/pool/isa.h).
set(ridge_isa_flags_plain -O2)  # only for CPUs from before 2013, so -O3 is not worth minutes of compiling
set(ridge_isa_flags_avx2 -mavx2 -mfma -mf16c)
set(ridge_isa_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl ${ridge_isa_flags_avx2} -mprefer-vector-width=512)
set(ridge_isa_flags_avx512bf16 ${ridge_isa_flags_avx512} -mavx512bf16 -mavx512vnni)
set(ridge_isa_flags_amx ${ridge_isa_flags_avx512bf16})
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  foreach(isa IN ITEMS plain avx2 avx512 avx512bf16 amx)
    set(ridge_isa_flags_${isa} "")
  endforeach()
endif()
set(ridge_body_isas plain avx2 avx512)

# Removes the bodies from the list SOURCES and sets OBJECTS to their objects: one library per instruction set, also
# compiled with OPTIONS. ridge_isa_bodies(my_sources my_objects PREFIX my OPTIONS -O2)
function(ridge_isa_bodies SOURCES OBJECTS)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "PREFIX" "OPTIONS")
  set(sources ${${SOURCES}})
  set(bodies ${sources})
  set(objects "")
  list(FILTER bodies INCLUDE REGEX "[/_]body\\.cc$")
  list(FILTER sources EXCLUDE REGEX "[/_]body\\.cc$")
  foreach(isa IN LISTS ridge_body_isas)
    add_library(${arg_PREFIX}_${isa} OBJECT EXCLUDE_FROM_ALL ${bodies})
    target_compile_features(${arg_PREFIX}_${isa} PRIVATE cxx_std_20)
    target_include_directories(${arg_PREFIX}_${isa} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_compile_definitions(${arg_PREFIX}_${isa} PRIVATE RIDGE_BODY_ISA=${isa})
    target_compile_options(${arg_PREFIX}_${isa} PRIVATE ${ridge_isa_flags_${isa}} ${arg_OPTIONS})
    list(APPEND objects $<TARGET_OBJECTS:${arg_PREFIX}_${isa}>)
  endforeach()
  set(${SOURCES} ${sources} PARENT_SCOPE)
  set(${OBJECTS} ${objects} PARENT_SCOPE)
endfunction()

# ridge_isa_sources(FILE…) sets the flags of the sources that are for one instruction set.
function(ridge_isa_sources)
  foreach(file IN LISTS ARGN)
    if(file MATCHES "_(avx2|avx512|avx512bf16|amx)\\.cc$")
      set_source_files_properties(${file} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "${ridge_isa_flags_${CMAKE_MATCH_1}}")
    endif()
  endforeach()
endfunction()
