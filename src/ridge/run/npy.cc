#include "ridge/run/npy.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

#include "ridge/base/file.h"

namespace ridge {
namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr std::size_t max_header_bytes = 1 << 16;

struct NpyDtype {
  std::string_view text;
  DType dtype;
};
constexpr std::array<NpyDtype, 6> npy_dtypes{{{"<f4", DType::f32},
                                              {"<f2", DType::f16},
                                              {"<V2", DType::bf16},
                                              {"|V2", DType::bf16},
                                              {"|i1", DType::int8},
                                              {"<i4", DType::int32}}};

// Parser of the header's dict. No step reads beyond the end of the text.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  bool accept_char(char c) {
    skip_spaces();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::optional<std::string> parse_quoted() {
    skip_spaces();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string out(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return out;
  }
  std::optional<bool> parse_boolean() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"})
      if (text_.starts_with(word)) {
        text_.remove_prefix(word.size());
        return word == "True";
      }
    return std::nullopt;
  }
  std::optional<std::int64_t> parse_integer() {
    skip_spaces();
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9'; ++digits)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[digits] - '0', &value))
        return std::nullopt;
    if (digits == 0) return std::nullopt;
    text_.remove_prefix(digits);
    return value;
  }
  std::optional<std::vector<std::int64_t>> parse_tuple() {
    std::vector<std::int64_t> out;
    if (!accept_char('(')) return std::nullopt;
    while (!accept_char(')')) {
      const auto extent = parse_integer();
      if (!extent || out.size() == 64) return std::nullopt;
      out.push_back(*extent);
      if (accept_char(',')) continue;
      if (!accept_char(')')) return std::nullopt;
      break;
    }
    return out;
  }

 private:
  void skip_spaces() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  std::string_view text_;
};

Error malformed_error(std::string_view what) {
  return input_error(fmt::format("expected an .npy file, found {}", what), "write it with numpy.save");
}

struct HeaderEntries {
  std::optional<std::string> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<std::int64_t>> shape;
};

std::optional<HeaderEntries> parse_header_entries(std::string_view text) {
  HeaderParser dict(text);
  HeaderEntries out;
  if (!dict.accept_char('{')) return std::nullopt;
  while (!dict.accept_char('}')) {
    const auto key = dict.parse_quoted();
    if (!key || !dict.accept_char(':')) return std::nullopt;
    bool read = false;
    if (*key == "descr") read = (out.descr = dict.parse_quoted()).has_value();
    if (*key == "fortran_order") read = (out.fortran = dict.parse_boolean()).has_value();
    if (*key == "shape") read = (out.shape = dict.parse_tuple()).has_value();
    if (!read) return std::nullopt;
    if (dict.accept_char(',')) continue;
    if (!dict.accept_char('}')) return std::nullopt;
    break;
  }
  if (!out.descr || !out.fortran || !out.shape) return std::nullopt;
  return out;
}

// True for the integers and truth values that Ridge has no dtype for: "<u4", "|u1", "<i8", "|b1".
bool holds_integers(const std::string& descr) {
  return descr.size() > 1 && (descr[1] == 'i' || descr[1] == 'u' || descr[1] == 'b');
}

Result<DType> parse_dtype(const std::string& descr) {
  for (const NpyDtype& s : npy_dtypes)
    if (s.text == descr) return s.dtype;
  if (descr.starts_with('>'))
    return input_error(fmt::format("expected little-endian numbers, found dtype '{}'", descr),
                       "x.astype(x.dtype.newbyteorder('<'))");
  return input_error(
      fmt::format("expected dtype <f4 (f32), <f2 (f16), <V2 (bf16), |i1 (int8) or <i4 (int32), found '{}'", descr),
      holds_integers(descr) ? "x.astype(numpy.int32), or x.astype(numpy.int8)"
                            : "x.astype(numpy.float32), or x.astype(ml_dtypes.bfloat16)");
}

Error with_source(const std::string& path, Error error) {
  error.source = path;
  return error;
}

std::int64_t count_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

