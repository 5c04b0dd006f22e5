// Lowers a sharded program to the schedule of one device: compute steps, which are programs over the device's own
// shards without a mesh, and redistributions, which change the layout of a tensor and are the only steps that
// communicate.
//   z: bf16[B, F] = x[B, D_X] * w[D_X, F]      z#n[B, F]{U_X} = x * w over the shards, then an all-reduce of z#n
//   p[B, T_X] = softmax(s over T)              the local maximum, all-reduced; the local sum of exponentials,
//                                              all-reduced; the quotients
// Consecutive statements over the same shards share a program, so that their kernels can be fused. index(T) of a split
// dimension starts at the first index of the shard; size(T) is that of the full dimension.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/distributed/partition.h"
#include "ridge/distributed/redistribution.h"
#include "ridge/program/program.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {

// A tensor of the program, or an intermediate between two steps.
struct TensorSlot {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> extents;  // global extents
  Layout layout;
};

struct ComputeStep {
  Program program;         // with a value for every dimension
  std::vector<int> slots;  // slot of each tensor of `program`
  // For each statement of `program` its index in the sharded program; a statement may need several steps.
  std::vector<int> statements;
  bool is_empty = false;  // true if a shard has no elements: results are then the identity of `reduce_op`
  transport::ReduceOp reduce_op = transport::ReduceOp::sum;
};

struct Redistribution {
  int statement = 0;
  RedistributionStep move;
  int from = 0, to = 0;  // slots of the tensor before and after
  transport::ReduceOp reduce_op = transport::ReduceOp::sum;
};

struct RankSchedule {
  std::vector<TensorSlot> slots;  // the first ones are Program::tensors, in the same order
  std::vector<std::variant<ComputeStep, Redistribution>> steps;
  // For each statement the slot that holds its partial sums before any reduction, or -1.
  std::vector<int> partial_slots;
};

struct MeshDevice {
  Mesh mesh;
  std::int64_t index = 0;
};

// `sizes` has a value for every dimension and mesh axis. `stored_tensors` are kept in memory even if nothing reads
// them. Errors: programs that cannot run on several devices, with a hint.
Result<RankSchedule> build_rank_schedule(const Program& program, const Bindings& sizes, const MeshDevice& device,
                                         const std::vector<int>& stored_tensors = {});

// Returns the part of a slot's tensor that the device holds.
ShardBox slot_block(const RankSchedule& schedule, int slot, const MeshDevice& device);

// Returns the mesh of a sharded program, its axes in order of appearance. Error: an axis without a size.
Result<Mesh> mesh_of(const Program& program, const Bindings& sizes);

// Errors for programs that cannot run on several devices, with hints.

// Rejects split tensors whose elements share block scales, or split dimensions of sequences of several lengths.
Status validate_tensors(const Program& program);
// For grouped heads, where each element of G covers several of H: rejects shards of H and G on different devices.
Status validate_grouped_axes(const Program& program, const Contraction& product, const Bindings& sizes,
                             const Mesh& mesh);
// Rejects partial sums in a dtype that cannot hold them, and elements that share block scales.
Status validate_redistribution(const Statement& statement, const RedistributionStep& step, DType dtype);

}  // namespace ridge::ranks
