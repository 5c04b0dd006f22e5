// Stages of consecutive layers, and what sends between them cost.
#pragma once

#include <cstdint>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/program.h"
#include "ridge/roofline/sending/transfer_cost.h"

namespace ridge {

// Returns the number of layers of each stage: as even as possible, longer stages first, because the last one has the
// head.
std::vector<std::int64_t> divide_layers(std::int64_t layers, std::int64_t stages);

// True if a chip of the stage sends to another host of `host_chips` chips, 0 for no limit. Stages have `stage_chips`
// consecutive chips each.
bool sends_beyond_host(std::int64_t stage, std::int64_t stage_chips, std::int64_t host_chips);

// Returns how many of the sends between neighbouring stages leave a host.
std::int64_t count_sends_beyond_host(std::int64_t stages, std::int64_t stage_chips, std::int64_t host_chips);

// Costs of a send from a chip of a stage to the same chip of the next one.
struct SendCosts {
  TransferCost inside_host, beyond_host;
  std::int64_t host_chips = 0;  // Chips that the first link joins; 0 for no limit
  const TransferCost& of_stage(std::int64_t stage, std::int64_t stage_chips) const {
    return sends_beyond_host(stage, stage_chips, host_chips) ? beyond_host : inside_host;
  }
};
// Errors: a machine without a link.
Result<SendCosts> compute_send_costs(const Machine& machine);
// Errors: stages on more chips than links join.
Status check_stage_links(const Machine& machine, const model::ChipLayout& layout);

}  // namespace ridge
