# Tests that belong to no module: they use the program or the public API.
add_executable(cases_test ${CMAKE_SOURCE_DIR}/tests/cases_test.cc)
target_link_libraries(cases_test PRIVATE ridge)
target_compile_options(cases_test PRIVATE ${ridge_warnings} ${ridge_light_options})
add_test(NAME cases COMMAND cases_test ${CMAKE_SOURCE_DIR}/tests/cases)
add_test(NAME cases_none COMMAND cases_test ${CMAKE_SOURCE_DIR}/cmake)  # a folder without cases must fail
set_tests_properties(cases PROPERTIES LABELS fast)
set_tests_properties(cases_none PROPERTIES LABELS fast WILL_FAIL TRUE)

# Random row functions against f64; 20000 take minutes.
add_executable(rows_random ${CMAKE_SOURCE_DIR}/tests/rows/random.cc)
target_link_libraries(rows_random PRIVATE ridge)
target_compile_options(rows_random PRIVATE ${ridge_warnings} ${ridge_light_options})
add_test(NAME rows_random COMMAND rows_random 400)

# Questions that one command answers. A folder without them must fail.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(answers ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/answers_test.py $<TARGET_FILE:ridge_cli>)
add_test(NAME answers COMMAND ${answers} ${CMAKE_SOURCE_DIR}/tests/cases)
add_test(NAME answers_none COMMAND ${answers} ${CMAKE_SOURCE_DIR}/cmake)
set_tests_properties(answers PROPERTIES LABELS fast)
set_tests_properties(answers_none PROPERTIES LABELS fast WILL_FAIL TRUE)

# The bounds of forty programs follow the rates of their limiters. With --run, no run is faster than its bound.
add_test(NAME bounds COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/bounds_test.py $<TARGET_FILE:ridge_cli>)

# README.md and docs/ show what the program prints.
add_test(NAME readme COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/check_readme.py $<TARGET_FILE:ridge_cli>)
set_tests_properties(readme PROPERTIES LABELS fast)

# Files of results/ are text or listed in the archive, and the tables of docs/ are theirs.
add_test(NAME results COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/results_test.py)
add_test(NAME raw_results COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/raw_results.py check)
add_test(NAME result_tables COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/result_tables.py --check --ridge $<TARGET_FILE:ridge_cli>)
set_tests_properties(results raw_results result_tables PROPERTIES LABELS fast)

