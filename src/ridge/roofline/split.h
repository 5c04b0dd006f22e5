// One program over several chips: a dimension is cut into equal parts, one a chip, wherever it stands. That is the
// program sharded over one more axis of the mesh, and work.h says what its collectives send. Cutting the summed
// dimension of a product leaves every chip with a partial result of full size, and an all-reduce sends 2*(P - 1)/P of
// it from each of the P chips; with two chips that is the result once. Cutting a dimension along which nothing runs
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

// Reads "D=2". Errors, of kind usage: another form, chips out of range.
Result<Split> parse_split(const std::string& text);
// Several, over the same chips: F=8 and H=8 cut a layer's hidden width and its heads over eight. Errors also: another
// number of chips.
Result<Split> parse_splits(const std::vector<std::string>& texts);
std::string dims_text(const Split& split);  // "F", "F and H"

// The axis of the mesh along which a split program lies, which no dimension and no axis of the notation is called.
inline constexpr const char* split_axis = "*";
// What is wrong with cutting so: no such dimension, a word that runs along it, two that meet in one tensor.
std::optional<Error> refuse_split(const Program& program, const Split& split);
// The program sharded over that axis.
Program sharded(const Program& program, const Split& split);

// What each chip does, a Work a statement, at `sizes`. One that lacks the dimension every chip does in full.
std::vector<Work> count(const Program& program, const Split& split, Bindings sizes = {});

}  // namespace ridge
