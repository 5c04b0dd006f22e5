// Formats requests as command lines, which reports suggest as next steps.
#pragma once

#include <string>

#include "ridge/ridge.h"

namespace ridge::api {

// Returns the `ridge explain` command of a request, such as "ridge explain examples/mlp.ridge --on h100 -d B=310".
// `dims` override the request's. Arguments are quoted for the shell.
std::string explain_command(const Request& request, const Bindings& dims, const std::string& options);

// Returns an argument quoted for the shell; with several lines as $'x: f32[N]\ny: f32[N] = cos(x)'.
std::string quote_for_shell(const std::string& text);

}  // namespace ridge::api
