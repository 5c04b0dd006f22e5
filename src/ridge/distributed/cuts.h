// One rule says which shardings a statement can be computed in without a word from another device. A statement runs
// over an index space, B x D x F for bf16[B, D] * bf16[D, F] -> bf16[B, F]; along each mesh axis the devices share out
// one of its dimensions, or each of them does all of it. A tensor that has the dimension is then cut along it, one that
// lacks it is there whole; and where the dimension is summed, the result is left as addends. So
//   X shares out     operands                   result
//   nothing          [B, D],   [D, F]           [B, F]         every device does the same
//   B                [B_X, D], [D, F]           [B_X, F]       nothing moves
//   F                [B, D],   [D, F_X]         [B, F_X]       nothing moves
//   D                [B, D_X], [D_X, F]         [B, F]{U_X}    addends, to be added up
// Operands that lie otherwise must move first (moves.h): one contracted dimension cut, [B, D_X] and [D, F], means to
// gather the first or to drop parts of the second; the same mesh axis twice, [B_X, D] and [D, F_X], means to gather
// one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ridge/distributed/layout.h"

namespace ridge {

// Dimension to the mesh axes that share it out, outermost first. Dimensions that are not there are done whole.
using Cuts = std::map<std::string, std::string>;
std::string text(const Cuts& cuts);  // "B over X, D over Y"; "whole"

// The dimensions of a statement's index space that may be shared out, in order of appearance. A function along a
// dimension adds up its parts itself (an all-reduce of a number a row), softmax as well.
std::vector<std::string> shareable(const Program& program, const Statement& statement);

// How a tensor of the statement must lie, or lies afterwards, under these cuts.
Layout operand_under(const Program& program, const Statement& statement, int operand, const Cuts& cuts);
Layout result_under(const Program& program, const Statement& statement, const Cuts& cuts);

// Every way to share the dimensions out such that each device has a part, equal or not (layout.h): one dimension or
// none for each mesh axis, `sizes` says how long they are. Blocks that share a scale, groups of heads and sequences of
// several lengths stay whole, so that these fall into equal parts.
std::vector<Cuts> every_cut(const Program& program, const Statement& statement, const Mesh& mesh,
                            const Bindings& sizes);
// Every layout of a tensor of the program in such parts.
std::vector<Layout> every_layout(const Program& program, const Tensor& tensor, const Mesh& mesh, const Bindings& sizes);

// The statement alone, its tensors laid so.
Program alone(const Program& program, const Statement& statement, const Mesh& mesh, const Cuts& cuts);

std::int64_t extent(const Axis& axis, const Bindings& sizes);
std::vector<std::int64_t> extents(const Tensor& tensor, const Bindings& sizes);

}  // namespace ridge
