// One pass of a program as a pipe on a chip: which tensors stream, stay or are read again, how many rows a tile has, in
// which loop each statement is, and what the clock says. Internal to as_metapipe.h.
#pragma once

#include <map>

#include "ridge/plan/as_metapipe.h"

namespace ridge {

struct PassSetting {
  const Program& program;
  const Bindings& dims;  // every dimension's value
  const Fabric& fabric;
  std::int64_t tile = 0;
  std::string inner;
  std::int64_t inner_tile = 0;
  std::map<std::string, std::int64_t> par, buffer;  // by the result's name
  Schedule schedule = Schedule::pipelined;
  std::vector<double> flops;  // of each statement
};

Result<MappedPass> pass_pipe(const PassSetting& setting, const Pass& pass);

}  // namespace ridge
