# cmake -DOUT=… -DVERSION=… -DROOT=… -P write_version.cmake
execute_process(COMMAND git -C ${ROOT} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit "unknown")
endif()
set(text "#include \"ridge/base/version.h\"\nnamespace ridge {\nstd::string_view version() { return \"${VERSION}\"; }\nstd::string_view commit() { return \"${commit}\"; }\n}  // namespace ridge\n")
file(WRITE ${OUT} "${text}")
