// The recurrence of linear attention and Mamba for several new tokens, for recurrent_program.cc.
#pragma once

#include <string>

#include "ridge/model/layer_programs.h"

namespace ridge::model {

inline DType state_dtype(const StepSizes& sizes) {
  return sizes.config.recurrent->state_dtype.value_or(sizes.activation);
}

// Returns the axes of what follows the convolution: its tokens have a name of their own if there are several.
inline std::string convolved_rows_and(const StepSizes& sizes, const std::string& dims) {
  return sizes.options.new_tokens > 1 ? "B, ST, " + dims : sizes.rows_and(dims);
}

// Adds the convolution over the tokens up to each new one, from the product name0$ and the kept inputs pastname$, to
// name2$.
void add_windows(ProgramWriter& out, const StepSizes& sizes, const std::string& name, const std::string& dims);
// Adds the recurrence, from what one new token has before it, to read$ and the state after the last token. read$ of
// Mamba has its skip. Linear attention and Mamba-2 in chunks of tokens, with products inside a chunk and a scan over
// the chunks; Mamba-1 as a scan over the tokens.
void add_delta_chunks(ProgramWriter& out, const StepSizes& sizes);
void add_mamba2_chunks(ProgramWriter& out, const StepSizes& sizes);
void add_mamba1_scan(ProgramWriter& out, const StepSizes& sizes);

}  // namespace ridge::model
