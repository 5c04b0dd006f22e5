// Fixture of tests that run once with each instruction set; they are skipped if the CPU lacks it.
#pragma once

#include <gtest/gtest.h>

#include "ridge/pool/isa.h"

namespace ridge::pool {

class IsaTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!set_active_isa(GetParam())) GTEST_SKIP() << "this CPU has no " << isa_name(GetParam());
  }
  void TearDown() override { set_active_isa(previous_); }

 private:
  const Isa previous_ = active_isa();
};

}  // namespace ridge::pool
