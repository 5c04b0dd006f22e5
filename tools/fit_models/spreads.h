// Reads from results/ the times of kernels that `bench plans` does not time, and writes data/models/spreads.csv:
// measured over predicted time per kind of kernel.
#pragma once

#include "fit_models/closed_form.h"
#include "fit_models/loops.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/fitted.h"
#include "ridge/ops/product/register_loads/register_loads.h"

namespace ridge::fit {

struct TimedPass {  // the pass over h of a gated layer's backward
  double elements = 0, measured_s = 0;
};
struct TimedAttention {
  ops::AttentionProblem problem;
  int config = 0;
  std::int64_t parts = 1;
  double measured_s = 0;
};
struct TimedAttentionBackward {
  ops::AttentionBackwardProblem problem;
  double measured_s = 0;
};
struct TimedRegisterLoads {  // A product by the kernel of ops/product/register_loads/register_loads.h
  ops::MatmulCall call;
  ops::cuda::RegisterLoadsChoice choice;
  double measured_s = 0;
};
struct TimedTiles {  // A product of operands that have not 16 bits, by a kernel of tiles without copies
  ops::MatmulCall call;
  ops::cuda::PlanChoice choice;
  double measured_s = 0;
};
struct TimedStream {
  double bytes = 0, instructions = 0, measured_s = 0;
};
struct Results {
  std::string h100, h200, day;  // the devices' names and the latest day
  std::vector<TimedPass> passes;
  std::vector<TimedAttention> attention;
  std::vector<TimedAttentionBackward> attention_backward;
  std::vector<TimedRegisterLoads> f32_products, unaligned_products, tf32_products;
  std::vector<TimedTiles> narrow_products;
  std::vector<TimedStream> streams;
  std::vector<TimedLoop> loops;
  std::vector<double> library = {};  // measured over predicted on a machine that was not fitted
};
Result<Results> read_results(const std::string& root);

// Returns the prediction over the measured time.
double tiles_ratio(const TimedTiles& timed, const Form& form, const ops::DeviceNumbers& device);
double pass_seconds(const TimedPass& pass, const ops::KernelConstants& numbers, const ops::DeviceNumbers& device);
double attention_seconds(const TimedAttention& timed, const ops::DeviceNumbers& device);

// Returns the fitted numbers of a device. Errors: it was not timed.
Result<ops::DeviceNumbers> numbers_of(const Samples& samples, const Form& form, const std::string& device);

Status write_spreads(const Samples& samples, const Form& form, const ops::KernelConstants& numbers,
                     const Results& results, const std::string& facts, const std::string& root);

}  // namespace ridge::fit
