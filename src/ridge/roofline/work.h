// Counts what a program computes and moves, independent of a machine. A multiply-add counts as 2 FLOPs (OPs in integer
// formats). Per element of the result, a product without a sum, a pointwise operation or a function counts 1; a repeat
// counts every application. Per input element, a reduction counts 1, softmax and layernorm 5, rmsnorm 3. Bytes are the
// minimum: each distinct operand is read once, the result is written once.
//   bf16[B, D] * bf16[D, F] -> bf16[B, F]:  2*B*D*F FLOPs, 2*B*D + 2*D*F + 2*B*F bytes
// Index pairs that a mask excludes are not counted (masks.h); formulas name the other pairs by the mask's symbol.
// Communication is a list of transfers in the result's dtype; network.h chooses their links. Until then, bytes are
// counted on one unidirectional ring of n devices: with V bytes on each device, an all-reduce sends 2*(n - 1)/n*V per
// device, a reduce-scatter (n - 1)/n*V, an all-gather with a result of V (n - 1)/n*V, an all-to-all (n - 1)/2*V,
// because data for the device at distance d crosses d links.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/base/function.h"
#include "ridge/program/program.h"
#include "ridge/roofline/sending/transfer_cost.h"

namespace ridge {

struct ProgramMasks;

// One collective among n devices; nothing is sent if n = 1.
struct Transfer {
  Collective kind;
  std::string mesh_axes;  // Mesh axes: "XY"
  std::int64_t devices = 1;
  Polynomial bytes;        // V, bytes on each device: before a reduce-scatter, after an all-gather
  TransferCost cost = {};  // Set by `route_transfers`
};

// Calls of a function that take longer than the FLOPs that they count as: an exp, also one inside a softmax, a cosine,
// a division.
struct FunctionCalls {
  Function function;
  Polynomial count;
};

// Amount of a tensor that is read.
struct TensorRead {
  int tensor = 0;
  Polynomial amount;                              // Elements or bytes
  int index_tensor = -1;                          // Tensor of the indices that select it; -1 if it is fixed
  std::optional<Polynomial> by_all_readers = {};  // Amount that all statements together read, if less than everything
};
// Returns the union of reads of a tensor with `all` elements. Equal reads count once, others as if all statements that
// read the tensor were among them.
Polynomial merge_reads(const std::vector<TensorRead>& reads, const Polynomial& all);

struct Work {
  std::string name;                     // Name of the result
  std::string text = {};                // Source text of the statement
  bool contraction = false;             // True for a product with a sum; a product without one is pointwise
  bool has_along_function = false;      // True if a function runs along a dimension: a sum, a softmax, a norm
  DType math = DType::f32;              // Widest operand's dtype of a contraction; otherwise f64 if a tensor is, or f32
  Polynomial flops = {};                // FLOPs of unmasked pairs
  Polynomial flops_without_masks = {};  // FLOPs as if there were no mask; 0 if there is no mask
  std::vector<FunctionCalls> calls = {};  // Of unmasked pairs, one entry for each function
  bool has_split_mask = false;            // True if devices have different parts of a mask: `flops` is the largest
  Polynomial bytes_in = {};               // Bytes, each distinct operand once; int4 may give halves
  Polynomial bytes_out = {};              // Bytes
  std::vector<TensorRead> reads = {};     // Bytes of each operand; `bytes_in` is their sum
  std::vector<Transfer> transfers = {};
  Polynomial bytes_sent = {};  // Bytes that each chip of a split or sharded program sends; 0 if nothing leaves the chip
  // Bytes scaled so that `link_load` / `Prediction::link_rate` is the links' time in s; latency counts as the bytes
  // that the links could send meanwhile. Thresholds compare with it; `network_seconds` is the time.
  Polynomial link_load = {};
  std::string collective = {};  // Collective of a sharded program: "all-reduce over X"
  Polynomial bytes() const { return bytes_in + bytes_out; }
};

// Adds the calls of `more`, each function once.
void add_calls(std::vector<FunctionCalls>& calls, const std::vector<FunctionCalls>& more);
// True if a count contains the symbol of a mask.
bool uses_symbol(const Work& work, const std::string& symbol);

// Returns the FLOPs as if there were no mask.
inline const Polynomial& get_flops_without_masks(const Work& work) {
  return work.flops_without_masks.is_zero() ? work.flops : work.flops_without_masks;
}

// Returns the seconds of all transfers of a routed statement.
double network_seconds(const Work& work, const std::map<std::string, double>& sizes);

// Returns one Work per statement, in order. For a sharded program, counts the device with the largest shards; `sizes`
// holds the sizes of mesh axes, and missing ones count as 1.
std::vector<Work> count_work(const Program& program, const Bindings& sizes = {});
// Same with the program's masks (`find_masks`).
std::vector<Work> count_work(const Program& program, const Bindings& sizes, const ProgramMasks& masks);
// Returns the bytes of a tensor that one device holds.
Polynomial stored_bytes(const Program& program, const Tensor& tensor, const Bindings& sizes = {});

// Returns the largest shards of dimensions that the mesh does not divide, by their symbols: D = 10 over X = 4 gives
// "ceil(D/4)" = 3. Dimensions without a value in `sizes` are left out.
Bindings largest_shards(const Program& program, const Bindings& sizes);

// Shard of a dimension that the mesh splits. `count_work_with_shard_symbols` uses its name for every such dimension,
// because unknown sizes may or may not be divisible.
struct DimShard {
  std::string name, dim;  // "ceil(D/4)", "D"
  std::int64_t shards = 1;
};
std::vector<DimShard> list_shards(const Program& program, const Bindings& mesh);
std::vector<Work> count_work_with_shard_symbols(const Program& program, const Bindings& mesh);

// Counts statements as one kernel; `ops` is the work of all statements. External operands are read once; outputs,
// results that are read outside and those in `stored` are written once. `kernels` lists the statements of every kernel
// if some statements are recomputed in several kernels.
Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes,
                 const std::vector<int>& statements, const std::vector<int>& stored = {},
                 const std::vector<std::vector<int>>& kernels = {});
// Counts all statements as one kernel
Work count_fused(const Program& program, const std::vector<Work>& ops, const Bindings& sizes = {});

}  // namespace ridge
