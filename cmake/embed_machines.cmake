# cmake -DOUT=… -DFILES=a.toml;b.toml -P embed_machines.cmake
set(text "// Generated from machines/*.toml.\n#include \"ridge/machine/embedded.h\"\nnamespace ridge {\nconst std::vector<EmbeddedMachine>& embedded_machines() {\n  static const std::vector<EmbeddedMachine> all = {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} content)
  string(APPEND text "{\"${name}\", R\"toml(${content})toml\"},\n")
endforeach()
string(APPEND text "  };\n  return all;\n}\n}  // namespace ridge\n")
file(WRITE ${OUT} "${text}")
