// What a convolution's windows reach along one dimension. Of out*kernel places of a window of 3 with padding 1 two lie
// in the padding, whatever the size: nothing is multiplied there. A stride that is longer than the window leaves
// elements unread.
//   conv(x, w, padding = 1), x[N, C, H, W], w[K, C, 3, 3]: taps = 3*H - 2 places along H
#pragma once

#include "ridge/roofline/masks.h"

namespace ridge {

// Adds what needs no closed form of these, and names the symbols.
void add_windows(const Program& program, Masks& masks);

std::vector<std::string> hangs_on(const Window& window);
// None: a dimension has no value, or the result is not as large as the windows make it.
std::optional<std::int64_t> counted(const Window& window, WindowCount what, const Bindings& dims);
Polynomial every(const Window& window, WindowCount what);  // out*kernel places; the input's elements

// What needs no symbol: nothing lies in the padding, everything is read.
std::optional<Polynomial> plain(const Window& window, WindowCount what);

// With what the program says of the sizes: P = H - 2.
bool always_fits(const Program& program, const Window& window, const Bindings& given);

std::string text(const Window& window, WindowCount what);  // "along H, 0 <= index(H) + index(3) - 1 < H"
std::string misfit(const Window& window);                  // why a size is none: "P is not what the windows make of H"

}  // namespace ridge
