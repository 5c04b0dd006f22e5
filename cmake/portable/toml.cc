// Defines what programs otherwise take from libtomlplusplus.so.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
