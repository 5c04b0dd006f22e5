#include "ridge/simulate/systolic.h"

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <utility>

#include "ridge/base/ceil_div.h"

namespace ridge {
namespace {

struct DataflowName {
  Dataflow dataflow;
  std::string_view name;
  std::string_view long_name;
};
constexpr std::array<DataflowName, 3> dataflow_names{{
    {Dataflow::output_stationary, "os", "output-stationary"},
    {Dataflow::weight_stationary, "ws", "weight-stationary"},
    {Dataflow::input_stationary, "is", "input-stationary"},
}};

// Returns the product of factors ≥ 1, or nullopt if it overflows int64.
std::optional<std::int64_t> checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t f : factors)
    if (__builtin_mul_overflow(product, f, &product)) return std::nullopt;
  return product;
}

Status below_one_error(std::string_view what, std::int64_t value, std::string hint) {
  return input_error(fmt::format("expected {} of at least 1, found {}", what, value), std::move(hint));
}

SramWords count_words(const SystolicArray& array, const ProductSize& p, const SystolicMapping& map) {
  SramWords words;
  if (map.is_output_stationary) {
    words.a = p.m * p.k * map.col_folds;
    words.b = p.k * p.n * map.row_folds;
    words.c_overcount = map.fold_count() * (array.rows + array.cols);
    words.c = p.m * p.n + words.c_overcount;
    return words;
  }
  const std::int64_t moving_words = map.t * map.sr * map.col_folds, stationary_words = map.sr * map.sc;
  words.a = map.is_transposed ? stationary_words : moving_words;
  words.b = map.is_transposed ? moving_words : stationary_words;
  words.c = p.m * p.n * map.row_folds;
  return words;
}

// True if no count overflows: each is at most the product padded to full tiles, or the folds times some array sides.
bool counts_fit(const SystolicArray& array, const SystolicMapping& map) {
  return checked_product({map.row_folds * array.rows, map.col_folds * array.cols, map.t}) &&
         checked_product({map.row_folds, map.col_folds, map.t + 2 * (array.rows + array.cols)});
}

}  // namespace

std::string_view dataflow_name(Dataflow dataflow) { return dataflow_names[static_cast<std::size_t>(dataflow)].name; }

Result<Dataflow> parse_dataflow(std::string_view spelling) {
  for (const DataflowName& d : dataflow_names)
    if (d.name == spelling || d.long_name == spelling) return d.dataflow;
  return usage_error(fmt::format("expected a dataflow os, ws or is, found '{}'", spelling),
                     "os keeps the result in place, ws the weights, is the inputs");
}

Status check_systolic(const SystolicArray& array, const ProductSize& p) {
  for (const auto& [what, value] : {std::pair{"rows", array.rows}, {"columns", array.cols}}) {
    if (value < 1)
      return below_one_error(fmt::format("an array with {}", what), value, "TPU v1 has 256 rows and 256 columns");
    if (value > SystolicArray::max_side)
      return input_error(
          fmt::format("expected an array with at most {} {}, found {}", SystolicArray::max_side, what, value),
          "a product larger than the array takes more folds");
  }
  for (const auto& [what, value] : {std::pair{"M", p.m}, {"N", p.n}, {"K", p.k}})
    if (value < 1)
      return below_one_error(fmt::format("a product with {}", what), value, "A [M, K] times B [K, N] gives C [M, N]");
  constexpr std::int64_t max_dim = std::int64_t{1} << 62;  // rounding up to full tiles stays in range
  const bool sides_fit = p.m < max_dim && p.n < max_dim && p.k < max_dim;
  if (!sides_fit || !checked_product({p.m, p.n, p.k}) || !counts_fit(array, make_mapping(array, p)))
    return input_error(fmt::format("the counts of M {} N {} K {} on {}×{} elements exceed 64 bits", p.m, p.n, p.k,
                                   array.rows, array.cols),
                       "split the product and add the cycles");
  return Done{};
}

