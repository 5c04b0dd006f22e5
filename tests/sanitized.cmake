# Tests the CPU target under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer, in every build.
# Its sources and those of its kernels are compiled twice more for that, without the trace target. Alignment is not
# checked: data may have any address, which x86 permits. Three parts are not instrumented but taken from the library:
# - Row kernels, because they take minutes. Guard pages check them.
# - Kernels for AVX-512, which are not tested: RIDGE_ISA=avx2 below.
# - The AMX instructions. The rest of AMX is tested, because tiles_test.cc replaces the instructions with plain C++.
if(RIDGE_SANITIZE OR RIDGE_FUZZ)
  return()
endif()
set(sanitized_sources ${ridge_sources})
list(FILTER sanitized_sources INCLUDE REGEX
     "/base/|/tile/|/pool/(arena|isa|pool)\\.cc|/ops/(chain/(cpu|lower|body)|rows/(across|cpu|reduce|row_blocks|evaluate_in_f64|body|gradient_body)|product/(cpu|epilogue|epilogue_body|groups|reference|scaled/operand|windows/operand|windows/copy_body)|function/block_scale_body|fused/(cpu|gated_layer))\\.cc$")
list(FILTER sanitized_sources EXCLUDE REGEX "/trace")
set(sanitized_tests pool/pool pool/isa tile/cpu/schedule tile/cpu/tiles ops/product/cpu ops/chain/cpu ops/rows/across ops/rows/cpu ops/rows/reduce)
list(TRANSFORM sanitized_tests REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/src/ridge/\\1_test.cc")
set(sanitizers_memory -fsanitize=address,undefined -fno-sanitize=alignment)
set(sanitizers_threads -fsanitize=thread)
# All random products take ThreadSanitizer ten minutes, and kernels for AVX-512 are not instrumented.
set(environment_threads "RIDGE_MATMUL_CASES=100;GTEST_FILTER=-MatmulTest.WidenedBf16GivesTheSameProducts")
list(FILTER sanitized_sources EXCLUDE REGEX "/rows/(gradient_)?body\\.cc$|_(avx512|avx512bf16|amx)\\.cc$")
set(library_objects "$<FILTER:$<TARGET_OBJECTS:ridge_room_tile>,INCLUDE,_(avx512|avx512bf16|amx)\\.cc>"
    "$<FILTER:$<TARGET_OBJECTS:ridge_body_avx512>,INCLUDE,/(chain/body|function/block_scale_body|product/epilogue_body|product/windows/copy_body)\\.cc>" ${ridge_row_bodies})
# An archive is linked last, so that instrumented inline functions are used where both have them.
add_library(uninstrumented STATIC EXCLUDE_FROM_ALL ${library_objects})
set_target_properties(uninstrumented PROPERTIES LINKER_LANGUAGE CXX)
set(library_isas ${ridge_body_isas})
list(REMOVE_ITEM ridge_body_isas avx512)
set(sanitized_environment "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo has_avx512 REGEX "avx512f" LIMIT_COUNT 1)
  if(has_avx512)
    set(sanitized_environment RIDGE_ISA=avx2)
  endif()
endif()
foreach(kind IN ITEMS memory threads)
  set(target sanitized_${kind})
  set(options ${sanitizers_${kind}} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 -O1 -ffp-contract=off)
  set(sources ${sanitized_sources})
  ridge_isa_bodies(sources objects PREFIX ${target} OPTIONS ${options})
  add_executable(${target} ${sources} ${objects} ${sanitized_tests} ${CMAKE_SOURCE_DIR}/src/ridge/ops/product/testing/matmul_case.cc)
  ridge_merge_sources(${target} ${sources})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE uninstrumented fmt::fmt Threads::Threads GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_options(${target} PRIVATE ${options})
  target_link_options(${target} PRIVATE ${sanitizers_${kind}})
  add_test(NAME ${target} COMMAND ${target})
  set(environment ${sanitized_environment} ${environment_${kind}})
  set_tests_properties(${target} PROPERTIES LABELS sanitized ENVIRONMENT "${environment}" FAIL_REGULAR_EXPRESSION "Running 0 tests")
endforeach()
set(ridge_body_isas ${library_isas})
