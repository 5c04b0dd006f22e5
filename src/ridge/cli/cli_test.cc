// Runs the binary. `expect_rejected` checks arguments, exit code and the full stderr.
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ridge/base/float16.h"
#include "ridge/cli/testing/cli_fixture.h"
#include "ridge/device/device.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/run/npy.h"

namespace ridge {
namespace {

constexpr const char* matmul = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
const std::vector<std::string> small{"-d", "B=4", "-d", "D=8", "-d", "F=3"};

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(CliTest, RejectsUnknownVerbsAndOptions) {
  expect_rejected({"explian", matmul}, 2,
                  "ridge: unknown verb 'explian'; expected explain, run, advise, sweep, shard, simulate, model, trace, "
                  "probe, calibrate, bench, kernels, machines, help, "
                  "completion or man\n  hint: did you mean explain?\n");
  expect_rejected({"explian", "--help"}, 2,
                  "ridge: unknown verb 'explian'; expected explain, run, advise, sweep, shard, simulate, model, trace, "
                  "probe, calibrate, bench, kernels, machines, help, "
                  "completion or man\n  hint: did you mean explain?\n");
  expect_rejected({"--jsn"}, 2, "ridge: unknown option '--jsn'\n  hint: ridge --help\n");
  expect_rejected({"explain", "--jsn", matmul}, 2, "ridge: unknown option '--jsn'\n  hint: did you mean --json?\n");
  expect_rejected({"explain", matmul, "more"}, 2,
                  "ridge: unexpected argument 'more' after explain\n  hint: quote a program that has spaces\n");
  expect_rejected(
      {"explain"}, 2,
      "ridge: expected a PROGRAM, found none\n  hint: ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'\n");
  expect_rejected(
      {"run", "f32[M] * f32[M] -> f32[1]", "-d", "M=8", "--on", "h100"}, 2,
      "ridge: run uses this computer; expected --on cpu, --on cuda or this CPU's machine file, found 'h100'\n"
      "  hint: `ridge explain --on h100` predicts times on that machine\n");
  expect_rejected(
      {"run"}, 2,
      "ridge: expected a PROGRAM, found none\n  hint: ridge explain 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'\n");
  expect_rejected({"explain", matmul, "-d", "B"}, 2,
                  "ridge: expected NAME=VALUE after -d, found 'B'\n  hint: -d B=256\n");
  expect_rejected({"explain", matmul, "-d", "B=many"}, 2,
                  "ridge: expected a whole number for B, found 'many'\n  hint: -d B=256\n");
  expect_rejected(
      {"explain", matmul, "--dtype", "bf61"}, 2,
      "ridge: unknown dtype 'bf61'; expected one of f64, f32, tf32, bf16, f16, e4m3, e5m2, int32, int16, int8, "
      "int4, u8, e2m1, mxfp8, mxfp4, nvfp4, e4m3_128, int4_32, int4_64, int4_128, u4_32, u4_64, u4_128\n  hint: did "
      "you mean bf16?\n");
  expect_rejected({"explain", "--flops", "1e12"}, 2,
                  "ridge: expected --flops and --bytes together and no PROGRAM\n"
                  "  hint: ridge explain --flops 1e12 --bytes 1e9 --on h100\n");
  expect_rejected({"explain", "--flops", "nan", "--bytes", "1"}, 2,
                  "ridge: expected --flops and --bytes above 0 and below 1e38\n");
  expect_rejected(
      {"explain", matmul, "--table", "t.csv", "--svg", "x.svg"}, 2,
      "ridge: expected --table without --svg\n  hint: --table can be combined with -d --dtype --on --split --link "
      "--memory "
      "--sustained --weights --narrow --fuse --layers --plan --no-fuse --library --json\n");
  expect_rejected({"run", matmul, "--in", "X"}, 2,
                  "ridge: expected TENSOR=FILE.npy after --in, found 'X'\n  hint: --in x=a.npy\n");
}

TEST_F(CliTest, ReportsAMissingDeviceWithExitCode4) {
  if (!device::unavailable_reason()) GTEST_SKIP() << "there is a device";
  const Error absent = device::require_device().error();
  const std::string said = "ridge: " + absent.to_string();
  const std::string shapes = file("s.csv", "op,dtype,m,n,k\nlinear,bf16,1,2,3\n");
  expect_rejected({"run", "bf16[M] * bf16[M] -> bf16[1]", "-d", "M=8", "--on", "cuda"}, 4, said);
  expect_rejected({"explain", matmul, "--on", "cuda"}, 4, said);
  expect_rejected({"machines", "cuda"}, 4, said);
  expect_rejected({"probe", "--on", "cuda"}, 4, said);
  expect_rejected({"bench", "matmul", "--against", "cublaslt", "--shapes", shapes}, 4, said);
}

TEST_F(CliTest, ExplainsOnAProbedDeviceEvenIfAbsent) {
  fs::create_directories(folder / "ridge/machines");
  file("ridge/machines/cuda.toml",
       "name = \"cuda\"\ntitle = \"a device\"\n[matrix]\nbf16 = { value = 8e14, unit = \"FLOP/s\", source = \"s\", "
       "read = 2026-11-20 }\n[memory.hbm]\nbandwidth = { value = 4e12, unit = \"B/s\", source = \"s\", read = "
       "2026-11-20 }\n");
  const ProcessResult outcome = ridge({"explain", matmul, "--on", "cuda"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("on cuda (a device)"), std::string::npos) << outcome.out;
}

TEST_F(CliTest, PlansWithoutADevice) {
  const ProcessResult plan =
      ridge({"explain", matmul, "--on", "h200", "--plan", "--json", "-d", "B=512", "-d", "D=512", "-d", "F=512"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  for (const char* key : {"\"predicted_s\"", "\"kernel\"", "\"tile\"", "\"stages\"", "\"split\"", "\"waves\"",
                          "\"traffic_bytes\"", "\"candidates\"", "\"why\""})
    EXPECT_NE(plan.out.find(key), std::string::npos) << key;
  const std::string layer =
      "x: bf16[N, D]  up: bf16[F, D]  gate: bf16[F, D]\nu[N, F] = x * up\ng[N, F] = x * gate\ny: bf16[N, F] = u * "
      "silu(g)";
  for (const auto& [option, kernel] : {std::pair("--plan", "sm90_gated_"), {"--no-fuse", "chain"}}) {
    const ProcessResult out =
        ridge({"explain", layer, "--on", "h200", "--plan", option, "-d", "N=512", "-d", "D=512", "-d", "F=512"});
    EXPECT_NE(out.out.find(kernel), std::string::npos) << out.out << out.err;
    EXPECT_EQ(out.out.find("in one kernel: ") == std::string::npos, std::string_view(option) == "--no-fuse");
  }
  expect_rejected({"explain", matmul, "--library", "cublaslt"}, 2, "ridge: expected --library together with --plan\n");
  expect_rejected({"explain", "--flops", "1", "--bytes", "1", "--plan"}, 2,
                  "ridge: expected --plan with a PROGRAM, found --flops and --bytes\n");
}

TEST_F(CliTest, ListsTheKernels) {
  const ProcessResult all = ridge({"kernels"});
  EXPECT_EQ(all.code, 0);
  EXPECT_NE(all.out.find("sm90_128x192x64_pingpong "), std::string::npos);
  expect_rejected(
      {"kernels", "sm80_128x192x64_pingpong"}, 3,
      "ridge: no kernel is called 'sm80_128x192x64_pingpong'\n  hint: did you mean sm90_128x192x64_pingpong?\n");
}

TEST_F(CliTest, TunesOnlyOnADevice) {
  expect_rejected(
      {"run", matmul, "--tune"}, 2,
      "ridge: expected --tune together with --on cuda: it measures plans of matrix products on a CUDA device\n");
  expect_rejected({"run", matmul, "--on", "cuda", "--tune=1001"}, 2,
                  "ridge: --tune: expected a whole number from 0 to 1000, found '1001'\n  hint: ridge run --help\n");
}

TEST_F(CliTest, RejectsCublasltWithCpuLibraries) {
  expect_rejected({"bench", "matmul", "--against", "cublaslt,openblas", "--shapes", "s.csv"}, 2,
                  "ridge: expected only cublaslt after --against: it runs on a CUDA device, the others on this CPU\n");
  expect_rejected({"bench", "matmul", "--against", "cublaslt"}, 2,
                  "ridge: expected --shapes with --against cublaslt\n"
                  "  hint: ridge bench matmul --against cublaslt --shapes FILE.csv\n");
}

TEST_F(CliTest, RejectsDuplicateAndOutOfRangeValues) {
  expect_rejected({"explain", matmul, "-d", "B=1", "-d", "B=2"}, 2,
                  "ridge: dimension 'B' is given twice, as 1 and as 2\n  hint: give each dimension once\n");
  expect_rejected({"explain", matmul, "-d", "B=99999999999999999999"}, 2,
                  "ridge: expected a whole number below 2^63 for B, found '99999999999999999999'\n  hint: -d B=256\n");
  expect_rejected({"explain", matmul, "-d", "B=9223372036854775808"}, 2,
                  "ridge: expected a whole number below 2^63 for B, found '9223372036854775808'\n  hint: -d B=256\n");
  expect_rejected(
      with({"run", matmul, "--in", "X=a.npy", "--in", "X=b.npy"}, small), 2,
      "ridge: tensor 'X' is given twice after --in, as 'a.npy' and as 'b.npy'\n  hint: give each tensor once\n");
  expect_rejected(
      with({"run", matmul, "--out", "Z=a.npy", "--out", "Z=b.npy"}, small), 2,
      "ridge: tensor 'Z' is given twice after --out, as 'a.npy' and as 'b.npy'\n  hint: give each tensor once\n");
  expect_rejected(
      {"run", "x: f32[N]\ny: f32[N] = x + 1\nz: f32[N] = x * 2", "N=4", "--out", "y=o.npy", "--out", "z=o.npy"}, 2,
      "ridge: file 'o.npy' is given twice after --out, for 'y' and for 'z'\n"
      "  hint: write each tensor into its own file\n");
  for (const std::string seed : {"-1", "x", "1.5", "18446744073709551616"})
    expect_rejected(
        with({"run", matmul, "--seed", seed}, small), 2,
        "ridge: expected a whole number from 0 to 2^64 - 1 after --seed, found '" + seed + "'\n  hint: --seed 1\n");
}

TEST_F(CliTest, AnOptionTakesOneValueAndLeavesTheProgram) {
  const ProcessResult explained = ridge({"explain", "-d", "B=4", matmul, "--json"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  const ProcessResult ran =
      ridge({"run", "-d", "N=4", "--in", "x=" + path("none.npy"), "y: f32[N] = cos(x)\nx: f32[N]"});
  EXPECT_EQ(ran.err.find("expected a PROGRAM"), std::string::npos) << ran.err;
  const ProcessResult bench = ridge({"bench", "--against", "openblas,onednn", "matmul", "--shapes", path("none.csv")});
  EXPECT_EQ(bench.code, 3) << bench.err;
  EXPECT_NE(bench.err.find("none.csv"), std::string::npos) << bench.err;
}

TEST_F(CliTest, ReportsUncaughtExceptions) {
  const std::string large = std::string(60 << 20, '#') + "\n" + matmul;
  const rlim_t enough_to_start = fs::file_size(RIDGE_BINARY) + (32 << 20);
  const ProcessResult outcome =
      ridge({"explain", file("large.ridge", large), "--on", "h100"}, {.max_memory_bytes = enough_to_start});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "ridge: out of memory\n  hint: use smaller dimensions or a smaller program\n");
  EXPECT_EQ(outcome.out, "");
}

TEST_F(CliTest, RejectsInvalidPrograms) {
  expect_rejected(
      {"explain", "lost.ridge"}, 3,
      "ridge: cannot read 'lost.ridge': No such file or directory\n  hint: a program is a file, - or the text "
      "itself: 'bf16[B, D] * bf16[D, F] -> bf16[B, F]'\n");
  file("mlp.ridge", matmul);
  expect_rejected({"explain", (folder / "mpl.ridge").string()}, 3,
                  "ridge: cannot read 'FOLDER/mpl.ridge': No such file or directory\n"
                  "  hint: did you mean FOLDER/mlp.ridge?\n");
  expect_rejected({"explain", folder.string()}, 3, "ridge: cannot read 'FOLDER': Is a directory\n");
  expect_rejected({"explain", matmul, "-d", "B=0"}, 3,
                  "ridge: dimension 'B' must be at least 1, found 0\n  hint: give B a size of 1 or more\n");
  expect_rejected({"explain", matmul, "-d", "B=-4"}, 3,
                  "ridge: dimension 'B' must be at least 1, found -4\n  hint: give B a size of 1 or more\n");
  expect_rejected({"explain", matmul, "-d", "Q=4"}, 3,
                  "ridge: unknown dimension 'Q'\n  hint: the program's dimensions are B, D, F\n");
  expect_rejected(
      {"explain", "bf16[B, D] * bf16[E, F] -> bf16[B, F]"}, 3,
      "program:1:19: dimension 'E' of the right operand appears nowhere else; contracted dimensions must share a "
      "name\n  bf16[B, D] * bf16[E, F] -> bf16[B, F]\n                    ^\n  hint: did you mean bf16[D, F]?\n");
  expect_rejected(
      {"explain", "bf16[B, D] * bf16[D, F] -> bf16[B, F]]"}, 3,
      "program:1:38: expected the end of the line, found ']'\n  bf16[B, D] * bf16[D, F] -> bf16[B, F]]\n           "
      "                            ^\n  hint: a statement ends its line\n");
  expect_rejected(
      {"explain", matmul, "-d", "B=4e18", "-d", "D=4e18", "-d", "F=4e9"}, 3,
      "program:1:1: expected a count below 10^38, found 2*B*D*F with B = 4000000000000000000, D = "
      "4000000000000000000, F = 4000000000\n  bf16[B, "
      "D] * bf16[D, F] -> bf16[B, F]\n  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  hint: use smaller sizes\n");
  expect_rejected(
      {"explain", "int8[B, D] * int8[D, F] -> int8[B, F]", "--on", "sn40l"}, 3,
      "program:1:1: machine 'sn40l' has no matrix peak for int8; expected one of bf16\n  int8[B, D] * int8[D, F] "
      "-> int8[B, F]\n  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n  hint: choose a dtype or a machine that has one, "
      "or add int8 under [matrix] in a machine file\n");
  expect_rejected(
      {"explain", matmul, "--on", "tpu_v5f"}, 4,
      "ridge: unknown machine 'tpu_v5f'; expected a name of the catalog, a .toml file, cpu or cuda\n  hint: did you "
      "mean tpu_v5e, tpu_v5p, tpu_v1? `ridge machines` lists the catalog\n");
  expect_rejected(
      {"explain", matmul, "--on", file("half.toml", "name = \"half")}, 3,
      "FOLDER/half.toml:1:13: expected the rest of a value, found the end of the file\n  name = \"half\n           "
      "   ^\n  hint: the file is cut short: complete it, or write it again\n");
  expect_rejected(
      {"explain", matmul, "--on", path("none.toml")}, 3,
      "ridge: cannot read 'FOLDER/none.toml': No such file or directory\n  hint: `ridge machines` lists the names "
      "that need no file\n");
  expect_rejected({"explain", matmul, "--table", path("none.csv")}, 3,
                  "ridge: cannot read 'FOLDER/none.csv': No such file or directory\n");
}

TEST_F(CliTest, RejectsInvalidRuns) {
  expect_rejected({"run", matmul, "-d", "B=4"}, 3,
                  "ridge: dimension 'D' has no value; expected one to run the program\n  hint: -d D=64\n");
  expect_rejected({"run", "x: int8[N]\ny: int8[N] = x + x", "-d", "N=4"}, 3,
                  "ridge: cannot run 'x' as int8: expected f32, bf16 or f16, found int8\n"
                  "  hint: `ridge explain` takes every dtype; to run, declare another one or pass --dtype\n");
  expect_rejected(with({"run", matmul, "--in", "Q=a.npy"}, small), 3,
                  "ridge: unknown tensor 'Q' in --in; expected an input, one of X, Y\n");
  expect_rejected(with({"run", matmul, "--out", "X=a.npy"}, small), 3,
                  "ridge: unknown tensor 'X' in --out; expected a result, one of Z\n");
  expect_rejected(with({"run", matmul, "--in", "X=" + path("none.npy")}, small), 3,
                  "ridge: cannot read 'FOLDER/none.npy': No such file or directory\n");
  const ProcessResult large = ridge({"run", matmul, "-d", "B=4000000", "-d", "D=4000000", "-d", "F=4"});
  EXPECT_EQ(large.code, 3);
  EXPECT_TRUE(large.err.starts_with("ridge: the program's tensors take 32.00 TB; expected at most the ")) << large.err;
}

TEST_F(CliTest, RejectsArraysOfAnotherType) {
  const auto given = [&](const std::string& name, const std::string& content) {
    return with({"run", matmul, "--in", "X=" + file(name, content)}, small);
  };
  const std::string data(64, '\0');
  expect_rejected(given("f4.npy", make_npy_header(DType::f32, {4, 8}) + data + data), 3,
                  "FOLDER/f4.npy: expected bf16, found f32\n  hint: x.astype(ml_dtypes.bfloat16)\n");
  expect_rejected(given("shape.npy", make_npy_header(DType::bf16, {8, 4}) + data), 3,
                  "FOLDER/shape.npy: expected shape (4, 8), found (8, 4)\n  hint: -d sets the program's dimensions\n");
  expect_rejected(
      given("short.npy", make_npy_header(DType::bf16, {4, 8}) + data.substr(1)), 3,
      "FOLDER/short.npy: expected 64 bytes of data, found 63\n  hint: the file is not whole; write it again\n");
  expect_rejected(
      given("long.npy", make_npy_header(DType::bf16, {4, 8}) + data + "x"), 3,
      "FOLDER/long.npy: expected 64 bytes of data, found more\n  hint: the file is not whole; write it again\n");
  expect_rejected(
      given("text.npy", "hello, world"), 3,
      "FOLDER/text.npy: expected an .npy file, found other bytes at its start\n  hint: write it with numpy.save\n");
}

TEST_F(CliTest, RejectsInvalidBenchmarks) {
  expect_rejected({"bench", "matmul", "--against", "atlas"}, 2,
                  "ridge: unknown library 'atlas'; expected openblas, mkl, onednn or torch\n");
  expect_rejected({"bench", "matmul", "--against", "onednn,onednn"}, 2,
                  "ridge: expected each library once, found 'onednn' twice\n");
  expect_rejected({"bench", "matmul", "--shapes", file("half.csv", "op,dtype,m,n,k\nnn,e4m3,4,4,4\n")}, 3,
                  "FOLDER/half.csv:2:1: expected dtype f32, bf16, f16 or int8, found 'e4m3'\n");
}

TEST_F(CliTest, ACorruptMachineFileStopsABenchmarkButNotTheCatalog) {
  fs::create_directories(folder / "ridge/machines");
  file("ridge/machines/cpu.toml", "name = \"cpu");
  std::string corrupt_file_error =
      folder.string() +
      "/ridge/machines/cpu.toml:1:12: expected the rest of a value, found the end of the file\n"
      "  name = \"cpu\n             ^\n"
      "  hint: the file is cut short: complete it, or write it again; `ridge probe` writes it again\n";
  expect_rejected({"bench", "matmul"}, 3, corrupt_file_error);
  expect_rejected({"machines", "cpu"}, 3, corrupt_file_error);
  const ProcessResult outcome = ridge({"machines"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, corrupt_file_error);
  EXPECT_NE(outcome.out.find("h100"), std::string::npos);
}

TEST_F(CliTest, LeavesNoFileIfWritingFails) {
  expect_rejected({"explain", matmul, "--svg", "/dev/full"}, 3,
                  "ridge: cannot write '/dev/full': No space left on device\n");
  expect_rejected({"explain", matmul, "--svg", path("none/x.svg")}, 3,
                  "ridge: cannot write 'FOLDER/none/x.svg': No such file or directory\n");
  expect_rejected({"explain", matmul, "--svg", folder.string()}, 3, "ridge: cannot write 'FOLDER': Is a directory\n");
  expect_rejected(with({"run", matmul, "--out", "Z=/dev/full"}, small), 3,
                  "ridge: cannot write '/dev/full': No space left on device\n");
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_TRUE(entry.path().filename().string().starts_with(".")) << entry;
}

TEST_F(CliTest, ReportsAFullDiskButNotAClosedPipe) {
  const ProcessResult full = ridge({"explain", matmul}, {.output = "/dev/full"});
  EXPECT_EQ(full.code, 3);
  EXPECT_EQ(full.err, "ridge: cannot write to the standard output: No space left on device\n");
  const ProcessResult closed = ridge({"explain", matmul}, {.is_stdout_closed = true});
  EXPECT_EQ(closed.code, 0);
  EXPECT_EQ(closed.err, "");
}

TEST_F(CliTest, PrintsOnlyResultsOnStdout) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"explain", matmul, "--on", "tpu_v5e"},
                                                    {"explain", matmul, "--json"},
                                                    {"machines"},
                                                    {"machines", "h100", "--json"},
                                                    {"--version"},
                                                    {"--help"},
                                                    {"run", "--help"},
                                                    with({"run", matmul}, small),
                                                    with({"run", matmul, "--json"}, small)}) {
    const ProcessResult outcome = ridge(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(outcome.out, "");
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
  }
}

TEST_F(CliTest, ColorsFollowTheEnvironment) {
  const auto colored = [&](std::vector<std::string> environment) {
    return ridge({"explain", matmul}, {.environment = std::move(environment)}).out.find('\x1b') != std::string::npos;
  };
  EXPECT_FALSE(colored({}));
  EXPECT_TRUE(colored({"CLICOLOR_FORCE=1"}));
  EXPECT_FALSE(colored({"CLICOLOR_FORCE=1", "NO_COLOR=1"}));
  EXPECT_FALSE(colored({"CLICOLOR_FORCE=1", "TERM=dumb"}));
  EXPECT_FALSE(colored({"CLICOLOR_FORCE=0"}));
}

TEST_F(CliTest, ASignalEndsTheRun) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open("/dev/null", O_WRONLY), 1);
      ::execl(RIDGE_BINARY, "ridge", "run", "x: f32[N]\ny: f32[N] = repeat(1000000, cos, x)", "-d", "N=100000",
              nullptr);
      ::_exit(127);
    }
    ::usleep(200'000);
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << signal;
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
  }
}

// Sends the signal when the temporary file exists; writing 64 MiB takes longer than that.
TEST_F(CliTest, ASignalWithinALargeWriteLeavesNoFile) {
  constexpr std::int64_t elements = 16 << 20;
  const std::string npy = path("y.npy"), out = "y=" + npy, size = fmt::format("N={}", elements);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open("/dev/null", O_WRONLY), 1);
      ::execl(RIDGE_BINARY, "ridge", "run", "x: f32[N]\ny: f32[N] = x + x", "-d", size.c_str(), "--out", out.c_str(),
              nullptr);
      ::_exit(127);
    }
    const std::string unfinished = fmt::format("{}.{}.unfinished", npy, child);
    int status = 0;
    pid_t ended = 0;
    while (ended == 0 && ::access(unfinished.c_str(), F_OK) != 0) {
      ::usleep(200);
      ended = ::waitpid(child, &status, WNOHANG);
    }
    ASSERT_EQ(ended, 0) << "the run ended before its file was seen";
    ::kill(child, signal);
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << signal;
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    EXPECT_FALSE(fs::exists(unfinished)) << signal;
    EXPECT_FALSE(fs::exists(npy)) << signal;
  }
}

