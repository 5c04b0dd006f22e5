// Variants of a program that compute (nearly) the same in another way, for advice. Each is made by editing the text.
#pragma once

#include <string>
#include <vector>

#include "ridge/plan/predict.h"

namespace ridge {

struct ProgramVariant {
  std::string kind;  // "order", "layout", "dtype", "weights", "padding", "batch", "chips"
  std::string description;
  Program program;
  Bindings dims;
  double work_ratio = 1;
};

// Returns the program with its sizes in the dims line, so that the text is complete.
Program with_sizes(Program program, const Bindings& dims);

// Returns all variants: products of three in another order; inputs stored in the order that the planner copies them to;
// f32 as bf16; weights as int8; padded sizes; larger batches; one chip's shard of eight without communication.
std::vector<ProgramVariant> make_variants(const Program& program, const Explanation& explanation,
                                          const PlannedProgram* planned);

}  // namespace ridge
