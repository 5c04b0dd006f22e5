// Random shardings of programs, for tests of ranks on CPUs and on devices.
#pragma once

#include <random>
#include <string>

#include "ridge/distributed/shard.h"
#include "ridge/machine/machine.h"

namespace ridge::ranks {

struct Random {
  std::mt19937 engine;
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine); }
};

// Returns the program in the notation with a random choice of the search's shardings for every statement and tensor.
inline std::string random_sharding(const Program& program, const Mesh& mesh, Random& random) {
  Bindings sizes;  // divisible by the sizes of every mesh of the tests
  for (const std::string& dim : program.dim_names()) sizes[dim] = 840;
  const Machine machine = find_machine("h200").value();  // any machine with all peaks and a link
  const auto costs = ShardingCosts::compute_costs(program, machine, *make_network(machine), mesh, sizes);
  Sharding sharding;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const std::vector<StatementCost>& all = costs->statement_costs(s);
    sharding.partitions.push_back(all[random.below(all.size())].partition);
  }
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const std::vector<Layout>& all = costs->layouts_of(static_cast<int>(t));
    sharding.layouts.push_back(all[random.below(all.size())]);
  }
  return to_program(*costs, sharding).text;
}

}  // namespace ridge::ranks
