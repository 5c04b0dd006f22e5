// Reads and writes NumPy's .npy files, versions 1 and 2 (numpy.lib.format): magic bytes, the header's length, the
// header (a Python dict of three keys), then the elements. Accepts little-endian '<f4' (f32), '<f2' (f16) and '<V2'
// (bf16, as ml_dtypes writes it) in C order. Anything else is an error with a hint, and so is a file that is shorter or
// longer than its shape requires.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/run/memory.h"

namespace ridge {

struct NpyHeader {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::size_t data_offset = 0;  // bytes
  bool operator==(const NpyHeader&) const = default;
};

// Parses the header from a file's first bytes, which must hold the whole header. The error names what was found.
Result<NpyHeader> parse_npy_header(std::string_view bytes);
std::string make_npy_header(DType dtype, const std::vector<std::int64_t>& shape);  // padded to a multiple of 64 bytes

// Reads the file into `array`. Returns an error unless the file has the dtype and shape given.
Status read_npy(const std::string& path, const Array& array, const std::vector<std::int64_t>& shape);
// Writes the whole file, or no file.
Status write_npy(const std::string& path, const Array& array, const std::vector<std::int64_t>& shape);

std::string format_shape(const std::vector<std::int64_t>& shape);  // "(2, 3)", "(5,)", "()"

}  // namespace ridge
