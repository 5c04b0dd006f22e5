# Every x_fuzz.cc of src/ridge is run over its seeds (tests/fuzz/x and related files) in every build, under
# AddressSanitizer and UndefinedBehaviorSanitizer. The parsers are compiled a second time for that, without the kernels,
# which take half an hour. With -DRIDGE_FUZZ=ON and clang it is a libFuzzer program as well:
#   cmake -S . -B fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++-14 -DRIDGE_FUZZ=ON -DRIDGE_CUDA=OFF && ninja -C fuzz fuzz
#   mkdir found && fuzz/fuzz_parse -max_total_time=300 -max_len=400 found tests/fuzz/parse examples
option(RIDGE_FUZZ "Build the libFuzzer programs; the compiler is clang" OFF)
set(RIDGE_FUZZ_SANITIZE address,undefined CACHE STRING "Sanitizers of the fuzz targets and of their replay")
set(fuzz_parse_about ${CMAKE_SOURCE_DIR}/examples)
set(fuzz_machine_about ${CMAKE_SOURCE_DIR}/machines)
file(GLOB_RECURSE fuzz_targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ridge/*_fuzz.cc)

set(fuzzed_sources ${ridge_sources})
list(FILTER fuzzed_sources EXCLUDE REGEX "/(sweep|refine_sweep|system|find)\\.cc$")
list(FILTER fuzzed_sources INCLUDE REGEX
     "/ridge/(base|symbol|program|machine|roofline)/|/measure/npy|/simulate/(scalesim_files|convolution|systolic|systolic_folds|scratchpad|pipe_parser|metapipe(_simulator)?)\\.cc$")
if(RIDGE_FUZZ)  # clang 14 crashes on the nested loops of simulate/metapipe.h
  list(FILTER fuzz_targets EXCLUDE REGEX "/pipe_fuzz")
  list(FILTER fuzzed_sources EXCLUDE REGEX "pipe")
endif()
add_library(fuzzed STATIC EXCLUDE_FROM_ALL ${fuzzed_sources})
ridge_merge_sources(fuzzed ${fuzzed_sources})
target_compile_features(fuzzed PUBLIC cxx_std_20)
target_include_directories(fuzzed PUBLIC ${CMAKE_SOURCE_DIR}/src)
target_link_libraries(fuzzed PUBLIC fmt::fmt nlohmann_json::nlohmann_json PRIVATE tomlplusplus::tomlplusplus)
target_compile_options(fuzzed PUBLIC -fsanitize=${RIDGE_FUZZ_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 $<IF:$<BOOL:${RIDGE_FUZZ}>,-O1,-O0>)
target_link_options(fuzzed PUBLIC -fsanitize=${RIDGE_FUZZ_SANITIZE})
if(RIDGE_FUZZ)
  add_custom_target(fuzz)
  # Coverage instrumentation of the library for libFuzzer.
  target_compile_options(fuzzed PRIVATE -fsanitize=fuzzer-no-link)
endif()
foreach(target IN LISTS fuzz_targets)
  cmake_path(GET target STEM stem)
  string(REPLACE "_fuzz" "" name ${stem})
  add_executable(replay_${name} ${target} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.cc)
  target_link_libraries(replay_${name} PRIVATE fuzzed)
  target_compile_options(replay_${name} PRIVATE ${ridge_warnings})
  add_test(NAME replay_${name} COMMAND replay_${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/${name} ${fuzz_${name}_about})
  set_tests_properties(replay_${name} PROPERTIES LABELS "fast;fuzz")
  if(RIDGE_FUZZ)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${target})
    target_link_libraries(fuzz_${name} PRIVATE fuzzed)
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzz fuzz_${name})
  endif()
endforeach()
