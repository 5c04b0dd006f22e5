// Table-driven tests of invalid programs: rows of {program, complete message}.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string_view>

#include "ridge/program/program.h"

namespace ridge::testing {

struct RejectedProgram {
  std::string_view program, error;
};

inline void expect_rejected(std::span<const RejectedProgram> rejects) {
  for (const RejectedProgram& r : rejects) {
    const Result<Program> program = parse(r.program);
    EXPECT_EQ(program ? "accepted" : program.error().to_string(), r.error) << r.program;
    EXPECT_TRUE(program || program.error().kind == ErrorKind::input);
  }
}

}  // namespace ridge::testing