SystolicMapping make_mapping(const SystolicArray& array, const ProductSize& p) {
  SystolicMapping map;
  switch (array.dataflow) {
    case Dataflow::output_stationary: map = {.is_output_stationary = true, .sr = p.m, .sc = p.n, .t = p.k}; break;
    case Dataflow::weight_stationary: map = {.sr = p.k, .sc = p.n, .t = p.m}; break;
    case Dataflow::input_stationary: map = {.is_transposed = true, .sr = p.k, .sc = p.m, .t = p.n}; break;
  }
  map.row_folds = ceil_div(map.sr, array.rows);
  map.col_folds = ceil_div(map.sc, array.cols);
  map.load_cycles = map.is_output_stationary || array.preload ? 0 : array.rows;
  map.stream_cycles = map.t + array.rows + array.cols - 2;
  return map;
}

Result<SystolicReport> simulate_systolic(const SystolicArray& array, const ProductSize& p) {
  RIDGE_TRY_STATUS(check_systolic(array, p));
  const SystolicMapping map = make_mapping(array, p);
  SystolicReport report;
  report.array = array;
  report.product = p;
  report.folds = map.fold_count();
  report.fold_cycles = map.fold_cycles();
  report.cycles = report.folds * report.fold_cycles - (array.preload ? 0 : 1);
  const double elements = static_cast<double>(array.rows) * static_cast<double>(array.cols);
  const double multiply_adds = static_cast<double>(p.m * p.n * p.k);
  if (report.cycles > 0) report.utilization = multiply_adds / (elements * static_cast<double>(report.cycles));
  report.mapping_efficiency =
      static_cast<double>(map.sr) * static_cast<double>(map.sc) / (static_cast<double>(report.folds) * elements);
  const std::int64_t scalesim_fold_cycles =
      map.is_output_stationary ? map.stream_cycles : map.t + 2 * array.rows + 2 * array.cols - 3;
  report.scalesim_compute_utilization =
      report.mapping_efficiency * static_cast<double>(map.t) / static_cast<double>(scalesim_fold_cycles);
  report.sram_words = count_words(array, p, map);
  return report;
}

std::string SystolicReport::to_text() const {
  const DataflowName& flow = dataflow_names[static_cast<std::size_t>(array.dataflow)];
  std::string out = fmt::format("M {} N {} K {} on {}×{} elements, {}{}\n", product.m, product.n, product.k, array.rows,
                                array.cols, flow.long_name, array.preload ? ", preloaded" : "");
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

Result<ProductSize> to_product_size(const Convolution& convolution) {
  constexpr std::int64_t max_value = (std::int64_t{1} << 31) - 1;
  for (const auto& [what, value] : {std::pair{"image height", convolution.height},
                                    {"image width", convolution.width},
                                    {"filter height", convolution.filter_height},
                                    {"filter width", convolution.filter_width},
                                    {"channel count", convolution.channels},
                                    {"filter count", convolution.filters},
                                    {"vertical stride", convolution.stride_height},
                                    {"horizontal stride", convolution.stride_width},
                                    {"batch", convolution.batch}})
    if (value < 1 || value > max_value)
      return input_error(fmt::format("expected the {} between 1 and {}, found {}", what, max_value, value));
  if (convolution.filter_height > convolution.height || convolution.filter_width > convolution.width)
    return input_error(fmt::format("expected a filter no larger than the image of {}×{}, found {}×{}",
                                   convolution.height, convolution.width, convolution.filter_height,
                                   convolution.filter_width));
  ProductSize product{.n = convolution.filters};
  if (__builtin_mul_overflow(convolution.out_height() * convolution.out_width(), convolution.batch, &product.m) ||
      __builtin_mul_overflow(convolution.filter_height * convolution.filter_width, convolution.channels, &product.k))
    return input_error("the sizes of the convolution's product exceed 64 bits");
  return product;
}

}  // namespace ridge
