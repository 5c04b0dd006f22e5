// The command line that asks for a request again, so that a report can say what to type next.
#pragma once

#include <string>

#include "ridge/ridge.h"

namespace ridge::api {

// "ridge explain examples/mlp.ridge --on h100 -d B=310": the request with these sizes in place of its own. Words that a
// shell would read otherwise stand in quotes.
std::string explain_command(const Request& request, const Bindings& dims, const std::string& options);

// A word of a command line; where it has several lines, in the quotes that read \n: $'x: f32[N]\ny: f32[N] = cos(x)'.
std::string shell_word(const std::string& text);

}  // namespace ridge::api
