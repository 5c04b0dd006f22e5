// Where a program's text comes from: a file, the standard input ("-"), or the argument itself. A word that names no
// file and holds none of the notation's signs is taken for a file that is not there, not for a program.
#pragma once

#include <string>

#include "ridge/program/program.h"

namespace ridge {

struct LoadedProgram {
  Program program;
  std::string title;  // the file's name, "standard input", or the text: where it has several lines, the last
};

// `dtype`: of tensors that name none; `sizes`: by which chains of products are ordered. Errors: parse()'s, or that the
// file cannot be read.
Result<LoadedProgram> load_program(const std::string& argument, DType dtype, const Bindings& sizes = {});

}  // namespace ridge
