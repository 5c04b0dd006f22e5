#include "ridge/plan/library_model.h"

#include <fmt/format.h>

#include <numeric>

#include "ridge/machine/machine.h"
#include "ridge/ops/attention/model.h"
#include "ridge/ops/fitted.h"
#include "ridge/plan/form_estimate.h"

namespace ridge {
namespace {

ops::LibraryNumbers fitted_numbers(const Machine& machine) {
  ops::LibraryNumbers out;
  for (const ops::NamedLibraryNumber& x : ops::library_numbers)
    if (const auto found = machine.numbers.find(std::string(x.key)); found != machine.numbers.end())
      out.*x.member = found->second.value;
  return out;
}

std::optional<LibraryKernel> find_attention_kernel(const ops::AttentionProblem& p) {
  const bool is_usual = dtype_bits(p.dtype) == 16 && p.cap == 0 && p.low <= -p.keys && p.outer * p.rows * p.keys > 0;
  const bool is_causal = p.moves_with_rows && p.high == 0 && p.rows == p.keys;
  const bool is_decode = p.rows == 1 && p.high >= p.keys - 1;
  if (ops::has_ragged_sequences(p) || !is_usual || !(is_causal || is_decode)) return std::nullopt;
  const auto size = [](std::int64_t x) { return static_cast<double>(x); };
  return LibraryKernel{is_causal ? &ops::prefill_formula() : &ops::decode_formula(),
                       {size(p.outer), size(p.heads), size(p.key_heads), size(p.keys), size(p.width)},
                       p.dtype};
}

// Returns the product of all extents but the last.
double row_count(const std::vector<std::int64_t>& extents) {
  double out = 1;
  for (std::size_t i = 0; i + 1 < extents.size(); ++i) out *= static_cast<double>(extents[i]);
  return out;
}

}  // namespace

Result<ops::DatasheetRates> find_datasheet_rates(const Machine& machine, DType dtype) {
  const Peak* const peak = machine.find_peak(dtype == DType::f32 ? ComputeUnit::vector : ComputeUnit::matrix, dtype);
  const auto cores = machine.numbers.find("cores");
  const auto missing = [&](const char* what) {
    return input_error(fmt::format("cannot predict library products on {}: no {} on record", machine.name, what),
                       "its machine file needs matrix peaks, a memory bandwidth and numbers.cores");
  };
  if (peak == nullptr) return missing("matrix peak of this dtype");
  if (cores == machine.numbers.end()) return missing("cores");
  if (machine.memory.empty() || !machine.memory.front().bandwidth) return missing("memory bandwidth");
  return ops::DatasheetRates{peak->rate.value, machine.memory.front().bandwidth->value, cores->second.value};
}

std::string uncalibrated_remark(const Machine& machine) {
  return fmt::format(
      "the library is not calibrated on {}: its parameters are an H200's, scaled by the peaks, so the "
      "interval is wider",
      machine.name);
}

bool has_library(const Machine& machine) {
  return machine.title.starts_with("NVIDIA") || is_fitted(machine, ops::product_formula());
}

Result<LibraryModel> find_library_model(const Machine& machine, DType dtype) {
  RIDGE_TRY(rates, find_datasheet_rates(machine, dtype));
  if (is_fitted(machine, ops::product_formula()))
    return LibraryModel{rates, fitted_numbers(machine), formula_spread(machine, ops::product_formula()), true};
  RIDGE_TRY(reference_machine, find_machine("h200"));
  RIDGE_TRY(reference_rates, find_datasheet_rates(reference_machine, DType::bf16));
  LibraryModel out{rates, fitted_numbers(reference_machine), ops::find_spread("library_elsewhere"), false};
  const double speedup = rates.flops_per_s / rates.cores / (reference_rates.flops_per_s / reference_rates.cores);
  out.numbers.step_s /= speedup;
  out.numbers.tile_s /= speedup;
  out.numbers.l2_bytes_per_s *= speedup * rates.cores / reference_rates.cores;
  return out;
}

ops::LibraryProduct to_library_product(const ops::MatmulProblem& given) {
  const ops::MatmulProblem p = ops::to_uniform_batch(given);
  const auto size = [](std::int64_t x) { return static_cast<double>(x); };
  return {size(p.batch),
          size(p.size.m),
          size(p.size.n),
          size(p.size.k),
          dtype_bits(p.a.dtype) / 8.0,
          dtype_bits(p.d.dtype) / 8.0};
}

std::optional<LibraryKernel> find_library_kernel(const PlanStep& step, std::int64_t bytes) {
  if (const auto* attention = std::get_if<ops::AttentionProblem>(&step.kernel))
    return find_attention_kernel(*attention);
  double rows = 0;
  if (const auto* chain = std::get_if<ops::ChainProgram>(&step.kernel))
    rows = row_count(chain->extents);
  else if (const auto* function = std::get_if<ops::RowProblem>(&step.kernel))
    rows = static_cast<double>(function->rows);
  else if (const auto* program = std::get_if<ops::RowProgram>(&step.kernel))
    rows = std::accumulate(program->rows.begin(), program->rows.end(), 1.0,
                           [](double all, std::int64_t extent) { return all * static_cast<double>(extent); });
  if (rows == 0 || bytes == 0) return std::nullopt;
  return LibraryKernel{&ops::streamed_formula(), {rows, static_cast<double>(bytes) / rows}};
}

}  // namespace ridge
