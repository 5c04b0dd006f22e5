#include "ridge/roofline/memory_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ridge {
namespace {

// Returns the number of rows after which the offsets of row starts within a line repeat.
std::int64_t line_period(const TileAccess& a) {
  const std::int64_t line = a.line_bytes * 8;
  return line / std::gcd(a.leading * a.element_bits, line);
}

LineCount count_row_by_row(const TileAccess& a, std::int64_t rows) {
  const std::int64_t line = a.line_bytes * 8, width = a.width * a.element_bits;
  const std::int64_t min_row_lines = (width + line - 1) / line;
  LineCount count;
  std::int64_t last_before = -1;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = (row * a.leading + a.first) * a.element_bits;
    const std::int64_t first = begin / line, last = (begin + width - 1) / line;
    count.lines += last - first + 1 - (first == last_before);
    count.rows_with_extra_line += last - first + 1 > min_row_lines;
    last_before = last;
  }
  return count;
}

// Returns the bytes moved for all tiles / the bytes used. A tile's lines depend only on its first column's line offset.
double traffic_ratio(TileAccess a, std::int64_t columns) {
  double lines = 0;
  const std::int64_t tiles = (columns + a.width - 1) / a.width, full = columns / a.width, width = a.width;
  const std::int64_t line = a.line_bytes * 8, repeat = line / std::gcd(width * a.element_bits, line);
  for (std::int64_t offset_class = 0; offset_class < std::min(repeat, full); ++offset_class) {
    a.first = offset_class * width;
    lines +=
        static_cast<double>(count_lines(a).lines) * static_cast<double>((full - offset_class + repeat - 1) / repeat);
  }
  if (tiles > full) {
    a.first = full * width;
    a.width = columns - full * width;
    lines += static_cast<double>(count_lines(a).lines);
  }
  const double used = static_cast<double>(a.rows) * static_cast<double>(columns * a.element_bits) / 8;
  return lines * static_cast<double>(a.line_bytes) / used;
}

Result<OperandLines> make_operand_lines(const Tensor& tensor, const Bindings& dims, const LinesRequest& request,
                                        std::string unit, std::int64_t unit_bytes) {
  OperandLines out{
      .tensor = tensor.name, .unit = std::move(unit), .unit_bytes = unit_bytes, .tile = {}, .padded_tile = {}};
  Polynomial rows = 1, columns = 1;
  for (std::size_t i = 0; i < tensor.axes.size(); ++i)
    (i + 1 < tensor.axes.size() ? rows : columns) =
        (i + 1 < tensor.axes.size() ? rows : columns) * tensor.axes[i].extent();
  RIDGE_TRY(row_count, rows.evaluate(dims));
  RIDGE_TRY(column_count, columns.evaluate(dims));
  const auto given = request.leading.find(tensor.name);
  out.rows = row_count;
  out.columns = column_count;
  out.leading = given == request.leading.end() ? out.columns : given->second;
  if (out.leading < out.columns)
    return input_error(fmt::format("expected a leading dimension of at least the {} columns of {}, found {}",
                                   out.columns, tensor.name, out.leading));
  constexpr std::int64_t max_elements = std::int64_t{1} << 40;
  if (out.rows >= max_elements || out.leading >= max_elements || out.rows > max_elements / out.leading)
    return input_error(
        fmt::format("expected fewer than 2^40 elements in {}, found {} rows of {}", tensor.name, out.rows, out.leading),
        "use smaller sizes");
  const std::int64_t bits = ridge::dtype_bits(tensor.dtype);
  TileAccess access{out.rows, out.leading, 0, std::min(request.columns, out.columns), bits, unit_bytes};
  out.tile = count_lines(access);
  out.traffic = traffic_ratio(access, out.columns);
  access.leading = out.padded_stride = pad_leading_dimension(out.leading, bits, unit_bytes);
  out.padded_tile = count_lines(access);
  out.padded_traffic = traffic_ratio(access, out.columns);
  out.padding_bytes = (out.padded_stride - out.leading) * out.rows * bits / 8;
  return out;
}

}  // namespace

LineCount count_lines(const TileAccess& a) {
  const std::int64_t p = line_period(a), line = a.line_bytes * 8, width = a.width * a.element_bits;
  LineCount count;
  if (a.rows <= 3 * p) {
    count = count_row_by_row(a, a.rows);
  } else {  // Every further period adds the same number of lines
    const std::int64_t further = a.rows / p - 1;
    count = count_row_by_row(a, p + a.rows % p);
    const LineCount one = count_row_by_row(a, p), two = count_row_by_row(a, 2 * p);
    count.lines += further * (two.lines - one.lines);
    count.rows_with_extra_line += further * (two.rows_with_extra_line - one.rows_with_extra_line);
  }
  count.min_lines = a.rows * ((width + line - 1) / line);
  return count;
}

std::int64_t pad_leading_dimension(std::int64_t leading, std::int64_t element_bits, std::int64_t line_bytes) {
  const std::int64_t line = line_bytes * 8, step = line / std::gcd(element_bits, line);
  return (leading + step - 1) / step * step;
}

Result<std::vector<OperandLines>> analyze_tile_alignment(const Program& program, const Machine& machine,
                                                         const Bindings& given, const LinesRequest& request) {
  RIDGE_TRY(dims, program.bind_sizes(given));
  for (const auto& entry : request.leading)
    if (std::none_of(program.tensors.begin(), program.tensors.end(),
                     [&](const Tensor& t) { return t.name == entry.first; }))
      return usage_error(fmt::format("the program has no tensor '{}'", entry.first));
  std::vector<std::pair<std::string, std::int64_t>> units;
  if (request.line_bytes) {
    units.emplace_back("line", *request.line_bytes);
  } else {
    for (const char* unit : {"line", "sector"})
      if (const auto found = machine.numbers.find(std::string(unit) + "_bytes"); found != machine.numbers.end())
        units.emplace_back(unit, static_cast<std::int64_t>(found->second.value));
  }
  if (units.empty())
    return input_error(fmt::format("machine '{}' has no line_bytes on record", machine.name),
                       "give them: --line-bytes 128");
  for (const auto& unit : units)
    if (unit.second < 1 || unit.second > 4096)
      return usage_error(fmt::format("expected a line of 1 to 4096 bytes, found {}", unit.second));
  std::vector<OperandLines> out;
  for (const Tensor& tensor : program.tensors)
    for (const auto& [unit, bytes] : units) {
      RIDGE_TRY(one, make_operand_lines(tensor, dims, request, unit, bytes));
      out.push_back(std::move(one));
    }
  return out;
}

}  // namespace ridge
