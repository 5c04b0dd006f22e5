// Tests of `ridge kernels NAME --sass` and `--ptx`: kernels are found in the binary and extracted from cuobjdump's
// listing.
#include "ridge/ops/product/machine_code.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "ridge/base/file.h"
#include "ridge/base/testing/temporary_folder.h"
#include "ridge/device/device.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/describe.h"

namespace ridge::ops::cuda {
namespace {

namespace fs = std::filesystem;

// References the kernels, so that the linker takes them from the static library.
[[maybe_unused]] auto* const volatile kernels_are_linked = &kernel_resources;

bool has_cuda() {
  const Status status = device::require_device();
  return status || status.error().message != device::check_device({}).error().message;
}

// Fixture with a folder for a fake cuobjdump.
class MachineCodeTest : public testing::Test {
 protected:
  void write_tool(const std::string& script) const {
    ASSERT_TRUE(write_file(folder_ + "/cuobjdump", "#!/bin/sh\n" + script).ok());
    fs::permissions(folder_ + "/cuobjdump", fs::perms::owner_all);
  }
  const TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
};

constexpr const char* sass =
    "\nFatbin elf code:\n================\narch = sm_90a\n\n\tcode for sm_90a\n"
    "\nFatbin elf code:\n================\narch = sm_90a\n\n\tcode for sm_90a\n"
    "\t\tFunction : other\n        /*0000*/  EXIT ;\n\t\t..........\n\n\n"
    "\t\tFunction : mine\n\t.headerflags\t@\"x\"\n        /*0000*/  NOP ;\n        /*0010*/  EXIT "
    ";\n\t\t..........\n\n\n"
    "\nFatbin elf code:\n================\narch = sm_90a\n";

TEST(MachineCode, ExtractsSassOfOneKernel) {
  EXPECT_EQ(extract_sass(sass, "mine"),
            "Function : mine\n\t.headerflags\t@\"x\"\n        /*0000*/  NOP ;\n        /*0010*/  EXIT ;\n");
  EXPECT_EQ(extract_sass(sass, "other"), "Function : other\n        /*0000*/  EXIT ;\n");
  EXPECT_FALSE(extract_sass(sass, "min"));
  EXPECT_FALSE(extract_sass("", "mine"));
}

constexpr const char* ptx =
    "\nFatbin elf code:\n================\narch = sm_90a\n\nFatbin ptx code:\n================\ncompressed\n\n\n"
    ".version 9.0\n.target sm_90a\n\n.visible .entry far(\n)\n{\nret;\n\n}\n\n\nFatbin ptx code:\n================\n\n"
    ".version 9.0\n.target sm_90a\n.extern .shared .b8 raw[];\n\n"
    ".visible .entry first(\n.param .b32 first_param_0\n)\n.maxntid 384, 1, 1\n{\n{\nadd;\n}\nret;\n\n}\n\n"
    ".visible .entry mine(\n.param .b32 mine_param_0\n)\n{\nret;\n\n}\n\n"
    ".visible .entry last(\n)\n{\nret;\n\n}\n\n";

TEST(MachineCode, ExtractsPtxOfOneKernel) {
  const std::string head = ".version 9.0\n.target sm_90a\n.extern .shared .b8 raw[];\n\n";
  EXPECT_EQ(extract_ptx(ptx, "mine"), head + ".visible .entry mine(\n.param .b32 mine_param_0\n)\n{\nret;\n\n}\n");
  EXPECT_EQ(extract_ptx(ptx, "far"), ".version 9.0\n.target sm_90a\n\n.visible .entry far(\n)\n{\nret;\n\n}\n");
  EXPECT_EQ(extract_ptx(ptx, "last"), head + ".visible .entry last(\n)\n{\nret;\n\n}\n");
  EXPECT_FALSE(extract_ptx(ptx, "min"));
  EXPECT_FALSE(extract_ptx("", "mine"));
}

constexpr bool is_compiled(std::size_t config, DType operand) {
  return (RIDGE_WHOLE_MENU || is_in_sample(config, operand)) &&
         kernel_config(static_cast<int>(config), operand).can_multiply(operand);
}

// `kernel_symbol` formats mangled names by hand; they must equal the names of the kernels in the binary.
TEST(MachineCode, KernelSymbolsExistInTheBinary) {
  if (!has_cuda()) GTEST_SKIP() << "this build has no CUDA kernels";
  const std::string binary = read_file("/proc/self/exe", std::size_t{1} << 30).value();
  for (std::size_t i = 0; i < sm90_kernel_configs.size(); ++i)
    for (const DType in : {DType::bf16, DType::f16, DType::e4m3, DType::tf32, DType::e4m3_128, DType::int8}) {
      const std::string symbol = kernel_symbol(static_cast<int>(i), in);
      ASSERT_EQ(binary.find(symbol + '\0') != std::string::npos, is_compiled(i, in)) << symbol;
    }
}

TEST_F(MachineCodeTest, ReportsConfigsWithoutAKernelOfTheDtype) {
  if (!has_cuda()) GTEST_SKIP() << "this build has no CUDA kernels";
  for (int i = 0; i < static_cast<int>(sm90_kernel_configs.size()); ++i)
    if (sm90_kernel_configs[static_cast<std::size_t>(i)].b != tile::Major::k)
      EXPECT_EQ(
          extract_kernel_code(i, DType::e4m3, AssemblyKind::sass, {folder_}).error().message,
          config_name(i) + " has no kernel of e4m3: expected a tile and an order of operands for which it has one");
}

TEST_F(MachineCodeTest, ReportsMissingCuobjdump) {
  const auto found = extract_kernel_code(0, DType::bf16, AssemblyKind::ptx, {folder_, "/nowhere"});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().kind, ErrorKind::absent);
  if (!has_cuda()) {
    EXPECT_EQ(found.error().to_string(), device::check_device({}).error().to_string());
    GTEST_SKIP() << "this build has no CUDA kernels";
  }
  EXPECT_EQ(
      found.error().to_string(),
      "expected cuobjdump, which lists PTX, in PATH, in $CUDA_HOME/bin or in /usr/local/cuda/bin, found none\n"
      "  hint: `pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm`, or install the CUDA toolkit, and add the "
      "folder of both to PATH\n");
}

TEST_F(MachineCodeTest, RunsCuobjdumpAndReportsItsErrors) {
  if (!has_cuda()) GTEST_SKIP() << "this build has no CUDA kernels";
  const std::string symbol = kernel_symbol(1, DType::f16);
  // PATH must begin with the folder of cuobjdump, because cuobjdump runs nvdisasm from there.
  write_tool(
      "echo 'cuobjdump warning : not here' >&2\nprintf '\\t\\tFunction : %s\\n%s %s ' $3 $1 $2\n"
      "[ -r $4 ] && printf '%s\\n\\t\\t.....\\n' ${PATH%%:*}\n");
  EXPECT_EQ(extract_kernel_code(1, DType::f16, AssemblyKind::sass, {"/nowhere", folder_}).value(),
            fmt::format("Function : {}\n-sass -fun {}\n", symbol, folder_));
  write_tool(
      "echo 'cuobjdump warning : not here' >&2\necho \"cuobjdump fatal   : Could not find 'nvdisasm'\" >&2\nexit "
      "255\n");
  EXPECT_EQ(
      extract_kernel_code(1, DType::f16, AssemblyKind::sass, {folder_}).error().message,
      fmt::format("{}/cuobjdump ended with exit code 255: cuobjdump fatal   : Could not find 'nvdisasm'", folder_));
  write_tool("exit 0\n");
  EXPECT_EQ(extract_kernel_code(1, DType::f16, AssemblyKind::ptx, {folder_}).error().message,
            fmt::format("{}/cuobjdump finds no PTX of {} in this binary", folder_, symbol));
  write_tool("kill -9 $$\n");
  EXPECT_EQ(extract_kernel_code(1, DType::f16, AssemblyKind::ptx, {folder_}).error().message,
            fmt::format("{}/cuobjdump ended with exit code 137: ", folder_));
}

// Uses the toolkit's cuobjdump, if installed, for SASS of the first config and PTX of the last.
TEST(MachineCode, ExtractsCodeFromThisBinary) {
  if (!has_cuda()) GTEST_SKIP() << "this build has no CUDA kernels";
  const auto folders = toolkit_folders();
  const auto first = extract_kernel_code(0, DType::bf16, AssemblyKind::sass, folders);
  if (!first && first.error().message.find("found none") != std::string::npos)
    GTEST_SKIP() << "not checked: " << first.error().message;
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_NE(first->find("HGMMA"), std::string::npos);
  EXPECT_NE(first->find("EXIT"), std::string::npos);
  EXPECT_EQ(first->find("Function : "), 0U);
  EXPECT_EQ(first->rfind("Function : "), 0U);
  int last = static_cast<int>(sm90_kernel_configs.size()) - 1;
  while (!is_compiled(static_cast<std::size_t>(last), DType::f16)) --last;
  const auto text = extract_kernel_code(last, DType::f16, AssemblyKind::ptx, folders);
  ASSERT_TRUE(text) << text.error().to_string();
  EXPECT_EQ(text->find(".version "), 0U);
  EXPECT_NE(text->find("wgmma.mma_async.sync.aligned"), std::string::npos);
  EXPECT_EQ(text->find(".entry "), text->rfind(".entry "));
  EXPECT_NE(text->find(".entry " + kernel_symbol(last, DType::f16)), std::string::npos);
}

}  // namespace
}  // namespace ridge::ops::cuda
