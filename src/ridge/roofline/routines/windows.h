// Input that the windows of a convolution read along one dimension. With a window of 3 and padding 1, two of the
// out*kernel taps are in the padding at any size and are not multiplied. A stride longer than the window leaves
// elements unread.
//   conv(x, w, padding = 1), x[N, C, H, W], w[K, C, 3, 3]: taps = 3*H - 2 along H
// A transposed convolution does not add products that fall into the padding, and does not read elements whose products
// all fall there.
#pragma once

#include "ridge/roofline/masks.h"

namespace ridge {

// Adds masks for every convolution and names their symbols.
void add_window_masks(const Program& program, ProgramMasks& masks);

std::vector<std::string> dependency_dims(const WindowDimension& window);
// Returns nullopt if a dimension has no value or the result does not have the windows' output size.
std::optional<std::int64_t> count_window(const WindowDimension& window, WindowCount what, const Bindings& dims);
Polynomial full_window_count(const WindowDimension& window,
                             WindowCount what);  // Count of out*kernel taps, or of the input's elements

// Returns a count that needs no symbol: no tap is in the padding, or every element is read.
std::optional<Polynomial> window_closed_form(const WindowDimension& window, WindowCount what);

// True if the windows fit at any size because of the program's formulas: P = H - 2.
bool always_gives_result_size(const Program& program, const WindowDimension& window, const Bindings& given);

std::string format_window(const WindowDimension& window, WindowCount what);  // "0 <= index(H) + index(3) - 1 < H"
std::string window_mismatch_text(const WindowDimension& window);  // Error text: "P is not the number of windows over H"

}  // namespace ridge
