// NumPy's .npy, versions 1 and 2: a magic word, the length of a header, the header (a Python dict of three keys), then
// the elements. Read strictly: little-endian '<f4' (f32), '<f2' (f16) and '<V2' (bf16: what ml_dtypes' bfloat16 is
// written as), C order; anything else is refused with a cure, and so is a file that is shorter or longer than its shape
// says. Format: numpy.lib.format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/measure/fill.h"

namespace ridge {

struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  // bytes
  bool operator==(const NpyHeader&) const = default;
};

// From the first bytes of a file (all of it, or at least the header). The error names what was found.
Result<NpyHeader> parse_npy_header(std::string_view bytes);
std::string npy_header(DType dtype, const std::vector<std::int64_t>& shape);  // ends on a multiple of 64 bytes

// Reads the file into `array`, whose dtype and shape it must have.
Status read_npy(const std::string& path, const Array& array, const std::vector<std::int64_t>& shape);
// The whole file or none.
Status write_npy(const std::string& path, const Array& array, const std::vector<std::int64_t>& shape);

std::string shape_text(const std::vector<std::int64_t>& shape);  // "(2, 3)", "(5,)", "()"

}  // namespace ridge
