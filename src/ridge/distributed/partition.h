// The shardings in which a statement is computed without communication. A statement runs over an index space, B x D x F
// for bf16[B, D] * bf16[D, F] -> bf16[B, F]. Each mesh axis splits one dimension of it, or none: then its devices
// repeat the work. A tensor with the split dimension is sharded along it; a tensor without it is replicated. If the
// dimension is summed over, the result consists of partial sums:
//   X splits         operands                   result
//   nothing          [B, D],   [D, F]           [B, F]         all devices do the same work
//   B                [B_X, D], [D, F]           [B_X, F]       nothing moves
//   F                [B, D],   [D, F_X]         [B, F_X]       nothing moves
//   D                [B, D_X], [D_X, F]         [B, F]{U_X}    partial sums, to be reduced
// Operands with another layout are redistributed first (redistribution.h). For [B, D_X] and [D, F], either the first is
// gathered or the second is sliced. For [B_X, D] and [D, F_X], one of them is gathered.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ridge/distributed/layout.h"

namespace ridge {

// Maps a dimension to the mesh axes that split it, outermost first. Dimensions without an entry are not split.
using Partition = std::map<std::string, std::string>;
std::string format_partition(const Partition& partition);  // "B over X, D over Y"; "unsplit"

// Returns the dimensions of a statement's index space that may be split, in order of appearance. Reductions and softmax
// along a split dimension are allowed: they all-reduce one number a row. Routines have none, because the notation has
// no routines with split operands.
std::vector<std::string> partitionable_dims(const Program& program, const Statement& statement);

// Returns the layout that an operand must have, or that the result gets, under a partition.
Layout operand_layout(const Program& program, const Statement& statement, int operand, const Partition& partition);
Layout result_layout(const Program& program, const Statement& statement, const Partition& partition);

// Returns every partition that gives each device a part, equal or not (layout.h): each mesh axis splits one dimension
// or none. Blocks that share a scale and groups of heads are never divided, and dimensions with several sequence
// lengths are split into equal parts only.
std::vector<Partition> list_partitions(const Program& program, const Statement& statement, const Mesh& mesh,
                                       const Bindings& sizes);
// Returns every layout of a tensor under the same rules.
std::vector<Layout> list_layouts(const Program& program, const Tensor& tensor, const Mesh& mesh, const Bindings& sizes);

// Returns a program of this statement only, with the layouts of the partition. If conditions on indices limit what
// other statements need of it, these statements stay, and the statement has its place in the program.
Program make_statement_program(const Program& program, const Statement& statement, const Mesh& mesh,
                               const Partition& partition);

std::int64_t axis_extent(const Axis& axis, const Bindings& sizes);
std::vector<std::int64_t> tensor_extents(const Tensor& tensor, const Bindings& sizes);

}  // namespace ridge
