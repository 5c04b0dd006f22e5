#include "ridge/simulate/pipe_parser.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

constexpr const char* three = "pipelined rows 10 { load a 100  compute b 300  store c 50 }";

std::string with_schedule(const std::string& schedule) {
  return schedule + std::string(three).substr(std::string("pipelined").size());
}

std::int64_t cycles(const std::string& pipe, const std::vector<std::string>& split = {}) {
  return run_pipe({.pipe = pipe, .split = split}).value().run.cycles;
}

TEST(ParsedPipe, TheReferenceExampleTakes4500Then3150Then1350) {
  EXPECT_EQ(cycles(with_schedule("sequential")), 4500);
  EXPECT_EQ(cycles(with_schedule("streaming")), 3150);
  EXPECT_EQ(cycles(with_schedule("fork-join")), 3000);
  EXPECT_EQ(cycles(three, {"b=3"}), 1350);
  const PipeReport report = run_pipe({.pipe = three, .split = {}}).value();
  EXPECT_EQ(report.run.cycles, 3150);
  EXPECT_EQ(report.closed_form, 3150);
  EXPECT_EQ(report.sequential_cycles, 4500);
}

TEST(ParsedPipe, ParsesAllFields) {
  const ParsedPipe got = parse_pipe(
                             "chip pcus 8 pmus 9 memory 64 network 32  # shared\n"
                             "streaming rows 16 par 2 overhead 7 {\n"
                             "  load a 1 memory 10 network 11 pcus 0 pmus 2\n"
                             "  fork-join tiles 8 { compute mm 6 trips 64 par 4 interval 2 accept 3 }\n"
                             "  store c 30,31\n"
                             "  buffer a -> c tiles 5 bytes 12\n"
                             "  again c -> tiles every 2 }",
                             "p")
                             .value();
  const Metapipe expected{
      .name = "rows",
      .schedule = PipeSchedule::streaming,
      .iterations = 16,
      .parallel = 2,
      .overhead = 7,
      .stages = {{.name = "a",
                  .phase = Phase::load,
                  .pcus = 0,
                  .pmus = 2,
                  .memory_bytes = 10,
                  .network_bytes = 11,
                  .body = {}},
                 {.name = "tiles",
                  .body = {{.name = "tiles",
                            .schedule = PipeSchedule::fork_join,
                            .iterations = 8,
                            .stages = {{.name = "mm",
                                        .trips = 64,
                                        .interval = 2,
                                        .depth = 6,
                                        .parallel = 4,
                                        .accept_cycles = 3,
                                        .body = {}}}}}},
                 {.name = "c", .phase = Phase::store, .depth = 30, .latencies = {30, 31}, .body = {}}},
      .buffers = {{0, 2, 12, 5}},
      .recurrences = {{2, 1, 2}}};
  EXPECT_EQ(got.pipe, expected);
  EXPECT_EQ(got.resources, (PipeResources{8, 9, 64, 32}));
}

TEST(ParsedPipe, SharedUnitsAndMemoryHaveNoClosedForm) {
  const PipeReport free = run_pipe({.pipe = "pipelined r 10 { load a 10 compute b 10 }", .split = {}}).value();
  const PipeReport shared =
      run_pipe({.pipe = "chip pcus 1 pipelined r 10 { load a 10 pcus 1 compute b 10 pcus 1 }", .split = {}}).value();
  EXPECT_EQ(free.closed_form, 110);
  EXPECT_EQ(shared.closed_form, std::nullopt);
  EXPECT_EQ(shared.run.cycles, 200);
}

TEST(ParsedPipe, ErrorsHaveThePosition) {
  const auto refusal = [](const std::string& text) {
    const auto got = parse_pipe(text, "p");
    return got ? std::string("accepted") : got.error().to_string();
  };
  EXPECT_EQ(refusal("pipelined x {}"),
            "p:1:13: expected a whole number of iterations, found '{'\n  pipelined x {}\n              ^\n");
  EXPECT_EQ(refusal("pipelined x 3 {\n load a 1\n lod b 2 }"),
            "p:3:2: expected a stage (load, fill, compute, drain, store), a loop, buffer, again or }, found 'lod'\n"
            "   lod b 2 }\n   ^^^\n  hint: compute mm 300\n");
  EXPECT_EQ(refusal("pipelined x 3 { load a"),
            "p:1:23: expected a whole number of cycles, or several: 90,110, found the end\n  pipelined x 3 { load a\n"
            "                        ^\n");
  EXPECT_EQ(
      refusal("pipelined x 3 { load a 1 store b 1 buffer b -> a }"),
      "p:1:36: expected a buffer from a stage to a later one\n  pipelined x 3 { load a 1 store b 1 buffer b -> a }\n"
      "                                     ^^^^^^\n  hint: again goes back\n");
  EXPECT_EQ(refusal("pipelined x 3 { load a 1 } more").substr(0, 44), "p:1:28: expected the end of the text, found ");
  EXPECT_EQ(refusal("pipelined x 0 { load a 1 }"),
            "loop 'x': expected a loop with iterations between 1 and 1099511627776, found 0\n");
  EXPECT_EQ(refusal("pipelined x 3 { load a 1 load a 1 }").substr(0, 48),
            "p:1:33: loop 'x' has two stages named 'a'\n  pipe");
  EXPECT_EQ(refusal("pipelined x 3 { load a 99999999999999999999 }").substr(0, 32), "p:1:24: expected a whole number ");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "pipelined x 1 { ";
  EXPECT_EQ(refusal(deep).substr(0, 51), "p:1:257: expected loops nested at most 16 deep\n");
  EXPECT_EQ(run_pipe({.pipe = three, .split = {"q=2"}}).error().message, "no stage is called 'q'");
  EXPECT_EQ(run_pipe({.pipe = three, .split = {"b=x"}}).error().message,
            "expected STAGE=PIECES after --split, found 'b=x'");
}

}  // namespace
}  // namespace ridge
