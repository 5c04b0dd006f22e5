// Rows of {program, whole message}, for the tests of what is refused.
#pragma once

#include <gtest/gtest.h>

#include <span>
#include <string_view>

#include "ridge/program/program.h"

namespace ridge::testing {

struct Reject {
  std::string_view program, error;
};

inline void expect_rejected(std::span<const Reject> rejects) {
  for (const Reject& r : rejects) {
    const Result<Program> program = parse(r.program);
    EXPECT_EQ(program ? "accepted" : program.error().text(), r.error) << r.program;
    EXPECT_TRUE(program || program.error().kind == ErrorKind::input);
  }
}

}  // namespace ridge::testing
