// Exact search for the best shardings of a program, by dynamic programming over its statements. A sharding selects for
// each statement the dimensions that are split (partition.h), and for each tensor the layout in which it is stored:
//   input    the layout that its reader requires; any layout if several statements read it. If memory is limited, also
//            layouts with smaller shards, which are gathered for each read
//   result   any layout if a later statement reads it; else the layout of production, with partial sums reduced
// A statement that requires another layout redistributes a copy first. Statements and redistributions run sequentially.
// The cost of the remaining statements depends only on the layouts of the tensors that they read. For each combination
// of these layouts the search keeps the `count` fastest prefixes; with a memory limit also slower ones that need less
// memory. Of prefixes with equal times it keeps the one with the least memory.
#pragma once

#include <vector>

#include "ridge/distributed/sharding_costs.h"

namespace ridge {

struct Sharding {
  std::vector<Partition> partitions = {};  // one for each statement
  std::vector<Layout> layouts = {};        // one for each tensor
  double compute_s = 0, network_s = 0;
  double peak_bytes = 0;   // peak memory of a device
  std::int64_t words = 0;  // words sent over the whole mesh
  double total_seconds() const { return compute_s + network_s; }
};

// Returns the `count` best shardings, fastest first; fewer or none if others do not fit into `capacity` bytes for each
// device (0: no limit). May omit shardings slower than `max_seconds` (0: no limit). Error: too many combinations.
Result<std::vector<Sharding>> best_shardings(const ShardingCosts& costs, double capacity, std::size_t count,
                                             double max_seconds = 0);

// Returns the layouts in which to store an input whose only reader requires `required`.
std::vector<Layout> candidate_input_layouts(const ShardingCosts& costs, int input, const Layout& required,
                                            bool is_memory_limited);
// Returns the layouts in which to store a result that is produced as `produced`.
std::vector<Layout> candidate_result_layouts(const ShardingCosts& costs, int result, const Layout& produced,
                                             bool read_again);

// Returns the sharding with times, words and memory computed from its choices.
Sharding evaluate_sharding(const ShardingCosts& costs, std::vector<Partition> partitions, std::vector<Layout> layouts);

// A redistribution step of a sharding.
struct StatementRedistribution {
  std::size_t statement = 0;
  int tensor = 0;
  RedistributionStep redistribution;
  RedistributionCost cost;
};
std::vector<StatementRedistribution> list_redistributions(const ShardingCosts& costs, const Sharding& sharding);

}  // namespace ridge
