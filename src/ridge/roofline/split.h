// One program over several chips: a dimension is split into equal shards, one per chip, in every tensor that has it.
// This is the program sharded over one more mesh axis, and work.h gives the bytes of its collectives. Splitting the
// summed dimension of a product leaves a full-size partial sum on every chip, of which an all-reduce sends 2*(P - 1)/P
// from each of P chips; with two chips, that is the result once. Splitting a dimension that no function runs along
// sends nothing.
//   bf16[B, D] * bf16[D, F] -> bf16[B, F], D over 2 chips: B*D*F FLOPs and B*D + D*F + 2*B*F bytes a chip, 2*B*F sent
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/roofline/work.h"
#include "ridge/symbol/dimensions.h"

namespace ridge {

// Parses "D=2". Errors, of kind usage: another form, chips out of range.
Result<DimensionSplit> parse_split(const std::string& text);
// Parses several splits over the same chips: F=8 and H=8 split a layer's hidden width and its heads over eight chips.
// Errors also: different numbers of chips.
Result<DimensionSplit> parse_splits(const std::vector<std::string>& texts);
std::string format_dims(const DimensionSplit& split);  // "F", "F and H"

// Mesh axis of a split program; no dimension or axis of the notation has this name.
inline constexpr const char* split_axis = "*";
// Errors: there is no such dimension, an operation runs along it, or a tensor has two split dimensions.
Status validate_split(const Program& program, const DimensionSplit& split);
// Returns the program sharded over that axis, for `count_work`. Statements without the dimension run in full on every
// chip.
Program shard_program(const Program& program, const DimensionSplit& split);

}  // namespace ridge
