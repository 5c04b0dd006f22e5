// Tests messages of `ridge advise` and `ridge calibrate`.
#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

TEST_F(CliTest, AdviseNeedsConfirmForItsOptionsAndAllSizes) {
  expect_rejected({"advise", "bf16[B, D] * bf16[D, F] -> bf16[B, F]", "--runs", "3", "B=8", "D=8", "F=8"}, 2,
                  "ridge: expected --runs together with --confirm\n");
  expect_rejected({"advise", "bf16[B, D] * bf16[D, F] -> bf16[B, F]", "--on", "h200", "D=8", "F=8"}, 2,
                  "ridge: expected a value for each dimension, found none for B\n  hint: -d B=16\n");
}

TEST_F(CliTest, WhyNeedsPlan) {
  expect_rejected({"explain", "bf16[B, D] * bf16[D, F] -> bf16[B, F]", "--why"}, 2,
                  "ridge: expected --why together with --plan\n");
}

TEST_F(CliTest, CalibrateReportsMissingArguments) {
  expect_rejected({"calibrate", "no.csv", "--on", "h200"}, 3,
                  "ridge: cannot read 'no.csv': No such file or directory\n");
}

}  // namespace
}  // namespace ridge
