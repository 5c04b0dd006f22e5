// Tests `ridge kernels NAME --sass` and `--ptx` with a stub of cuobjdump.
#include <algorithm>

#include "ridge/cli/testing/cli_fixture.h"
#include "ridge/device/device.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/machine_code.h"
#include "ridge/plan/kernel_list.h"

namespace ridge {
namespace {

constexpr const char* full_name = "sm90_128x192x64_pingpong";  // Prefix of other kernel names

int full_row() {
  int row = 0;
  while (ops::config_name(row) != full_name) ++row;
  return row;
}

class KernelCodeTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    file("cuobjdump",
         "#!/bin/sh\nprintf '\\t\\tFunction : %s\\n' $3\ni=0\nwhile [ $i -lt 9000 ]; do echo '  NOP ;'; "
         "i=$((i+1)); done\n");
    fs::permissions(folder / "cuobjdump", fs::perms::owner_all);
  }
  static bool has_cuda() {
    const Status status = device::require_device();
    return status || status.error().message != device::check_device({}).error().message;
  }
};

TEST_F(KernelCodeTest, ReportsInvalidArguments) {
  expect_rejected({"kernels", "--sass"}, 2,
                  "ridge: expected a kernel's name with --sass, found none\n"
                  "  hint: ridge kernels sm90_128x192x64_pingpong --sass\n");
  const std::string listing = ridge({"kernels", "sm90_64x128x64", "--csv"}).out;
  const auto names = std::count(listing.begin(), listing.end(), '\n') - 1;
  expect_rejected(
      {"kernels", "sm90_64x128x64", "--ptx"}, 2,
      fmt::format("ridge: expected the full name of one kernel, found 'sm90_64x128x64', which {} names contain\n"
                  "  hint: `ridge kernels sm90_64x128x64` lists them\n",
                  names));
  expect_rejected({"kernels", full_name, "--ptx", "--csv"}, 2,
                  "ridge: expected --ptx as text or with --json, found --csv\n");
  expect_rejected({"kernels", full_name, "--sass", "--dtype", "f32"}, 2,
                  "ridge: expected bf16, f16, e4m3, tf32, e4m3_128 or int8, the dtypes of these kernels, found 'f32'\n"
                  "  hint: --dtype f16\n");
  expect_rejected({"kernels", full_name, "--dtype", "f16"}, 2,
                  "ridge: expected --dtype together with --sass or --ptx\n");
  expect_rejected({"kernels", full_name, "--sass", "--ptx"}, 2,
                  "ridge: expected --sass without --ptx\n  hint: ridge kernels --help\n");
  expect_rejected({"kernels", "sm80", "--sass"}, 3,
                  "ridge: no kernel is called 'sm80'\n  hint: `ridge kernels` lists them\n");
}

TEST_F(KernelCodeTest, NeedsABuildWithKernels) {
  if (has_cuda()) GTEST_SKIP() << "this build has CUDA kernels";
  expect_rejected({"kernels", full_name, "--sass"}, 4, "ridge: " + device::check_device({}).error().to_string());
}

TEST_F(KernelCodeTest, PrintsTheListingAndNothingElse) {
  if (!has_cuda()) GTEST_SKIP() << "not checked: this build has no CUDA kernels";
  const std::string path = "PATH=" + folder.string();
  const ProcessResult text = ridge({"kernels", full_name, "--sass"}, {.environment = {path}});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(text.out.find("Function : " + ops::cuda::kernel_symbol(full_row(), DType::bf16) + "\n  NOP ;\n"), 0U)
      << text.out.substr(0, 200);
  const ProcessResult json =
      ridge({"kernels", full_name, "--sass", "--dtype", "f16", "--json"}, {.environment = {path}});
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_NE(json.out.find("\"schema\": \"ridge.kernels/2\""), std::string::npos);
  EXPECT_NE(json.out.find("\"dtype\": \"f16\""), std::string::npos);
  EXPECT_NE(json.out.find("\"sass\": \"Function : " + ops::cuda::kernel_symbol(full_row(), DType::f16)),
            std::string::npos);
  // 90 kB exceed the pipe buffer; a closed pipe ends the program without an error.
  const ProcessResult left = ridge({"kernels", full_name, "--sass"}, {.environment = {path}, .is_stdout_closed = true});
  EXPECT_EQ(left.code, 0);
  EXPECT_EQ(left.err, "");
}

}  // namespace
}  // namespace ridge