TEST_F(CliTest, ReadsAProgramFromArgumentFileAndStdin) {
  const std::string expected = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
  const auto text = [](const ProcessResult& outcome) { return nlohmann::json::parse(outcome.out)["ops"][0]["text"]; };
  EXPECT_EQ(text(ridge({"explain", matmul, "--json"})), expected);
  EXPECT_EQ(text(ridge({"explain", "-", "--json"}, {.input = matmul})), expected);
  EXPECT_EQ(text(ridge({"explain", file("a.ridge", matmul), "--json"})), expected);
}

TEST_F(CliTest, ExplainsEachRowOfATable) {
  const std::string csv = file("t.csv", "B\n1\n256\n512\n");
  const ProcessResult outcome =
      ridge({"explain", matmul, "-d", "D=8192", "-d", "F=8192", "--on", "tpu_v5e", "--table", csv});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  std::vector<std::string> limiters;
  for (std::string line; std::getline(lines, line);)
    limiters.push_back(nlohmann::json::parse(line)["ops"][0]["limiter"]);
  EXPECT_EQ(limiters, (std::vector<std::string>{"memory", "compute", "compute"}));
}

TEST_F(CliTest, RunsOnGivenArraysAndWritesTheResult) {
  const std::vector<std::int64_t> shape{2, 2};
  std::vector<float> x{1, 2, 3, 4}, y{5, 6, 7, 8}, z(4);
  ASSERT_TRUE(write_npy(path("x.npy"), {DType::f32, 4, reinterpret_cast<std::byte*>(x.data())}, shape).ok());
  ASSERT_TRUE(write_npy(path("y.npy"), {DType::f32, 4, reinterpret_cast<std::byte*>(y.data())}, shape).ok());
  const ProcessResult outcome =
      ridge({"run", "f32[M, K] * f32[K, N] -> f32[M, N]", "-d", "M=2", "-d", "K=2", "-d", "N=2", "--in",
             "X=" + path("x.npy"), "--in", "Y=" + path("y.npy"), "--out", "Z=" + path("z.npy"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_TRUE(read_npy(path("z.npy"), {DType::f32, 4, reinterpret_cast<std::byte*>(z.data())}, shape).ok());
  EXPECT_EQ(z, (std::vector<float>{19, 22, 43, 50}));
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["ops"][0]["max_rel_error"], 0.0);
  EXPECT_GE(json["ops"][0]["measured_s"]["runs"], 5);
}

TEST_F(CliTest, WarnsOfResultsThatAreRightButUseless) {
  const std::vector<F16> hundreds(8, to_f16(300));
  const auto* const bytes = reinterpret_cast<const std::byte*>(hundreds.data());
  const Array array{DType::f16, 8, const_cast<std::byte*>(bytes)};
  ASSERT_TRUE(write_npy(path("x.npy"), array, {2, 4}).ok());
  ASSERT_TRUE(write_npy(path("w.npy"), array, {4, 2}).ok());
  const ProcessResult infinite = ridge({"run", "f16[M, K] * f16[K, N] -> f16[M, N]", "M=2", "K=4", "N=2", "--in",
                                        "X=" + path("x.npy"), "--in", "Y=" + path("w.npy"), "--runs", "1"});
  EXPECT_EQ(infinite.code, 0) << infinite.err;
  EXPECT_NE(infinite.out.find("warning: Z: 4 of 4 checked results are outside the range of f16; Z[0, 0] is 360000, "
                              "stored as inf\n"),
            std::string::npos)
      << infinite.out;
  const std::vector<float> near{40000, 40001, 40002, 40003};
  const Array row{DType::f32, 4, const_cast<std::byte*>(reinterpret_cast<const std::byte*>(near.data()))};
  ASSERT_TRUE(write_npy(path("r.npy"), row, {1, 4}).ok());
  const ProcessResult cancelled = ridge({"run",
                                         "dims N = 1, D = 4\nx: f32[N, D]\nm[N] = mean(x over D)\n"
                                         "q[N] = mean(x * x over D)\nv: f32[N] = q - m * m",
                                         "--in", "x=" + path("r.npy"), "--runs", "1", "--json"});
  EXPECT_EQ(cancelled.code, 0) << cancelled.err;
  const auto total = nlohmann::json::parse(cancelled.out)["total"];
  EXPECT_EQ(total["out_of_range"], 0);
  EXPECT_EQ(total["lost_digits"], 1);
}

TEST_F(CliTest, TheSameSeedGivesTheSameResultWhateverTheThreads) {
  const auto result = [&](const std::string& name, const std::vector<std::string>& more) {
    const std::string npy = path(name);
    EXPECT_EQ(
        ridge(with(with({"run", "x: bf16[N]\ny: bf16[N] = x + x", "-d", "N=300000", "--out", "y=" + npy}, {}), more))
            .code,
        0);
    return *read_file(npy);
  };
  const std::string one = result("a.npy", {"--threads", "1"});
  EXPECT_EQ(one, result("b.npy", {"--threads", "2"}));
  EXPECT_NE(one, result("c.npy", {"--seed", "1"}));
}

TEST_F(CliTest, EveryExampleRuns) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(std::string(RIDGE_SOURCE_DIR) + "/examples")) {
    if (entry.path().extension() != ".ridge") continue;
    const std::string program = entry.path(), picture = path(entry.path().stem().string() + ".svg");
    const ProcessResult explained = ridge({"explain", program, "--on", "h100", "--json"});
    ASSERT_EQ(explained.code, 0) << explained.err;
    // Small sizes, for speed, in place of those that are numbers in the program.
    std::vector<std::string> arguments{"run", program, "--svg", picture};
    const std::string text = read_file(program).value();
    const nlohmann::json report = nlohmann::json::parse(explained.out);
    int extent = 4;
    for (const auto& [dim, value] : report["dims"].items())
      if (text.find(fmt::format(" {} = {}", dim, value.dump())) != std::string::npos)
        arguments = with(arguments, {"-d", fmt::format("{}={}", dim, extent += 4)});
    const ProcessResult outcome = ridge(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(read_file(picture)->starts_with("<svg "));
    ++count;
  }
  EXPECT_GE(count, 9);
}

}  // namespace
}  // namespace ridge
