// Shardings of programs drawn by lot, for tests of ranks on CPUs and on devices.
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

// The program in the notation, every statement cut and every tensor kept in some way that the search knows.
inline std::string random_sharding(const Program& program, const Mesh& mesh, Random& random) {
  Bindings sizes;  // which every mesh divides
  for (const std::string& dim : program.dim_names()) sizes[dim] = 840;
  const Machine machine = find_machine("h200").value();  // its numbers do not matter: it has every peak, and a link
  const auto costs = Costs::of(program, machine, *network_of(machine), mesh, sizes);
  Sharding sharding;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const std::vector<StatementCost>& all = costs->statement(s);
    sharding.cuts.push_back(all[random.below(all.size())].cuts);
  }
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const std::vector<Layout>& all = costs->layouts(static_cast<int>(t));
    sharding.kept.push_back(all[random.below(all.size())]);
  }
  return written(*costs, sharding).text;
}

}  // namespace ridge::ranks
