# Text embedded in the binary: the machine catalog, the JSON schemas, the shapes of bench, the properties of the compiled
# CUDA kernels, and the version with its commit.

# Writes a source file that defines ridge::FUNCTION(), declared in HEADER, as a list of TYPE with one element per file that
# the following patterns match; OUT receives its path.
function(ridge_embed_files OUT HEADER TYPE FUNCTION)
  file(GLOB files CONFIGURE_DEPENDS ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/generated/${FUNCTION}.cc)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DOUT=${source} "-DFILES=${files}" -DHEADER=${HEADER} -DTYPE=${TYPE} -DFUNCTION=${FUNCTION} -P ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake VERBATIM)
  set(${OUT} ${source} PARENT_SCOPE)
endfunction()

# Writes a source file that defines ridge::FUNCTION(), declared in HEADER, as the text of FILE; OUT receives its path.
function(ridge_embed_text OUT FILE HEADER FUNCTION)
  set(source ${CMAKE_BINARY_DIR}/generated/${FUNCTION}.cc)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DOUT=${source} -DFILE=${FILE} -DHEADER=${HEADER} -DFUNCTION=${FUNCTION} -P ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${FILE} ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake VERBATIM)
  set(${OUT} ${source} PARENT_SCOPE)
endfunction()

# Writes the version source again when HEAD changes; outside a checkout the commit is "unknown".
function(ridge_version OUT)
  set(source ${CMAKE_BINARY_DIR}/generated/version.cc)
  execute_process(COMMAND git -C ${CMAKE_SOURCE_DIR} rev-parse --path-format=absolute --git-path logs/HEAD
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT head OR NOT EXISTS ${head})
    set(head "")
  endif()
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DOUT=${source} -DVERSION=${PROJECT_VERSION} -DROOT=${CMAKE_SOURCE_DIR} -P ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake
    DEPENDS ${head} ${CMAKE_SOURCE_DIR}/cmake/write_version.cmake VERBATIM)
  set(${OUT} ${source} PARENT_SCOPE)
endfunction()
