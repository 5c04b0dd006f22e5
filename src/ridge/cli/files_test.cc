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

TEST_F(CliTest, RejectsTracesThatAreFolders) {
  expect_rejected({"trace", folder.string(), "--on", "h200"}, 3, "ridge: cannot read 'FOLDER': Is a directory\n");
}

TEST_F(CliTest, NeedsTheMachineOfATraceWithKernels) {
  expect_rejected({"trace", examples + "trace.json"}, 2,
                  "ridge: expected --on for a trace with kernels, found none\n"
                  "  hint: name the machine on which it was recorded: --on h200\n");
  const std::string host = file("host.json", R"([{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 2}])");
  EXPECT_NE(ridge({"trace", host}).out.find("host.json  on "), std::string::npos);
}

TEST_F(CliTest, ReadsFilesOfOneMachine) {
  expect_rejected({"trace", examples + "trace.json", "--on", "h100,h200"}, 2,
                  "ridge: expected one machine for a trace, found 2\n");
  expect_rejected({"explain", examples + "mlp.onnx", "--on", "h100,h200", "batch=8"}, 2,
                  "ridge: expected one machine for a .onnx file, found 2\n");
}

TEST_F(CliTest, SaysWhichVerbReadsOnnxModels) {
  const std::string model = examples + "mlp.onnx";
  for (const char* verb : {"run", "sweep", "advise", "shard"}) {
    expect_rejected({verb, model, "batch=8"}, 3,
                    fmt::format("ridge: expected a program in {}, found an ONNX model\n"
                                "  hint: only ridge explain FILE.onnx reads ONNX files\n",
                                model));
  }
  const ProcessResult outcome = ridge({"explain", "-"}, {.input = *read_file(model)});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err,
            "ridge: expected a program in standard input, found an ONNX model\n"
            "  hint: only ridge explain FILE.onnx reads ONNX files\n");
}

TEST_F(CliTest, RejectsOptionsAndEmptyTextsAsNames) {
  const std::vector<std::string> model{"model", "llama_3_8b", "--context", "4096", "--on", "h200", "--html"};
  for (const char* name : {"--json", ""}) {
    std::vector<std::string> command = model;
    command.emplace_back(name);
    expect_rejected(command, 2,
                    fmt::format("ridge: --html: expected a file, found '{}'\n  hint: ridge model --help\n", name));
  }
  for (const char* verb : {"explain", "sweep", "model", "trace"})
    expect_rejected({verb, examples + "mlp.ridge", "--on", ""}, 2,
                    fmt::format("ridge: --on: expected a machine, found ''\n  hint: ridge {} --help\n", verb));
}

}  // namespace
}  // namespace ridge
