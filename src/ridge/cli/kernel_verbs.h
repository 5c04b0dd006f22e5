// Verbs that need the kernels: run, advise, probe, calibrate, bench and kernels. Their options are declared in
// kernel_verbs.cc, which is also part of the program without kernels; so its help, completion and manual page are
// complete. The functions that execute the verbs are in one file for each verb, and in kernels_absent.cc.
#pragma once

#include <string>
#include <vector>

#include "ridge/bench/bench.h"
#include "ridge/bench/plan_timings.h"
#include "ridge/cli/output.h"

namespace ridge::cli {

struct RunArgs {
  RequestArgs request_args;
  ReportOutput output;
  RunRequest run_request;
  std::vector<std::string> in, out;
  std::string seed = "0";
  int tune = 0;
  bool is_tune_given = false;  // True if the option is given, even with 0
  std::string time, against, timeout, trace;
  api::RanksRequest ranks;
  const CLI::App* verb = nullptr;
};

struct AdviseArgs {
  RequestArgs request_args;
  OutputFormat format;
  RunRequest run_request;
  bool confirm = false;
  const CLI::App* verb = nullptr;
};

struct ProbeArgs {
  ProbeOptions options;
  std::string on = "cpu";
  OutputFormat format;
};

struct CalibrateArgs {
  std::string on, dtype, serving;
  api::CalibrationRequest request;
  OutputFormat format;
  const CLI::App* verb = nullptr;
};

struct BenchArgs {
  std::string what = "matmul", on = "cpu", svg;
  BenchOptions options;
  TimePlansOptions plans;
  OutputFormat format;
  const CLI::App* verb = nullptr;
};

struct KernelsArgs {
  std::string name, dtype;
  bool sass = false, ptx = false;
  OutputFormat format;
};

// Each function executes a verb and returns the exit code.
Result<int> run_program(RunArgs& args);
Result<int> run_advise(AdviseArgs& args);
Result<int> run_probe(ProbeArgs& args);
Result<int> run_calibrate(CalibrateArgs& args);
Result<int> run_serving_fit(const CalibrateArgs& args);  // Needs no kernels
Result<int> run_bench(BenchArgs& args);
Result<int> run_kernels(KernelsArgs& args);

}  // namespace ridge::cli
