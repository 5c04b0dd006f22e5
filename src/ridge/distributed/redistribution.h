// Redistribution of a tensor from one layout to another, as a list of collectives. Each mesh axis decides by itself,
// from the tensor axis that it splits before and after:
//   before         after        collective over that mesh axis
//   partial sums   nothing      all-reduce
//   partial sums   splits d     reduce-scatter along d
//   splits d       nothing      all-gather along d
//   splits d       splits e     all-to-all from d to e
//   nothing        splits d     none: each device drops the elements outside its shard
// If only the order of the mesh axes of a tensor axis differs, the devices swap their shards: a permutation.
// Partial sums are reduced first, before any copies exist; then shards are sliced and exchanged; gathers come last,
// so the earlier steps move small shards.
#pragma once

#include <string>
#include <vector>

#include "ridge/distributed/layout.h"
#include "ridge/roofline/work.h"

namespace ridge {

struct RedistributionStep {
  std::optional<Collective> collective = {};  // nullopt for a local slice
  std::string over;                           // mesh axes, as letters
  Layout before, after;
};
// Both layouts are of the same tensor; `target` holds no partial sums that `source` lacks.
std::vector<RedistributionStep> plan_redistribution(const Layout& source, const Layout& target);

// Returns the words sent between devices, over the whole mesh. Each word gained by a device counts once. A reduction
// of n partial sums sends n - 1 words for each result word; an all-reduce sends that many again.
std::int64_t words_moved(const RedistributionStep& step, const std::vector<std::int64_t>& extents, const Mesh& mesh);

// Returns the step as a `Transfer`, whose time roofline/network.h estimates, for the device with the largest shard.
// Returns nullopt if no data moves.
std::optional<Transfer> transfer_of_step(const RedistributionStep& step, const std::vector<std::int64_t>& extents,
                                         const Mesh& mesh, Rational word_bytes);

}  // namespace ridge
