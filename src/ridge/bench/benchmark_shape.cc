#include "ridge/bench/benchmark_shape.h"

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "ridge/base/file.h"
#include "ridge/base/operand_type.h"

namespace ridge {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> split_cells(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream split(line);
  for (std::string cell; std::getline(split, cell, ',');) cells.push_back(cell);
  return cells;
}

// Parses the dtype of a column; `of` ends the list of the allowed ones in the error message.
Result<DType> read_dtype(const std::string& column, const std::string& text, const std::vector<DType>& allowed,
                         const std::string& of = "") {
  std::string names;
  for (const DType each : allowed) {
    if (dtype_name(each) == text) return each;
    if (!names.empty()) names += each == allowed.back() ? " or " : ", ";
    names += dtype_name(each);
  }
  return input_error(fmt::format("expected {} {}{}, found '{}'", column, names, of, text));
}

// Returns the allowed dtypes of the result, the default first.
std::vector<DType> result_dtypes(DType operand, BenchmarkTarget target) {
  if (operand == DType::int8 && target == BenchmarkTarget::device) return {DType::int32, DType::bf16, DType::f32};
  if (operand == DType::int8) return {DType::int32};
  if (operand == DType::f32 || operand == DType::tf32) return {DType::f32};
  if (target == BenchmarkTarget::device) return {result_dtype(operand), DType::f32};
  return {DType::f32, operand};
}

Status read_dtypes(Row& row, BenchmarkShape& shape, BenchmarkTarget target) {
  std::vector<DType> operands{DType::f32, DType::bf16, DType::f16, DType::int8};
  if (target == BenchmarkTarget::device)
    operands = {DType::bf16, DType::f16, DType::f32, DType::tf32, DType::e4m3, DType::e4m3_128, DType::int8};
  RIDGE_TRY(dtype, read_dtype("dtype", row["dtype"], operands));
  shape.dtype = dtype;
  const std::vector<DType> results = result_dtypes(dtype, target);
  shape.out = results[0];
  if (row.contains("out")) {
    RIDGE_TRY(out, read_dtype("out", row["out"], results, fmt::format(" of {} operands", dtype_name(dtype))));
    shape.out = out;
  }
  if (target == BenchmarkTarget::device || !row.contains("weights") || row["weights"].empty()) return Done{};
  RIDGE_TRY(weights, read_dtype("weights", row["weights"], {dtype, DType::int8}));
  if (weights != dtype) shape.weights = weights;
  return Done{};
}

Result<BenchmarkShape> parse_shape(Row row, BenchmarkTarget target) {
  BenchmarkShape s{.op = row["op"]};
  if (s.op != "linear" && s.op != "nt" && s.op != "nn" && s.op != "tn" && s.op != "tt")
    return input_error(fmt::format("expected op linear, nn, tn or tt, found '{}'", s.op));
  RIDGE_TRY_STATUS(read_dtypes(row, s, target));
  for (auto [key, into] : {std::pair{"m", &s.size.m}, std::pair{"n", &s.size.n}, std::pair{"k", &s.size.k}}) {
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
  const auto [m, n, k] = size;
  p.size = size;
  p.a = {.dtype = dtype, .row_stride = ta ? 1 : k, .col_stride = ta ? m : 1};
  p.b = {.dtype = weights.value_or(dtype), .row_stride = tb ? 1 : n, .col_stride = tb ? k : 1};
  p.d = {.dtype = out, .row_stride = n, .col_stride = 1};
  return p;
}

double BenchmarkShape::flops() const { return 2 * size.multiply_adds(); }

double BenchmarkShape::bytes() const {
  const auto rows = static_cast<double>(size.m), columns = static_cast<double>(size.n),
             depth = static_cast<double>(size.k);
  return (depth * (rows * dtype_bits(dtype) + columns * dtype_bits(weights.value_or(dtype))) +
          rows * columns * dtype_bits(out)) /
         8;
}

std::string BenchmarkShape::dtypes() const {
  return weights ? fmt::format("{}*{}", dtype_name(dtype), dtype_name(*weights)) : std::string(dtype_name(dtype));
}

std::string BenchmarkShape::text() const {
  return fmt::format("{} {} m={} n={} k={}", op, dtypes(), size.m, size.n, size.k);
}

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
