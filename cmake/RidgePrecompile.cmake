# Precompiles the headers that most sources include: one precompiled header for all modules, one with GoogleTest for all
# tests. ./ridge sets RIDGE_PRECOMPILE=OFF if it finds ccache, because ccache does not cache sources that use a
# precompiled header.
option(RIDGE_PRECOMPILE "Precompile the headers that most sources include" ON)
set(ridge_common_headers <algorithm> <array> <cmath> <cstdint> <functional> <map> <memory> <optional> <set> <string>
    <string_view> <utility> <variant> <vector> <fmt/format.h> <fmt/ranges.h>)
file(WRITE ${CMAKE_BINARY_DIR}/generated/nothing.cc "")

# ridge_precompiled(NAME OPTIONS … LINK … HEADERS …) creates one; ridge_use_precompiled(TARGET NAME) uses it in a target
# with the same options.
function(ridge_precompiled NAME)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "OPTIONS;LINK;HEADERS")
  if(NOT RIDGE_PRECOMPILE)
    return()
  endif()
  add_library(${NAME} OBJECT ${CMAKE_BINARY_DIR}/generated/nothing.cc)
  target_compile_features(${NAME} PRIVATE cxx_std_20)
  target_compile_options(${NAME} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${NAME} PRIVATE ${arg_LINK})
  target_precompile_headers(${NAME} PRIVATE ${arg_HEADERS})
endfunction()
function(ridge_use_precompiled TARGET NAME)
  if(RIDGE_PRECOMPILE)
    target_precompile_headers(${TARGET} REUSE_FROM ${NAME})
  endif()
endfunction()
