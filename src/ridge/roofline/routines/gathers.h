// Rows of a table that a gather reads: one for each index as if all indices differed, but each row once. 4096 indices
// into a table of two rows read two rows.
#pragma once

#include "ridge/roofline/masks.h"

namespace ridge {

// Adds masks for every gather and names their symbols.
void add_gather_masks(const Program& program, ProgramMasks& masks);

std::vector<std::string> dependency_dims(const TableRows& gathered);
// Returns nullopt if a dimension has no value.
std::optional<std::int64_t> count_gathered(const TableRows& gathered, const Bindings& dims);

}  // namespace ridge
