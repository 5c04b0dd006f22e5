#include "ridge/simulate/systolic.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>

namespace ridge {
namespace {

struct DataflowName {
  Dataflow dataflow;
  std::string_view name;
  std::string_view words;
};
constexpr std::array<DataflowName, 3> dataflow_names{{
    {Dataflow::output_stationary, "os", "output-stationary"},
    {Dataflow::weight_stationary, "ws", "weight-stationary"},
    {Dataflow::input_stationary, "is", "input-stationary"},
}};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

// The product of factors ≥ 1, or nothing where it leaves int64.
std::optional<std::int64_t> product_of(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t f : factors)
    if (__builtin_mul_overflow(product, f, &product)) return std::nullopt;
  return product;
}

Status too_small(std::string_view what, std::int64_t value, std::string hint) {
  return input_error(fmt::format("expected {} of at least 1, found {}", what, value), std::move(hint));
}

SramWords count_words(const SystolicArray& array, const ProductSize& p, const SystolicMapping& map) {
  SramWords words;
  if (map.output_stays) {
    words.a = p.m * p.k * map.col_folds;
    words.b = p.k * p.n * map.row_folds;
    words.c_overcount = map.folds() * (array.rows + array.cols);
    words.c = p.m * p.n + words.c_overcount;
    return words;
  }
  const std::int64_t moving = map.t * map.sr * map.col_folds, stationary = map.sr * map.sc;
  words.a = map.transposed ? stationary : moving;
  words.b = map.transposed ? moving : stationary;
  words.c = p.m * p.n * map.row_folds;
  return words;
}

// Every count is at most the product padded to whole tiles or the folds times a few edges of the array.
bool counts_fit(const SystolicArray& array, const SystolicMapping& map) {
  return product_of({map.row_folds * array.rows, map.col_folds * array.cols, map.t}) &&
         product_of({map.row_folds, map.col_folds, map.t + 2 * (array.rows + array.cols)});
}

}  // namespace

std::string_view name(Dataflow dataflow) { return dataflow_names[static_cast<std::size_t>(dataflow)].name; }

Result<Dataflow> dataflow_from(std::string_view spelling) {
  for (const DataflowName& d : dataflow_names)
    if (d.name == spelling || d.words == spelling) return d.dataflow;
  return usage_error(fmt::format("expected a dataflow os, ws or is, found '{}'", spelling),
                     "os keeps the result in place, ws the weights, is the inputs");
}

Status check_systolic(const SystolicArray& array, const ProductSize& p) {
  for (const auto& [what, value] : {std::pair{"rows", array.rows}, {"columns", array.cols}}) {
    if (value < 1)
      return too_small(fmt::format("an array with {}", what), value, "TPU v1 has 256 rows and 256 columns");
    if (value > SystolicArray::max_side)
      return input_error(
          fmt::format("expected an array with at most {} {}, found {}", SystolicArray::max_side, what, value),
          "a product larger than the array takes more folds");
  }
  for (const auto& [what, value] : {std::pair{"M", p.m}, {"N", p.n}, {"K", p.k}})
    if (value < 1)
      return too_small(fmt::format("a product with {}", what), value, "A [M, K] times B [K, N] gives C [M, N]");
  constexpr std::int64_t largest = std::int64_t{1} << 62;  // so that rounding up to whole tiles stays in range
  const bool sides_fit = p.m < largest && p.n < largest && p.k < largest;
  if (!sides_fit || !product_of({p.m, p.n, p.k}) || !counts_fit(array, map_product(array, p)))
    return input_error(fmt::format("the counts of M {} N {} K {} on {}×{} elements leave 64 bits", p.m, p.n, p.k,
                                   array.rows, array.cols),
                       "split the product and add the cycles");
  return Done{};
}

SystolicMapping map_product(const SystolicArray& array, const ProductSize& p) {
  SystolicMapping map;
  switch (array.dataflow) {
    case Dataflow::output_stationary: map = {.output_stays = true, .sr = p.m, .sc = p.n, .t = p.k}; break;
    case Dataflow::weight_stationary: map = {.sr = p.k, .sc = p.n, .t = p.m}; break;
    case Dataflow::input_stationary: map = {.transposed = true, .sr = p.k, .sc = p.m, .t = p.n}; break;
  }
  map.row_folds = ceil_div(map.sr, array.rows);
  map.col_folds = ceil_div(map.sc, array.cols);
  map.load = map.output_stays || array.preload ? 0 : array.rows;
  map.stream = map.t + array.rows + array.cols - 2;
  return map;
}

Result<SystolicReport> simulate_systolic(const SystolicArray& array, const ProductSize& p) {
  if (const Status status = check_systolic(array, p); !status) return status.error();
  const SystolicMapping map = map_product(array, p);
  SystolicReport report;
  report.array = array;
  report.product = p;
  report.folds = map.folds();
  report.fold_cycles = map.fold();
  report.cycles = report.folds * report.fold_cycles - (array.preload ? 0 : 1);
  const double elements = static_cast<double>(array.rows) * static_cast<double>(array.cols);
  const double multiply_adds = static_cast<double>(p.m * p.n * p.k);
  if (report.cycles > 0) report.utilization = multiply_adds / (elements * static_cast<double>(report.cycles));
  report.mapping_efficiency =
      static_cast<double>(map.sr) * static_cast<double>(map.sc) / (static_cast<double>(report.folds) * elements);
  const std::int64_t scalesim_fold = map.output_stays ? map.stream : map.t + 2 * array.rows + 2 * array.cols - 3;
  report.scalesim_compute_utilization =
      report.mapping_efficiency * static_cast<double>(map.t) / static_cast<double>(scalesim_fold);
  report.sram_words = count_words(array, p, map);
  return report;
}

std::string SystolicReport::text() const {
  const DataflowName& flow = dataflow_names[static_cast<std::size_t>(array.dataflow)];
  std::string out = fmt::format("M {} N {} K {} on {}×{} elements, {}{}\n", product.m, product.n, product.k, array.rows,
                                array.cols, flow.words, array.preload ? ", preloaded" : "");
  out += fmt::format("  cycles       {} = {} fold{} · {}{}\n", cycles, folds, folds == 1 ? "" : "s", fold_cycles,
                     array.preload ? "" : " − 1");
  out += utilization ? fmt::format("  utilization  {:.2f} % (tiles fill {:.2f} % of the elements)\n",
                                   100 * *utilization, 100 * mapping_efficiency)
                     : "  utilization  undefined: no cycle is counted\n";
  out += fmt::format("  sram words   a {} b {} c {}{}\n", sram_words.a, sram_words.b, sram_words.c,
                     sram_words.c_overcount > 0
                         ? fmt::format(" (SCALE-Sim's count; {} of c are never written)", sram_words.c_overcount)
                         : "");
  return out;
}

}  // namespace ridge
