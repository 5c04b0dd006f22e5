// Fits the constants of served times to measured points, by Levenberg's method on the logarithms of the constants.
// tools/fit_models fits those of data/models/serving.csv, `ridge calibrate --serving` those of a user's engine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/plan/model/serving.h"

namespace ridge {

struct MeasuredServing {
  int line = 0;               // Line in the file
  std::string configuration;  // Everything but the number of requests
  ServingWork work;
  double token_s = 0, first_token_s = 0;  // Measured times
};

// Returns the constants that minimize |log(expected / measured)| of both times of all points. A weak prior pulls each
// to its initial value, so that constants which the points do not determine stay there. The share of the memory and
// the intervals are those of `initial`.
ServingConstants fit_serving_constants(const std::vector<const MeasuredServing*>& points,
                                       const ServingConstants& initial);

// Measured over expected times.
struct ServingRatios {
  std::vector<double> token, first_token;

  void add(const ServingRatios& more);
};
ServingRatios compute_serving_ratios(const std::vector<const MeasuredServing*>& points,
                                     const ServingConstants& constants);
double find_quantile(std::vector<double> values, double share);

// A measured point that cannot be right.
struct ImpossiblePoint {
  int line = 0;
  std::string reason;  // "3.1 ms per token are below the bound of 5.2 ms"
};

struct ServingErrors {
  double token_median = 0, first_token_median = 0;  // Medians of |expected / measured - 1|
};

// Result of `ridge calibrate --serving`.
struct ServingFit {
  std::string source;  // File of the points
  std::size_t points = 0, configurations = 0;
  std::vector<ImpossiblePoint> impossible = {};  // Points that are left out
  ServingConstants constants = {};
  ServingErrors built_in = {}, fitted = {};  // Errors of all points with the built-in and with the fitted constants
  std::optional<ServingErrors> cross_validation =
      {};  // Errors of each half of the configurations, fitted to the other half
  bool has_wide_intervals =
      false;  // True if there are too few points for an interval, so that it includes the built-in
};

inline constexpr std::string_view serving_point_columns =
    "config,machine,engine,tp,dtype,cache_dtype,requests,prompt_tokens,output_tokens,first_token_ms,token_ms";

// Fits the constants to a file with these columns; the built-in constants are the prior. Errors: a file that does not
// parse, a cell that `predict_model` refuses (with its line), no point that is possible.
Result<ServingFit> fit_serving_file(std::string_view csv, const std::string& source);

// Returns the file of constants, in the format of data/models/serving.csv.
std::string format_serving_constants(const ServingFit& fit, const std::string& day);

}  // namespace ridge
