// Maps one pass of a program to a pipe on a chip: selects the tile size, the tensors that stream, stay or are read
// again, and the loop of each statement, and simulates the result. Internal to metapipe_mapping.h.
#pragma once

#include <map>

#include "ridge/plan/metapipe_mapping.h"

namespace ridge {

struct PassContext {
  const Program& program;
  const Bindings& dims;  // value of every dimension
  const Fabric& fabric;
  std::int64_t tile = 0;
  std::string inner_dim;
  std::int64_t inner_tile = 0;
  std::map<std::string, std::int64_t> par, buffer;  // by name of the result
  PipeSchedule schedule = PipeSchedule::pipelined;
  std::vector<double> flops;  // operations of each statement
};

Result<MappedPass> map_pass_to_pipe(const PassContext& context, const StreamingPass& pass);

}  // namespace ridge
