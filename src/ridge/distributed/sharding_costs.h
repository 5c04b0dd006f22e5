// Costs that a search over shardings reads: of each statement under each partition, and of each redistribution, which
// is cached. Times are those of roofline/prediction.h for the device with the largest shard. If a library's collectives
// were timed on the machine (collective.h), a transfer takes at least as long as the library.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ridge/distributed/partition.h"
#include "ridge/distributed/redistribution.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/network.h"

namespace ridge {

struct StatementCost {
  Partition partition;
  double compute_s = 0;  // the larger of math and memory; a time without a rate in the machine's file counts as 0
  double network_s = 0;  // collectives of functions along a split dimension
};

struct RedistributionCost {
  double seconds = 0;
  std::int64_t words = 0;   // over the whole mesh
  bool needs_copy = false;  // the result needs a buffer of its own; a slice is only a view
};

class ShardingCosts {
 public:
  // Returns the errors of explain().
  static Result<ShardingCosts> compute_costs(const Program& program, const Machine& machine, const Network& network,
                                             const Mesh& mesh, const Bindings& sizes);

  const Program& program() const { return *program_; }
  const Mesh& mesh() const { return mesh_; }
  const Bindings& sizes() const { return sizes_; }
  const std::vector<StatementCost>& statement_costs(std::size_t s) const { return statements_[s]; }
  const std::vector<Layout>& layouts_of(int tensor) const { return layouts_[tensor]; }
  double bytes_per_device(int tensor, const Layout& layout) const;  // size of the largest shard
  const RedistributionCost& redistribution_cost(int tensor, const Layout& source, const Layout& target) const;

 private:
  double transfer_seconds(const Transfer& transfer) const;

  const Program* program_ = nullptr;
  Network network_;
  Mesh mesh_;
  Bindings sizes_;
  std::vector<std::vector<StatementCost>> statements_;
  std::vector<std::vector<Layout>> layouts_;
  mutable std::vector<std::map<std::pair<Layout, Layout>, RedistributionCost>> redistribution_costs_;
};

}  // namespace ridge
