# Every x_fuzz.cc of src/ridge is replayed over its seeds (tests/fuzz/x and the files that it is about) in every build; with
# -DRIDGE_FUZZ=ON and clang it is a libFuzzer program too:
#   cmake -S . -B fuzz -DCMAKE_CXX_COMPILER=clang++-14 -DRIDGE_FUZZ=ON -DRIDGE_SANITIZE=address,undefined && ninja -C fuzz fuzz
#   fuzz/fuzz_parse -max_total_time=300 -max_len=400 tests/fuzz/parse examples
option(RIDGE_FUZZ "Build the libFuzzer programs; the compiler is clang" OFF)
set(fuzz_parse_about ${CMAKE_SOURCE_DIR}/examples)
set(fuzz_machine_about ${CMAKE_SOURCE_DIR}/machines)
file(GLOB_RECURSE fuzz_targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ridge/*_fuzz.cc)
if(RIDGE_FUZZ)
  add_custom_target(fuzz)
  # The library too tells libFuzzer which of its code an input reaches.
  target_compile_options(ridge PRIVATE -fsanitize=fuzzer-no-link)
endif()
foreach(target IN LISTS fuzz_targets)
  cmake_path(GET target STEM stem)
  string(REPLACE "_fuzz" "" name ${stem})
  add_executable(replay_${name} ${target} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.cc)
  target_link_libraries(replay_${name} PRIVATE ridge)
  target_compile_options(replay_${name} PRIVATE ${ridge_warnings})
  add_test(NAME replay_${name} COMMAND replay_${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/${name} ${fuzz_${name}_about})
  set_tests_properties(replay_${name} PROPERTIES LABELS "fast;fuzz")
  if(RIDGE_FUZZ)
    add_executable(fuzz_${name} EXCLUDE_FROM_ALL ${target})
    target_link_libraries(fuzz_${name} PRIVATE ridge)
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzz fuzz_${name})
  endif()
endforeach()
