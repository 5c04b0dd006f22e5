#include "ridge/bench/benchmark_shape.h"

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "ridge/base/file.h"

namespace ridge {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> split_cells(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream split(line);
  for (std::string cell; std::getline(split, cell, ',');) cells.push_back(cell);
  return cells;
}

Status read_dtypes(Row& row, BenchmarkShape& shape) {
  const auto dtype = parse_dtype(row["dtype"]);
  if (!dtype || (*dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16 && *dtype != DType::int8))
    return input_error(fmt::format("expected dtype f32, bf16, f16 or int8, found '{}'", row["dtype"]));
  const bool integers = *dtype == DType::int8;
  const std::optional<DType> sums = integers ? DType::int32 : DType::f32;
  const auto out = row.contains("out") ? parse_dtype(row["out"]) : sums;
  if (!out || (*out != sums && (integers || *out != *dtype))) {
    const std::string_view of_floats = *dtype == DType::f32 ? "f32" : "f32 or ";
    const std::string_view may = integers ? "int32" : of_floats;
    return input_error(fmt::format("expected out {}{} of {} operands, found '{}'", may,
                                   may.ends_with(' ') ? dtype_name(*dtype) : "", dtype_name(*dtype), row["out"]));
  }
  shape.dtype = *dtype;
  shape.out = *out;
  if (!row.contains("weights") || row["weights"].empty() || row["weights"] == dtype_name(*dtype)) return Done{};
  if (row["weights"] != "int8")
    return input_error(fmt::format("expected weights {} or int8, found '{}'", dtype_name(*dtype), row["weights"]));
  shape.weights = DType::int8;
  return Done{};
}

Status read_device_dtypes(Row& row, BenchmarkShape& shape) {
  const auto dtype = parse_dtype(row["dtype"]);
  if (!dtype || (dtype != DType::bf16 && dtype != DType::f16 && dtype != DType::e4m3))
    return input_error(fmt::format("expected dtype bf16, f16 or e4m3, found '{}'", row["dtype"]));
  const DType same = *dtype == DType::e4m3 ? DType::bf16 : *dtype;
  const auto out = row.contains("out") ? parse_dtype(row["out"]) : same;
  if (!out || (*out != same && *out != DType::f32))
    return input_error(fmt::format("expected out {} or f32 of {} operands, found '{}'", dtype_name(same),
                                   dtype_name(*dtype), row["out"]));
  shape.dtype = *dtype;
  shape.out = *out;
  return Done{};
}

Result<BenchmarkShape> parse_shape(Row row, BenchmarkTarget target) {
  BenchmarkShape s{.op = row["op"]};
  if (s.op != "linear" && s.op != "nt" && s.op != "nn" && s.op != "tn" && s.op != "tt")
    return input_error(fmt::format("expected op linear, nn, tn or tt, found '{}'", s.op));
  RIDGE_TRY_STATUS(target == BenchmarkTarget::cpu ? read_dtypes(row, s) : read_device_dtypes(row, s));
  for (auto [key, into] : {std::pair{"m", &s.m}, std::pair{"n", &s.n}, std::pair{"k", &s.k}}) {
    const std::string& text = row[key];
    const bool digits = !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
    *into = digits ? std::stoll(text) : 0;
    if (*into < 1)
      return input_error(fmt::format("expected {} to be a whole number of at least 1, found '{}'", key, text));
  }
  return s;
}

}  // namespace

ops::MatmulProblem BenchmarkShape::problem() const {
  const bool ta = op == "tn" || op == "tt", tb = op == "linear" || op == "nt" || op == "tt";
  ops::MatmulProblem p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = {.dtype = dtype, .row_stride = ta ? 1 : k, .col_stride = ta ? m : 1};
  p.b = {.dtype = weights.value_or(dtype), .row_stride = tb ? 1 : n, .col_stride = tb ? k : 1};
  p.d = {.dtype = out, .row_stride = n, .col_stride = 1};
  return p;
}

double BenchmarkShape::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

double BenchmarkShape::bytes() const {
  const auto rows = static_cast<double>(m), columns = static_cast<double>(n), depth = static_cast<double>(k);
  return (depth * (rows * dtype_bits(dtype) + columns * dtype_bits(weights.value_or(dtype))) +
          rows * columns * dtype_bits(out)) /
         8;
}

std::string BenchmarkShape::dtypes() const {
  return weights ? fmt::format("{}*{}", dtype_name(dtype), dtype_name(*weights)) : std::string(dtype_name(dtype));
}

std::string BenchmarkShape::text() const { return fmt::format("{} {} m={} n={} k={}", op, dtypes(), m, n, k); }

Result<std::vector<BenchmarkShape>> parse_shapes(std::string_view csv, const std::string& source,
                                                 BenchmarkTarget target) {
  std::vector<std::string> header;
  std::vector<BenchmarkShape> shapes;
  std::istringstream lines{std::string(csv)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto at_line = [&](Error error) {
      error.source = source;
      error.span = {.line = number, .column = 1};
      return error;
    };
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> cells = split_cells(line);
    if (header.empty()) {
      header = cells;
      continue;
    }
    if (cells.size() != header.size())
      return at_line(input_error(fmt::format("expected {} columns, found {}", header.size(), cells.size())));
    Row row;
    for (std::size_t i = 0; i < cells.size(); ++i) row[header[i]] = cells[i];
    auto shape = parse_shape(std::move(row), target);
    if (!shape) return at_line(shape.error());
    shapes.push_back(*std::move(shape));
  }
  if (shapes.empty())
    return input_error(fmt::format("'{}' holds no shapes", source),
                       "expected a header op,dtype,m,n,k and at least one row");
  return shapes;
}

Result<std::vector<BenchmarkShape>> read_shapes(const std::string& path, BenchmarkTarget target) {
  const auto text = read_file(path);
  if (text) return parse_shapes(*text, path, target);
  Error error = text.error();
  error.hint = "expected a CSV file with the columns op,dtype,m,n,k";
  return error;
}

}  // namespace ridge
