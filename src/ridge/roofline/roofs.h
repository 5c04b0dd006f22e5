// Helpers for the predictions of single operations and of sums. A roof is a time: a count of FLOPs or bytes divided by
// a rate of the machine.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/roofline/compare_roofs.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/threshold.h"

namespace ridge {

struct RooflineContext {
  const Machine& machine;
  double bandwidth;
  Bindings dims;
  std::vector<std::string> order;
  ThresholdOptions threshold_options = {};   // Inputs of `find_thresholds`
  std::optional<double> link_rate = {};      // B/s; nullopt if nothing is sent
  std::optional<Network> network = {};       // Network of `link_rate`
  double launch_s = 0;                       // Seconds of a kernel launch; 0 if not on record
  std::map<std::string, double> sizes = {};  // The values of `dims` as doubles
  bool thresholds = true;
  bool formulas = true;                     // False if intensities are not written as text
  std::vector<std::string> tied_dims = {};  // Dimensions tied to others: no thresholds of masked operations
};

// Returns the seconds of a kernel launch, or 0 if not on record.
double launch_seconds(const Machine& machine);

struct Roof {  // The time, count / rate in s, is rounded to a double
  Limiter name;
  Polynomial count;
  double rate, time_s;
};

// Returns the names of the roofs, the slowest first; equal roofs keep their order.
Result<std::vector<Limiter>> rank_roofs(std::vector<Roof> roofs, const RooflineContext& context);

// Returns nullopt if a dimension has no value. Errors: the count exceeds 10^38.
Result<std::optional<Count>> evaluate_count(const Polynomial& count, const Bindings& dims);

std::string format_intensity(const Ratio& ratio, std::span<const std::string> order);

// Sets the limiter and the runner-up; leaves both empty if there are no roofs. If a launch is the limiter, no threshold
// of the others decides it.
Status set_limiters(Prediction& p, std::vector<Roof> roofs, const RooflineContext& context);

// Adds the thresholds of every pair of roofs. They do not decide the limiter if anything is sent. `flops` run at `peak`
// FLOP/s; a peak of 0 leaves compute out.
void add_thresholds(Prediction& p, const Polynomial& flops, double peak, const RooflineContext& context);

// Predicts one operation. Errors: the machine lacks the peak of a contraction; a count exceeds 10^38.
Result<Prediction> predict_operation(const Work& work, const RooflineContext& context);

}  // namespace ridge
