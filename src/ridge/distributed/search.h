// The best shardings of a program: exact, by dynamic programming over its statements. A sharding says for each
// statement which dimensions its devices share out (cuts.h), and how each tensor is kept:
//   an input   as its first reader wants it; one with several readers anyhow; and where memory is short in more parts,
//              gathered each time it is read
//   a result   anyhow, if it is read again; else as it is made, with its addends added up or scattered
// A statement that reads a tensor which lies otherwise moves a copy of it first. Statements and moves take their time
// one after the other. What lies ahead depends on how the tensors that are read again lie, and on nothing else, so that
// for each of these the `count` fastest ways there are enough; where memory is short, with those that need less. Of
// ways that take equally long one stands for all: the one that needs the least memory.
#pragma once

#include <vector>

#include "ridge/distributed/costs.h"

namespace ridge {

struct Sharding {
  std::vector<Cuts> cuts = {};    // of each statement
  std::vector<Layout> kept = {};  // of each tensor
  double compute_s = 0, network_s = 0;
  double bytes = 0;        // on a device, when it is most
  std::int64_t words = 0;  // over the whole mesh
  double seconds() const { return compute_s + network_s; }
};

// The fastest first; none: no sharding fits into `capacity` bytes a device (0: any does). Those that take longer than
// `at_most` seconds may be left out (0: none). Error: more ways than a search may look at.
Result<std::vector<Sharding>> best_shardings(const Costs& costs, double capacity, std::size_t count,
                                             double at_most = 0);

// How an input may be kept that one reader wants as `wanted`, and a result that is made so.
std::vector<Layout> ways_to_keep(const Costs& costs, int input, const Layout& wanted, bool short_of_memory);
std::vector<Layout> ways_to_leave(const Costs& costs, int result, const Layout& made, bool read_again);

// Times, words and memory of a sharding, from its choices alone.
Sharding assessed(const Costs& costs, std::vector<Cuts> cuts, std::vector<Layout> kept);

// What moves in it, in order.
struct StatementMove {
  std::size_t statement = 0;
  int tensor = 0;
  Move move;
  MoveCost cost;
};
std::vector<StatementMove> steps_of(const Costs& costs, const Sharding& sharding);

}  // namespace ridge
