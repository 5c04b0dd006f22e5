// Fastest sharding of a program over a number of chips: searches every mesh of one or two axes, or a given mesh,
// exactly (sharding_search.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/distributed/mesh_placement.h"
#include "ridge/distributed/sharding_search.h"
#include "ridge/roofline/sending/overlap.h"
#include "ridge/roofline/sending/small_messages.h"

namespace ridge {

struct ShardOptions {
  std::int64_t chips = 0;  // 0 if the mesh determines it
  std::string mesh = {};   // "X=4,Y=2"; if empty, all meshes of one or two axes are searched
  std::size_t max_results = 10;
};

struct RankedSharding {
  Mesh mesh;
  MeshPlacement placement;
  Sharding sharding;
  std::vector<StatementRedistribution> steps;  // redistributions
  std::string slower_because;                  // difference to the fastest; empty for the fastest itself
  std::string program_text;                    // sharded program in the notation
};

struct ShardingReport {
  Program program;
  Bindings sizes;
  std::string machine, network;  // names of the machine and of its links
  std::int64_t chips = 1, meshes = 1;
  std::vector<RankedSharding> best;               // fastest first; empty if none fits into memory
  std::optional<double> capacity = {};            // memory of a chip in B; nullopt if unknown
  std::optional<double> unlimited_memory_s = {};  // fastest time without a memory limit, if no sharding fits
  double unlimited_peak_bytes = 0;                // memory that this needs
  // Lower bound on the words moved by the products over all chips, if each tensor is stored once, evenly distributed.
  double min_words = 0;
  // Communication of the fastest sharding: how its small messages are sent best, and which collectives overlap with
  // products. Collectives take at least as long as a timed library.
  std::vector<SmallMessages> small_messages = {};
  std::vector<Overlap> overlaps = {};
  // Routines, which every chip computes in full: "u = routed(x, w, i over E)"; their results, and their seconds in
  // every sharding. `ridge explain --split` divides the whole program along any of `explain_splits`.
  std::vector<std::string> undivided = {}, undivided_results = {}, explain_splits = {};
  double undivided_s = 0;
};

// Errors: chips outside 2 to 4096, an invalid mesh or one with another number of chips, a program that is sharded
// already, a dimension without a value; a machine without a link.
Result<ShardingReport> search_shardings(const Program& program, const Machine& machine, const Bindings& given,
                                        const ShardOptions& options);

// Returns the minimum number of words, over all P chips, that a product of m x k by k x n moves if each chip starts
// with 1/P of each operand and ends with 1/P of the result (Al Daas, Ballard, Grigori, Kumar, Rouse, SPAA 2022).
double min_words_moved(double m, double n, double k, double chips);
// Returns the sum over all products of a program.
double min_words_moved(const Program& program, const Bindings& sizes, std::int64_t chips);

// Parses "X=4,Y=2". Usage errors: another form, more than three axes or 4096 chips.
Result<Mesh> parse_mesh(const std::string& text);

// Returns the sharded program: tensors with their layouts, and a statement for each redistribution.
Program to_program(const ShardingCosts& costs, const Sharding& sharding);

}  // namespace ridge
