// Table-driven tests of invalid programs: rows of {program, complete message}.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>

#include "ridge/base/function.h"
#include "ridge/program/program.h"

namespace ridge::testing {

struct RejectedProgram {
  std::string_view program, error;
};

// Returns the names that the hint for an unknown function lists: the functions of docs/functions.md, and five without a
// row in function_table.
inline std::string list_known_functions() {
  std::string names;
  for (const FunctionInfo& f : function_table)
    if (!f.description.empty()) names += std::string(f.name) + " ";
  return names + "repeat index size sequence batch_norm";
}

inline void expect_rejected(std::span<const RejectedProgram> rejects) {
  for (const RejectedProgram& r : rejects) {
    const Result<Program> program = parse(r.program);
    EXPECT_EQ(program ? "accepted" : program.error().to_string(), r.error) << r.program;
    EXPECT_TRUE(program || program.error().kind == ErrorKind::input);
  }
}

}  // namespace ridge::testing
