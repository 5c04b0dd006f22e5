#include "ridge/plan/library.h"

#include <fmt/format.h>

#include <numeric>

#include "ridge/machine/machine.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/fitted.h"
#include "ridge/plan/form_time.h"

namespace ridge {
namespace {

ops::LibraryNumbers numbers_of(const Machine& machine) {
  ops::LibraryNumbers out;
  for (const ops::NamedLibraryNumber& x : ops::library_numbers)
    if (const auto found = machine.numbers.find(std::string(x.key)); found != machine.numbers.end())
      out.*x.place = found->second.value;
  return out;
}

std::optional<LibraryKernel> attention_kernel(const ops::AttentionProblem& p) {
  const bool is_usual = bits(p.dtype) == 16 && p.cap == 0 && p.low <= -p.keys && p.outer * p.rows * p.keys > 0;
  const bool is_causal = p.walks && p.high == 0 && p.rows == p.keys;
  const bool is_decode = p.rows == 1 && p.high >= p.keys - 1;
  if (ops::differ(p) || !is_usual || !(is_causal || is_decode)) return std::nullopt;
  const auto size = [](std::int64_t x) { return static_cast<double>(x); };
  return LibraryKernel{is_causal ? &ops::prefill_form() : &ops::decode_form(),
                       {size(p.outer), size(p.heads), size(p.key_heads), size(p.keys), size(p.width)},
                       p.dtype};
}

// Returns the product of all extents but the last.
double lines(const std::vector<std::int64_t>& extents) {
  double out = 1;
  for (std::size_t i = 0; i + 1 < extents.size(); ++i) out *= static_cast<double>(extents[i]);
  return out;
}

}  // namespace

Result<ops::LibraryMachine> library_machine(const Machine& machine, DType dtype) {
  const Peak* const peak = machine.peak(dtype == DType::f32 ? Unit::vector : Unit::matrix, dtype);
  const auto cores = machine.numbers.find("cores");
  const auto missing = [&](const char* what) {
    return input_error(fmt::format("cannot predict library products on {}: no {} on record", machine.name, what),
                       "its machine file needs matrix peaks, a memory bandwidth and numbers.cores");
  };
  if (peak == nullptr) return missing("matrix peak of this dtype");
  if (cores == machine.numbers.end()) return missing("cores");
  if (machine.memory.empty() || !machine.memory.front().bandwidth) return missing("memory bandwidth");
  return ops::LibraryMachine{peak->rate.value, machine.memory.front().bandwidth->value, cores->second.value};
}

Result<LibraryOn> library_on(const Machine& machine, DType dtype) {
  const auto here = library_machine(machine, dtype);
  if (!here) return here.error();
  if (is_fitted(machine, ops::product_form()))
    return LibraryOn{*here, numbers_of(machine), spread_of(machine, ops::product_form()), true};
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

ops::LibraryProduct library_product(const ops::MatmulProblem& given) {
  const ops::MatmulProblem p = ops::alike(given);
  const auto size = [](std::int64_t x) { return static_cast<double>(x); };
  return {size(p.batch), size(p.m), size(p.n), size(p.k), bits(p.a.dtype) / 8.0, bits(p.d.dtype) / 8.0};
}

std::optional<LibraryKernel> library_kernel(const Step& step, std::int64_t bytes) {
  if (const auto* attention = std::get_if<ops::AttentionProblem>(&step.kernel)) return attention_kernel(*attention);
  double rows = 0;
  if (const auto* chain = std::get_if<ops::ChainProgram>(&step.kernel))
    rows = lines(chain->extents);
  else if (const auto* function = std::get_if<ops::RowProblem>(&step.kernel))
    rows = static_cast<double>(function->rows);
  else if (const auto* program = std::get_if<ops::RowProgram>(&step.kernel))
    rows = std::accumulate(program->rows.begin(), program->rows.end(), 1.0,
                           [](double all, std::int64_t extent) { return all * static_cast<double>(extent); });
  if (rows == 0 || bytes == 0) return std::nullopt;
  return LibraryKernel{&ops::streamed_form(), {rows, static_cast<double>(bytes) / rows}};
}

}  // namespace ridge
