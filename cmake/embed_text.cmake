# cmake -DOUT=… -DFILE=a.csv -DHEADER=ridge/x.h -DFUNCTION=name -P embed_text.cmake
file(READ ${FILE} content)
get_filename_component(name ${FILE} NAME)
file(WRITE ${OUT} "// Generated from ${name}.\n#include \"${HEADER}\"\nnamespace ridge {\nstd::string_view ${FUNCTION}() { return R\"text(${content})text\"; }\n}  // namespace ridge\n")
