// Files of other programs: ONNX models and traces of profilers.
#include <fmt/format.h>

#include <fstream>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

const std::string examples = std::string(RIDGE_SOURCE_DIR) + "/examples/";

TEST_F(CliTest, ExplainsOnnxModels) {
  const std::string out = ridge({"explain", examples + "mlp.onnx", "--on", "h200", "batch=8"}).out;
  EXPECT_NE(out.find("2 x MatMul 8x16x32 * 32x64"), std::string::npos) << out;
  EXPECT_NE(out.find("6.144 k parameters"), std::string::npos) << out;
  EXPECT_NE(out.find("in 6 kernels"), std::string::npos) << out;
}

TEST_F(CliTest, RejectsWhatOnnxModelsLack) {
  expect_rejected({"explain", examples + "mlp.onnx", "--on", "h200"}, 3,
                  fmt::format("ridge: {}mlp.onnx: expected a value of batch, because the file has none\n"
                              "  hint: -d batch=8\n",
                              examples));
  expect_rejected({"explain", examples + "mlp.onnx", "--on", "h200", "batch=8", "S=4"}, 3,
                  fmt::format("ridge: {}mlp.onnx: expected sizes of batch, found S\n", examples));
}

TEST_F(CliTest, RejectsWhatTracesLack) {
  expect_rejected({"trace", "absent.json"}, 3, "ridge: cannot read 'absent.json': No such file or directory\n");
  expect_rejected({"trace", examples + "mlp.ridge"}, 3,
                  fmt::format("ridge: {}mlp.ridge: expected JSON, found something else at byte 1\n"
                              "  hint: the file is cut off or damaged, or no trace in Chrome's format\n",
                              examples));
  expect_rejected({"trace", examples + "trace.json", "--all", "--json"}, 2,
                  "ridge: expected --all without --json, --csv and --md, which are always complete\n");
}

}  // namespace
}  // namespace ridge
