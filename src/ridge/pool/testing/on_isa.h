// Fixture of tests that run once with each instruction set; they are skipped if the CPU lacks it.
#pragma once

#include <gtest/gtest.h>

#include "ridge/pool/isa.h"

namespace ridge::tile::cpu {

class OnIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!use_isa(GetParam())) GTEST_SKIP() << "this CPU has no " << name(GetParam());
  }
  void TearDown() override { use_isa(before_); }

 private:
  const Isa before_ = isa();
};

}  // namespace ridge::tile::cpu
