// A sharded program as what one of its devices does, in order: programs over its own parts, which know nothing of a
// mesh, and shifts, which change how a tensor lies and are the only acts that look at other devices.
//   z: bf16[B, F] = x[B, D_X] * w[D_X, F]      z_made[B, F]{U_X} = x * w of its parts, then an all-reduce of z_made
//   p[B, T_X] = softmax(s over T)              the largest of its part, all-reduced; the sum of its powers,
//   all-reduced;
//                                              the quotients
// Neighbouring statements over the same parts share a program, so that they may share kernels. An index along a split
// dimension begins where the device's part does, and a size is that of the whole.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ridge/distributed/moves.h"
#include "ridge/program/program.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {

// A tensor of the program, or one between two acts.
struct Slot {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> extents;  // of the whole
  Layout layout;
};

struct Compute {
  Program program;              // every dimension has its value
  std::vector<int> slots;       // of each of program.tensors
  std::vector<int> statements;  // of the whole program, for each of this one's; one that needs several acts: in each
  bool empty = false;           // the part has no elements: results are what a sum of nothing is
  transport::Reduction how = transport::Reduction::sum;  // which sum that is
};

struct Shift {
  int statement = 0;
  Move move;
  int from = 0, to = 0;  // slots
  transport::Reduction how = transport::Reduction::sum;
};

struct Acts {
  std::vector<Slot> slots;  // first one for each of Program::tensors
  std::vector<std::variant<Compute, Shift>> acts;
  // Of each statement the slot with its addends before any of them were added up; -1: it has none.
  std::vector<int> addends;
};

struct Device {
  Mesh mesh;
  std::int64_t number = 0;
};

// `sizes`: of every dimension and mesh axis; `stored`: tensors that are wanted whoever reads them. Errors: what does
// not run on several devices, with a cure.
Result<Acts> acts_of(const Program& program, const Bindings& sizes, const Device& device,
                     const std::vector<int>& stored = {});

// The mesh of a sharded program, its axes in order of appearance. Error: an axis without a size.
Result<Mesh> mesh_of(const Program& program, const Bindings& sizes);

}  // namespace ridge::ranks
