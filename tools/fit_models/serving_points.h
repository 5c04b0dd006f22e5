// Measured times of engines that serve language models, with the work that predictions are computed from.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/plan/model/serving.h"

namespace ridge::fit {

struct ServingPoint {
  int line = 0;               // In the file
  std::string configuration;  // Everything but the number of requests
  ServingWork work;
  double token_s = 0, first_token_s = 0;  // Measured
};

struct ServingPoints {
  std::vector<ServingPoint> all;  // In the order of configurations
  int parallel_attention = 0;     // Points left out: replicas of the attention divide the requests
  int repeated = 0;               // Points left out: measurements that occur twice
  std::vector<int> impossible;    // Lines left out: the measured time is below the bound without the network
};

// Reads points with the columns model,system,backend,version,precision,concurrency,isl,osl,tp,dp_attention,moe_tp,
// moe_ep,ttft_ms,tpot_ms. Errors: a file that cannot be read, a cell that cannot be, an unknown model or machine.
Result<ServingPoints> read_serving_points(const std::string& path);

}  // namespace ridge::fit
