// Which sharding of a program over so many chips is fastest: every mesh of one or two axes that has them, or the one
// that is given, each searched exactly (search.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/distributed/search.h"
#include "ridge/roofline/sending/overlap.h"
#include "ridge/roofline/sending/small_messages.h"

namespace ridge {

struct ShardOptions {
  std::int64_t chips = 0;  // 0: those of the mesh
  std::string mesh = {};   // "X=4,Y=2"; empty: every one of one or two axes is tried
  std::size_t best = 10;
};

struct RankedSharding {
  Mesh mesh;
  std::map<char, std::int64_t> rings;  // of a chip's rings, how many each mesh axis has; empty: no torus
  Sharding sharding;
  std::vector<StatementMove> steps;  // what moves
  std::string reason;                // why it loses against the first one; empty: it is that one
  std::string written;               // in the notation
};

struct ShardAnswer {
  Program program;
  Bindings sizes;
  std::string machine, network;  // its name; how it is joined
  std::int64_t chips = 1, meshes = 1;
  std::vector<RankedSharding> best;        // the fastest first; empty: none fits
  std::optional<double> capacity = {};     // B a chip; null: not on record
  std::optional<double> unlimited_s = {};  // the fastest where memory is no limit, if that one does not fit
  double unlimited_bytes = 0;              // what it needs
  // Words that products need to move at least if every tensor lies once and evenly spread, over all chips.
  double bound_words = 0;
  // Of the first, as it is written: how its small messages are best sent, and its collectives beside products, which
  // take as long as a library was timed, where one was.
  std::vector<SmallMessages> small = {};
  std::vector<Overlap> overlaps = {};
};

// Errors: of the program, of kind usage: chips outside 1 to 4096, a mesh that cannot be read or has other chips, a
// program that is sharded already; a dimension without a value; a machine without a link.
Result<ShardAnswer> shard(const Program& program, const Machine& machine, const Bindings& given,
                          const ShardOptions& options);

// Words that a product of m x k by k x n must move over P chips at least, all of them together: each chip starts with a
// P-th of each operand and ends with one of the result (Al Daas, Ballard, Grigori, Kumar, Rouse, SPAA 2022).
double least_words(double m, double n, double k, double chips);
// The same of all products of a program.
double least_words(const Program& program, const Bindings& sizes, std::int64_t chips);

// "X=4,Y=2". Errors, of kind usage: no such list, more than three axes or 4096 chips.
Result<Mesh> mesh_named(const std::string& text);

// The program that says so: tensors laid, moves as statements of their own.
Program written(const Costs& costs, const Sharding& sharding);

}  // namespace ridge