Status check_header_matches(const NpyHeader& header, const Array& array, const std::vector<std::int64_t>& shape) {
  if (header.dtype != array.dtype) {
    const char* hint = "x.astype(numpy.float32)";
    if (array.dtype == DType::bf16) hint = "x.astype(ml_dtypes.bfloat16)";
    if (array.dtype == DType::f16) hint = "x.astype(numpy.float16)";
    if (is_block_scaled(array.dtype)) hint = "declare it bf16, and quantize it in the program";
    if (array.dtype == DType::int8) hint = "x.astype(numpy.int8)";
    if (array.dtype == DType::int32) hint = "x.astype(numpy.int32)";
    return input_error(fmt::format("expected {}, found {}", dtype_name(array.dtype), dtype_name(header.dtype)), hint);
  }
  if (header.shape != shape)
    return input_error(fmt::format("expected shape {}, found {}", format_shape(shape), format_shape(header.shape)),
                       "-d sets the program's dimensions");
  return Done{};
}

}  // namespace

std::string format_shape(const std::vector<std::int64_t>& shape) {
  if (shape.size() == 1) return fmt::format("({},)", shape[0]);
  return fmt::format("({})", fmt::join(shape, ", "));
}

Result<NpyHeader> parse_npy_header(std::string_view bytes) {
  if (bytes.size() < 10 || !bytes.starts_with(magic)) return malformed_error("other bytes at its start");
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])); };
  const std::size_t major = byte(6);
  if (major != 1 && major != 2) return malformed_error(fmt::format("version {}; versions 1 and 2 are read", major));
  if (major == 2 && bytes.size() < 12) return malformed_error("a header that is cut off");
  const std::size_t start = major == 1 ? 10 : 12;
  const std::size_t length =
      major == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > max_header_bytes) return malformed_error(fmt::format("a header of {} bytes", length));
  if (bytes.size() - start < length) return malformed_error("a header that is cut off");
  const auto found = parse_header_entries(bytes.substr(start, length));
  if (!found) return malformed_error("a header that is not {'descr', 'fortran_order', 'shape'}");
  RIDGE_TRY(dtype, parse_dtype(*found->descr));
  if (*found->fortran) return input_error("expected C order, found Fortran order", "numpy.ascontiguousarray(x)");
  return NpyHeader{dtype, *found->shape, start + length};
}

std::string make_npy_header(DType dtype, const std::vector<std::int64_t>& shape) {
  std::string_view descr;
  for (const NpyDtype& s : npy_dtypes)
    if (s.dtype == dtype && descr.empty()) descr = s.text;
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, format_shape(shape));
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string out(magic);
  out += std::string("\x01\x00", 2);
  out += static_cast<char>(dict.size() & 0xFF);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict;
}

Status read_npy(const std::string& path, const Array& array, const std::vector<std::int64_t>& shape) {
  const auto read_error = [&](int error) {
    return input_error(fmt::format("cannot read '{}': {}", path, std::strerror(error)));
  };
  const File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return read_error(errno);
  std::string start(max_header_bytes + 12, '\0');
  start.resize(std::fread(start.data(), 1, start.size(), file.get()));
  if (std::ferror(file.get())) return read_error(errno);
  const auto header = parse_npy_header(start);
  if (!header) return with_source(path, header.error());
  const Status fits = check_header_matches(*header, array, shape);
  if (!fits) return with_source(path, fits.error());
  const std::size_t expected_bytes = count_elements(shape) * (dtype_bits(array.dtype) / 8);
  std::size_t read_bytes = std::min(expected_bytes, start.size() - header->data_offset);
  std::memcpy(array.data, start.data() + header->data_offset, read_bytes);
  // Reads the data that did not fit into the first read. One byte more shows that the file is too long.
  if (read_bytes < expected_bytes)
    read_bytes += std::fread(array.data + read_bytes, 1, expected_bytes - read_bytes, file.get());
  const bool longer = start.size() - header->data_offset > expected_bytes || std::fgetc(file.get()) != EOF;
  if (read_bytes < expected_bytes || longer)
    return with_source(path,
                       input_error(fmt::format("expected {} bytes of data, found {}", expected_bytes,
                                               read_bytes < expected_bytes ? fmt::format("{}", read_bytes) : "more"),
                                   "the file is not whole; write it again"));
  return Done{};
}

Status write_npy(const std::string& path, const Array& array, const std::vector<std::int64_t>& shape) {
  if (is_block_scaled(array.dtype))
    return input_error(
        fmt::format("cannot write {} to '{}': .npy files have no block scales", dtype_name(array.dtype), path),
        "write what the program makes of it");
  const std::string header = make_npy_header(array.dtype, shape);
  const std::size_t size = array.elements * (dtype_bits(array.dtype) / 8);
  const std::array<std::string_view, 2> pieces{header,
                                               std::string_view(reinterpret_cast<const char*>(array.data), size)};
  return write_file(path, pieces);
}

}  // namespace ridge
