#include <algorithm>
#include <vector>

#include "ridge/ops/library/form.h"

namespace ridge::ops {
namespace {

constexpr std::string_view columns[] = {"m", "n", "k", "batch"};
constexpr std::size_t site[] = {1, 2};

// Results of 8-bit operands are stored in 16 bits.
LibraryProduct named(std::span<const double> x, const LibraryChip& chip) {
  return {.batch = x[3],
          .m = x[0],
          .n = x[1],
          .k = x[2],
          .operand_bytes = chip.element_bytes,
          .result_bytes = std::max(2.0, chip.element_bytes)};
}

double seconds(std::span<const double> sizes, const LibraryChip& chip, std::span<const double> numbers) {
  LibraryNumbers named_numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) named_numbers.*library_numbers[i].place = numbers[i];
  return library_seconds(named(sizes, chip), chip.rates, named_numbers);
}

double roof(std::span<const double> sizes, const LibraryChip& chip) {
  const LibraryProduct p = named(sizes, chip);
  return std::max(2 * p.batch * p.m * p.n * p.k / chip.rates.flops_per_s,
                  least_bytes(p) / chip.rates.memory_bytes_per_s);
}

// The initial values are not used: a fit of products starts from another machine's numbers (plan/library_model.h).
std::vector<LibraryNumber> named_numbers() {
  std::vector<LibraryNumber> out;
  for (const NamedLibraryNumber& x : library_numbers) out.push_back({x.key, x.unit, 1});
  return out;
}

}  // namespace

const LibraryForm& product_form() {
  static const std::vector<LibraryNumber> numbers = named_numbers();
  static const LibraryForm form{"product", columns, 3, site, numbers, seconds, roof};
  return form;
}

std::span<const LibraryForm* const> library_forms() {
  static const LibraryForm* const all[] = {&product_form(), &prefill_form(), &decode_form(), &streamed_form(),
                                           &cpu_form()};
  return all;
}

}  // namespace ridge::ops
