// Loads a program from a file, standard input ("-"), or the argument itself. An argument that is no existing file and
// contains none of the notation's operators is reported as a missing file.
#pragma once

#include <string>

#include "ridge/program/program.h"

namespace ridge {

struct LoadedProgram {
  Program program;
  std::string title;  // file name, "standard input", or the (last line of the) text
};

// `dtype` is the default dtype of tensors; `sizes` are used to order chains of products. Errors: those of `parse`(), or
// an unreadable file.
Result<LoadedProgram> load_program(const std::string& argument, DType dtype, const Bindings& sizes = {});

}  // namespace ridge
