# cmake -DOUT=… -DFILES=a.toml;b.toml -DHEADER=ridge/x.h -DTYPE=EmbeddedX -DFUNCTION=embedded_xs -P embed_files.cmake
# TYPE is a struct of two string_views: a file's name without extension, or a header's include path, and its text.
set(text "// Generated.\n#include \"${HEADER}\"\nnamespace ridge {\nconst std::vector<${TYPE}>& ${FUNCTION}() {\n  static const std::vector<${TYPE}> all = {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  if(file MATCHES "/src/(ridge/.*[.]h)$")
    set(name ${CMAKE_MATCH_1})
  endif()
  file(READ ${file} content)
  string(APPEND text "{\"${name}\", R\"text(${content})text\"},\n")
endforeach()
string(APPEND text "  };\n  return all;\n}\n}  // namespace ridge\n")
file(WRITE ${OUT} "${text}")
