// Measured times of engines that serve language models, with the work that predictions are computed from.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/plan/model/fit_serving.h"

namespace ridge::fit {

struct ServingPoints {
  std::vector<MeasuredServing> all;  // In the order of configurations
  int parallel_attention = 0;        // Points left out: replicas of the attention divide the requests
  int repeated = 0;                  // Points left out: measurements that occur twice
  std::vector<int> impossible;       // Lines left out: the measured time is below the bound without the network
};

// Reads points with the columns model,system,backend,version,precision,concurrency,isl,osl,tp,dp_attention,moe_tp,
// moe_ep,ttft_ms,tpot_ms. Errors: a file that cannot be read, a cell that cannot be, an unknown model or machine.
Result<ServingPoints> read_serving_points(const std::string& path);

}  // namespace ridge::fit
