#include "ridge/bench/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/machine/system.h"

namespace ridge {
namespace {

using Format = ComparisonColumn::Format;

Result<Comparison> compare_products(const BenchOptions& options) {
  const std::vector<std::string>& libraries = options.libraries;
  if (!contains(libraries, "cublaslt")) {
    RIDGE_TRY(shapes, options.shapes.empty() ? parse_shapes(default_shapes(), "data/cpu_shapes.csv")
                                             : read_shapes(options.shapes));
    RIDGE_TRY(machine, find_machine("cpu"));  // fails before the timing starts
    return compare_cpu_products(shapes, limit_to_threads(std::move(machine), options.threads), options);
  }
  if (libraries.size() > 1)
    return usage_error("expected only cublaslt after --against: it runs on a CUDA device, the others on this CPU");
  if (options.shapes.empty())
    return usage_error("expected --shapes with --against cublaslt",
                       "ridge bench matmul --against cublaslt --shapes FILE.csv");
  RIDGE_TRY(shapes, read_shapes(options.shapes, BenchmarkTarget::device));
  return compare_device_products(shapes, options);
}

bool is_aligned(const Json& labels) {
  const std::int64_t n = labels["n"], k = labels["k"];
  return n % 8 == 0 && k % 8 == 0;
}

// Returns the class of the rows with aligned sizes and from <= m < to.
RowClass aligned_class(const char* name, std::int64_t from, std::int64_t to) {
  return {name, [from, to](const Json& labels) {
            const std::int64_t m = labels["m"];
            return is_aligned(labels) && from <= m && m < to;
          }};
}

}  // namespace

Comparison start_comparison(const char* benchmark, const BenchOptions& options, int default_rounds) {
  Comparison out{.benchmark = benchmark, .day = today_utc()};
  out.rounds = options.rounds > 0 ? options.rounds : default_rounds;
  return out;
}

Result<Comparison> run_benchmark(const std::string& name, const BenchOptions& options) {
  if (name == "matmul") return compare_products(options);
  if (name == "repeats") return compare_repeats(options);
  return options.cuda ? compare_device_streams(options) : compare_cpu_streams(options);
}

Json shape_labels(const BenchmarkShape& s) {
  return {{"op", s.op},    {"dtype", s.dtypes()}, {"out", dtype_name(s.out)},
          {"m", s.size.m}, {"n", s.size.n},       {"k", s.size.k}};
}

void set_cpu_product_columns(Comparison& out, const std::vector<BenchmarkShape>& shapes) {
  out.measures = {Comparison::Measure::gflop_per_s};
  out.columns = {{"fraction_of_peak", "of peak", Format::percent}};
  out.ratio_meaning = "the fastest other library's time over ridge's";
  std::vector<std::string> all_dtypes;
  for (const BenchmarkShape& shape : shapes)
    if (!contains(all_dtypes, shape.dtypes())) all_dtypes.push_back(shape.dtypes());
  for (const std::string& names : all_dtypes)
    for (const auto& [name, from, to] :
         {std::tuple{"all", 1, INT64_MAX}, std::tuple{"M > 8", 9, INT64_MAX}, std::tuple{"M <= 8", 1, INT64_C(8)}})
      out.classes.push_back({fmt::format("{} {}", names, name), [=, from = from, to = to](const Json& labels) {
                               return labels["dtype"] == names && labels["m"] >= from && labels["m"] <= to;
                             }});
}

void set_device_product_columns(Comparison& out) {
  out.measures = {Comparison::Measure::seconds};
  out.columns = {{"per_cycle", "per cycle", Format::percent},
                 {"predicted_s", "predicted", Format::seconds},
                 {"plan/kernel", "kernel", Format::text},
                 {"plan/split", "split"},
                 {"right", "", Format::is_right}};
  out.classes = {aligned_class("M <= 128", 1, 129),
                 aligned_class("128 < M < 2048", 129, 2048),
                 aligned_class("M >= 2048", 2048, INT64_MAX),
                 aligned_class("M >= 512", 512, INT64_MAX),
                 {"n or k not a multiple of 8", [](const Json& labels) { return !is_aligned(labels); }},
                 {"all", [](const Json&) { return true; }}};
  out.ratio_meaning = "the time of the best of cuBLASLt's first 8 heuristics over ridge's";
  out.notes = {"cold L2; per cycle: ridge's FLOPs over the matrix units' peak at the clock after the row's last turn"};
}

}  // namespace ridge
