// `ridge kernels NAME --sass` and `--ptx`, with a toolkit of the test's own.
#include <algorithm>

#include "ridge/cli/testing/cli_fixture.h"
#include "ridge/device/device.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/machine_code.h"
#include "ridge/plan/menu_list.h"

namespace ridge {
namespace {

constexpr const char* whole_name = "sm90_128x192x64_pingpong";  // which other names begin with

int whole_row() {
  int row = 0;
  while (ops::menu_name(row) != whole_name) ++row;
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
    const auto trouble = ops::cuda::refusal(ops::cuda::ask_device());
    return !trouble || trouble->message != ops::cuda::refusal({})->message;
  }
};

TEST_F(KernelCodeTest, SaysWhatIsWrongWithTheWords) {
  rejects({"kernels", "--sass"}, 2,
          "ridge: expected a kernel's name with --sass, found none\n"
          "  hint: ridge kernels sm90_128x192x64_pingpong --sass\n");
  const std::string menu = ridge({"kernels", "sm90_64x128x64", "--csv"}).out;
  const auto names = std::count(menu.begin(), menu.end(), '\n') - 1;
  rejects({"kernels", "sm90_64x128x64", "--ptx"}, 2,
          fmt::format("ridge: expected one kernel's whole name, found 'sm90_64x128x64', which {} names hold\n"
                      "  hint: `ridge kernels sm90_64x128x64` lists them\n",
                      names));
  rejects({"kernels", whole_name, "--ptx", "--csv"}, 2, "ridge: expected --ptx as text or with --json, found --csv\n");
  rejects({"kernels", whole_name, "--sass", "--dtype", "f32"}, 2,
          "ridge: expected bf16 or f16, of which the menu's kernels are made, found 'f32'\n  hint: --dtype f16\n");
  rejects({"kernels", whole_name, "--dtype", "f16"}, 2, "ridge: expected --dtype together with --sass or --ptx\n");
  rejects({"kernels", whole_name, "--sass", "--ptx"}, 2,
          "ridge: expected --sass without --ptx\n  hint: ridge kernels --help\n");
  rejects({"kernels", "sm80", "--sass"}, 3, "ridge: no kernel is called 'sm80'\n  hint: `ridge kernels` lists them\n");
}

TEST_F(KernelCodeTest, NeedsABuildWithKernels) {
  if (has_cuda()) GTEST_SKIP() << "this build has CUDA kernels";
  rejects({"kernels", whole_name, "--sass"}, 4, "ridge: " + ops::cuda::refusal({})->text());
}

TEST_F(KernelCodeTest, PrintsTheListingAndNothingElse) {
  if (!has_cuda()) GTEST_SKIP() << "not checked: this build has no CUDA kernels";
  const std::string path = "PATH=" + folder.string();
  const Outcome text = ridge({"kernels", whole_name, "--sass"}, {.environment = {path}});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(text.err, "");
  EXPECT_EQ(text.out.find("Function : " + ops::cuda::kernel_symbol(whole_row(), DType::bf16) + "\n  NOP ;\n"), 0U)
      << text.out.substr(0, 200);
  const Outcome json = ridge({"kernels", whole_name, "--sass", "--dtype", "f16", "--json"}, {.environment = {path}});
  EXPECT_EQ(json.code, 0) << json.err;
  EXPECT_NE(json.out.find("\"schema\": \"ridge.kernels/2\""), std::string::npos);
  EXPECT_NE(json.out.find("\"dtype\": \"f16\""), std::string::npos);
  EXPECT_NE(json.out.find("\"sass\": \"Function : " + ops::cuda::kernel_symbol(whole_row(), DType::f16)),
            std::string::npos);
  // 90 kB do not fit into a pipe that nobody reads: a reader that left ends it quietly.
  const Outcome left = ridge({"kernels", whole_name, "--sass"}, {.environment = {path}, .closed_pipe = true});
  EXPECT_EQ(left.code, 0);
  EXPECT_EQ(left.err, "");
}

}  // namespace
}  // namespace ridge
