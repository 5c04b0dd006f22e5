# cmake -DOUT=… -DFILE=a.csv -P embed_shapes.cmake
file(READ ${FILE} content)
file(WRITE ${OUT} "// Generated from data/cpu_shapes.csv.\n#include \"ridge/measure/contest_shape.h\"\nnamespace ridge {\nstd::string_view default_shapes() { return R\"csv(${content})csv\"; }\n}  // namespace ridge\n")
