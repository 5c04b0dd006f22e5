#include "ridge/plan/library.h"

#include <fmt/format.h>

#include "ridge/machine/machine.h"
#include "ridge/ops/fitted.h"

namespace ridge {
namespace {

bool is_fitted(const Machine& machine) { return machine.numbers.contains(std::string(ops::library_numbers[0].key)); }

ops::LibraryNumbers numbers_of(const Machine& machine) {
  ops::LibraryNumbers out;
  for (const ops::NamedLibraryNumber& x : ops::library_numbers)
    if (const auto found = machine.numbers.find(std::string(x.key)); found != machine.numbers.end())
      out.*x.place = found->second.value;
  return out;
}

ops::Spread spread_of(const Machine& machine) {
  const auto at = [&](const char* key) {
    const auto found = machine.numbers.find(key);
    return found == machine.numbers.end() ? 1.0 : found->second.value;
  };
  return {at("library_low"), at("library_middle"), at("library_high")};
}

}  // namespace

Result<ops::LibraryMachine> library_machine(const Machine& machine, DType dtype) {
  const Peak* const peak = machine.peak(dtype == DType::f32 ? Unit::vector : Unit::matrix, dtype);
  const auto cores = machine.numbers.find("cores");
  const auto missing = [&](const char* what) {
    return input_error(fmt::format("cannot predict a library's products on {}: no {} on record", machine.name, what),
                       "its machine file wants matrix peaks, a memory's bandwidth and numbers.cores");
  };
  if (peak == nullptr) return missing("matrix peak of this dtype");
  if (cores == machine.numbers.end()) return missing("cores");
  if (machine.memory.empty() || !machine.memory.front().bandwidth) return missing("memory bandwidth");
  return ops::LibraryMachine{peak->rate.value, machine.memory.front().bandwidth->value, cores->second.value};
}

Result<LibraryOn> library_on(const Machine& machine, DType dtype) {
  const auto here = library_machine(machine, dtype);
  if (!here) return here.error();
  if (is_fitted(machine)) return LibraryOn{*here, numbers_of(machine), spread_of(machine), true};
  const auto known = find_machine("h200");
  const auto there = known ? library_machine(*known, DType::bf16) : known.error();
  if (!there) return there.error();
  LibraryOn out{*here, numbers_of(*known), ops::spread_of("library_elsewhere"), false};
  const double faster = here->flops_per_s / here->cores / (there->flops_per_s / there->cores);
  out.numbers.step_s /= faster;
  out.numbers.tile_s /= faster;
  out.numbers.l2_bytes_per_s *= faster * here->cores / there->cores;
  return out;
}

ops::LibraryProduct library_product(const ops::MatmulProblem& p) {
  const auto size = [](std::int64_t x) { return static_cast<double>(x); };
  return {size(p.batch), size(p.m), size(p.n), size(p.k), bits(p.a.dtype) / 8.0, bits(p.d.dtype) / 8.0};
}

}  // namespace ridge
