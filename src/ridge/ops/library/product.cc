#include <algorithm>
#include <vector>

#include "ridge/ops/library/formula.h"

namespace ridge::ops {
namespace {

constexpr std::string_view columns[] = {"m", "n", "k", "batch"};
constexpr std::size_t group_columns[] = {1, 2};

// Results of 8-bit operands are stored in 16 bits.
LibraryProduct to_product(std::span<const double> x, const LibraryDevice& chip) {
  return {.batch = x[3],
          .m = x[0],
          .n = x[1],
          .k = x[2],
          .operand_bytes = chip.element_bytes,
          .result_bytes = std::max(2.0, chip.element_bytes)};
}

double estimate_seconds(std::span<const double> sizes, const LibraryDevice& chip, std::span<const double> numbers) {
  LibraryNumbers product_parameters;
  for (std::size_t i = 0; i < numbers.size(); ++i) product_parameters.*library_numbers[i].member = numbers[i];
  return estimate_library_seconds(to_product(sizes, chip), chip.rates, product_parameters);
}

double roofline_seconds(std::span<const double> sizes, const LibraryDevice& chip) {
  const LibraryProduct p = to_product(sizes, chip);
  return std::max(2 * p.batch * p.m * p.n * p.k / chip.rates.flops_per_s,
                  min_traffic_bytes(p) / chip.rates.memory_bytes_per_s);
}

// Initial values of 1 are not used: a fit of products starts from another machine's numbers (plan/library_model.h).
std::vector<LibraryParameter> product_parameters() {
  std::vector<LibraryParameter> out;
  for (const NamedLibraryNumber& x : library_numbers) out.push_back({x.key, x.unit, 1});
  return out;
}

}  // namespace

const LibraryFormula& product_formula() {
  static const std::vector<LibraryParameter> numbers = product_parameters();
  static const LibraryFormula formula{"product",        columns,         3, group_columns, numbers,
                                      estimate_seconds, roofline_seconds};
  return formula;
}

std::span<const LibraryFormula* const> library_formulas() {
  static const LibraryFormula* const all[] = {&product_formula(), &prefill_formula(), &decode_formula(),
                                              &streamed_formula(), &cpu_formula()};
  return all;
}

}  // namespace ridge::ops
