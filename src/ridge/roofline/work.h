// How much a program computes and moves, whatever the machine. FLOPs count a multiply-add as 2 (integer formats
// likewise, there called OPs); a product without a sum, a pointwise operation or a function count 1 an element of the
// result; a repeat counts each time; a reduction counts 1 an input, softmax and layernorm 5, rmsnorm 3. Bytes are the
// minimum: each distinct operand read once, the result written once.
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]:  2*B*D*F FLOPs, 2*B*D + 2*D*F + 2*B*F bytes
// What a condition on two indices saves is not counted (masks.h): where formulas name the pairs that it lets through,
// they call them by the mask's symbol.
// What the devices of a mesh send each other is a list of transfers, in the result's dtype; network.h says which links
// they take. Until then they are counted on one ring through the n devices that take part, in one direction: of V bytes
// on each device an all-reduce sends 2*(n - 1)/n*V from each, a reduce-scatter (n - 1)/n*V, an all-gather that leaves V
// (n - 1)/n*V, an all-to-all (n - 1)/2*V, because what goes to a device d places on passes d links.
#pragma once

#include <string>
#include <vector>

#include "ridge/program/program.h"

namespace ridge {

enum class Collective { reduce_scatter, all_reduce, all_to_all, all_gather, permute };
std::string_view name(Collective collective);  // "all-gather"

// Of n devices; over n = 1 nothing is sent.
struct Transfer {
  Collective kind;
  std::string over;  // the mesh axes: "XY"
  std::int64_t devices = 1;
  Polynomial bytes;  // V, on each device: before a reduce-scatter, after an all-gather
};

struct Work {
  std::string name;           // of the result
  std::string text = {};      // the statement
  bool contraction = false;   // a product with a sum; a product without one is pointwise work
  bool along = false;         // it has a function along a dimension: a sum, a softmax, a norm
  DType math = DType::f32;    // contraction: the widest operand's dtype; else f32
  Polynomial flops = {};      // FLOP; of what a mask lets through, where there is one
  Polynomial unmasked = {};   // the same if every pair were let through; 0: there is no mask
  Polynomial bytes_in = {};   // B, every distinct operand once; int4 makes halves
  Polynomial bytes_out = {};  // B
  std::vector<Transfer> transfers = {};
  Polynomial bytes_sent = {};  // B that each chip of a split or sharded program sends; 0: nothing leaves the chip
  // The same as the links see it, so that it over the rate of `Prediction::link` is the time: what waits counts as the
  // bytes that pass meanwhile.
  Polynomial load = {};
  std::string collective = {};  // of a sharded program: "all-reduce over X", what is sent for
  Polynomial bytes() const { return bytes_in + bytes_out; }
};

// FLOPs if every pair were let through.
inline const Polynomial& every_flop(const Work& work) { return work.unmasked.zero() ? work.flops : work.unmasked; }

// One Work a statement, in order. Of a sharded program: of one device, the one with the largest parts; `sizes` holds
// those of the mesh axes, and one that it lacks counts as 1.
std::vector<Work> count(const Program& program, const Bindings& sizes = {});
// What one device holds of a tensor, B.
Polynomial stored_bytes(const Program& program, const Tensor& tensor, const Bindings& sizes = {});

// Parts of dimensions that a mesh does not divide, by what formulas call them, with the largest part as value: D = 10
// over X = 4 is "ceil(D/4)", 3. Of dimensions that have a value among `sizes`.
Bindings largest_parts(const Program& program, const Bindings& sizes);

// The parts of every dimension that the mesh splits, and count() with all of them called by their names: for sizes that
// are not known yet, which the mesh may divide or not.
struct PartOf {
  std::string name, dim;  // "ceil(D/4)", "D"
  std::int64_t parts = 1;
};
std::vector<PartOf> all_parts(const Program& program, const Bindings& mesh);
std::vector<Work> count_in_parts(const Program& program, const Bindings& mesh);

// Statements as one kernel: what they, counted by count() with all others in `ops`, compute and send; what comes from
// outside read once, what is an output or read outside (or `stored`) written once, the rest neither. `kernels`: of all
// statements, where some are in several, which each make for themselves what these make.
Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes,
                 const std::vector<int>& statements, const std::vector<int>& stored = {},
                 const std::vector<std::vector<int>>& kernels = {});
Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes = {});  // all of them

}  // namespace ridge