# Fits data/models to timings; built here so that it keeps compiling.
file(GLOB fit_models_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/fit_models/*.cc)
add_executable(fit_models ${fit_models_sources})
target_include_directories(fit_models PRIVATE ${CMAKE_SOURCE_DIR}/tools)
target_link_libraries(fit_models PRIVATE ridge_room_bench ridge)
target_compile_options(fit_models PRIVATE ${ridge_warnings})
ridge_merge_sources(fit_models ${fit_models_sources})
add_test(NAME fit_models_usage COMMAND fit_models)
file(GLOB timings CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/data/timings/*.csv)
add_test(NAME fit_models_check COMMAND fit_models --check ${timings})
set_tests_properties(fit_models_check PROPERTIES LABELS fast)
set_tests_properties(fit_models_usage PROPERTIES LABELS fast PASS_REGULAR_EXPRESSION "usage: fit_models")

# Each file compiles; with its bad line it does not, and the error says why.
file(GLOB compile_fail CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/compile_fail/*.cc)
foreach(file IN LISTS compile_fail)
  cmake_path(GET file STEM name)
  add_test(NAME compile_fail_${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/compile_fail/check.py
                                             ${CMAKE_CXX_COMPILER} ${file} -std=c++20 -I${CMAKE_SOURCE_DIR}/src)
  set_tests_properties(compile_fail_${name} PROPERTIES LABELS "fast;compile")
endforeach()

# The walk of docs/architecture.md names existing functions; a missing name is found.
add_test(NAME walk COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/walk_test.py ${CMAKE_SOURCE_DIR})
add_test(NAME walk_planted COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/walk_test.py ${CMAKE_SOURCE_DIR} --planted)
set_tests_properties(walk walk_planted PROPERTIES LABELS fast)

# The launcher, with stubs for every tool that it calls.
add_test(NAME launcher COMMAND bash ${CMAKE_SOURCE_DIR}/tests/launcher_test.sh ${CMAKE_SOURCE_DIR}/ridge)
set_tests_properties(launcher PROPERTIES LABELS fast)

# CI rejects an unknown step before it runs one.
add_test(NAME ci COMMAND bash ${CMAKE_SOURCE_DIR}/tests/ci_test.sh ${CMAKE_SOURCE_DIR}/.ci/run)
set_tests_properties(ci PROPERTIES LABELS fast)

# Every preset configures.
add_test(NAME presets COMMAND bash ${CMAKE_SOURCE_DIR}/tests/presets_test.sh ${CMAKE_SOURCE_DIR})
set_tests_properties(presets PROPERTIES LABELS "fast;compile")

# The program without kernels agrees with the whole program.
set_target_properties(ridge_analysis PROPERTIES EXCLUDE_FROM_ALL OFF)
add_test(NAME analysis COMMAND bash ${CMAKE_SOURCE_DIR}/tests/analysis_test.sh $<TARGET_FILE:ridge_cli> $<TARGET_FILE:ridge_analysis> ${CMAKE_SOURCE_DIR})
set_tests_properties(analysis PROPERTIES LABELS fast)

# An installed tree, and a project that uses it.
add_test(NAME install COMMAND bash ${CMAKE_SOURCE_DIR}/tests/install_test.sh ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
set_tests_properties(install PROPERTIES LABELS "fast;compile")

# The style checker finds inserted faults.
add_test(NAME style COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/style_test.py)
set_tests_properties(style PROPERTIES LABELS fast)

# The language checker finds inserted faults.
add_test(NAME language COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/language_test.py)
set_tests_properties(language PROPERTIES LABELS fast)

# The mutation tool detects a mutant that must be detected and misses one that must be missed.
add_test(NAME mutate COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/mutate_test.py ${CMAKE_CXX_COMPILER})
set_tests_properties(mutate PROPERTIES LABELS "fast;compile")

# Every benchmark of tools/times runs, with stubs for PyTorch and for all programs.
add_test(NAME times COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/times_test.py)
set_tests_properties(times PROPERTIES LABELS fast)

# The checker of constants finds an inserted one, and the code has none.
add_test(NAME constants COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/constants_test.py)
add_test(NAME models COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/models.py --check)
set_tests_properties(constants models PROPERTIES LABELS fast)

# The output of --json matches docs/report.schema.json, and thresholds match those of sympy (live or stored).
add_test(NAME schema COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/schema_test.py $<TARGET_FILE:ridge_cli>)
add_test(NAME sympy COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/sympy_test.py $<TARGET_FILE:ridge_cli>)
set_tests_properties(schema sympy PROPERTIES LABELS fast)

# The page in a headless Chromium, with axe-core if build/page has it; skipped with a message without Chromium.
add_test(NAME page COMMAND bash ${CMAKE_SOURCE_DIR}/tests/page/page_test.sh $<TARGET_FILE:ridge_cli> ${CMAKE_BINARY_DIR}/page)
set_tests_properties(page PROPERTIES SKIP_RETURN_CODE 77 LABELS browser)

include(${CMAKE_CURRENT_LIST_DIR}/fuzz/fuzz.cmake)
include(${CMAKE_SOURCE_DIR}/tests/sanitized.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/device_failures/device_failures.cmake)

# The tutorial of the tile language.
include(${CMAKE_SOURCE_DIR}/docs/tutorial/tutorial.cmake)

# The C API: from C11, and through ctypes.
enable_language(C)
add_executable(c_test ${CMAKE_SOURCE_DIR}/tests/c/c_test.c)
set_target_properties(c_test PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_link_libraries(c_test PRIVATE ridge_c)
target_compile_options(c_test PRIVATE -Wall -Wextra -Werror -Wpedantic)
add_test(NAME c COMMAND c_test)
add_test(NAME ctypes COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/c/ctypes_test.py $<TARGET_FILE:ridge_c>)
set_tests_properties(c ctypes PROPERTIES LABELS fast)

# The Python module, if the build made one; otherwise skipped with a message.
file(GLOB python_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/tests/test_*.py)
foreach(file IN LISTS python_tests)
  cmake_path(GET file STEM name)
  string(REPLACE test_ python_ name ${name})
  if(TARGET ridge_python)
    add_test(NAME ${name} COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/python/tests/run.py ${file})
    set_tests_properties(${name} PROPERTIES LABELS "fast;python" SKIP_RETURN_CODE 77 ENVIRONMENT
                         "PYTHONPATH=${CMAKE_BINARY_DIR}/python;RIDGE_BINARY=$<TARGET_FILE:ridge_cli>")
  else()
    add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: the build has no Python module (it needs nanobind and python3-dev)")
    set_tests_properties(${name} PROPERTIES LABELS "fast;python" SKIP_REGULAR_EXPRESSION "skipped")
  endif()
endforeach()
