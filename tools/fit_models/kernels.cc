#include "fit_models/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "fit_models/epilogues.h"
#include "fit_models/files.h"
#include "fit_models/layers.h"
#include "fit_models/rewrite.h"
#include "fit_models/spreads.h"
#include "fit_models/weights.h"
#include "ridge/base/file.h"
#include "ridge/base/portable_math.h"

namespace ridge::fit {
namespace {

using namespace ops;
using Place = double KernelConstants::*;

// Coordinate descent: changes one number at a time by a factor, which shrinks if neither direction improves. It has the
// same steps on every machine and suffices for few numbers and timings.
void descend(KernelConstants& numbers, const std::vector<Place>& places, const std::function<double()>& error) {
  constexpr double first = 1.5, last = 1.002;
  double least = error();
  for (double factor = first; factor > last;) {
    bool moved = false;
    for (const Place place : places)
      for (const double by : {factor, 1 / factor}) {
        const double before = numbers.*place;
        numbers.*place = before * by;
        const double now = error();
        if (now < least) {
          least = now;
          moved = true;
        } else {
          numbers.*place = before;
        }
      }
    if (!moved) factor = std::sqrt(factor);
  }
}

// Initial values of the fit: cycles of a few instructions and of the memory latency, and fractions near a peak. Derived
// numbers keep the values of the file.
KernelConstants initial_kernel_constants() {
  KernelConstants out = kernel_constants();
  out.gemv_cycles_per_line = 10;
  out.gemv_cycles_per_word = 4;
  out.f32_load_cycles = 250;
  out.f32_unaligned_cycles = 50;
  out.register_load_cycles = out.register_transpose_cycles = 50;
  out.tf32_load_cycles = out.piece_cycles = 50;
  out.scaled_stage_cycles = 100;
  out.scaled_column_cycles = 5;
  out.left_load_cycles = 200;
  out.weight_part_8bit_cycles = out.weight_part_mxfp8_cycles = out.weight_part_e2m1_cycles = 1000;
  out.weight_part_int4_cycles = out.weight_wgmma_cycles = 1000;
  out.weight_block_cycles = out.weight_group_cycles = 100;
  out.weight_wait_cycles = 10000;
  out.weight_split_cycles = 1000;
  out.weight_activation_share = 0.2;
  out.register_item_cycles = 4000;
  out.register_split_cycles = 10000;
  out.gated_pass_launch_cycles = 10000;
  out.gated_pass_memory_share = 0.85;
  out.attention_multiply_share = 0.85;
  out.exposed_exponential_share = 0.5;
  out.attention_l2_share = 1.3;
  out.attention_item_cycles = 2000;
  out.attention_tail_share = 0.5;
  out.attention_merge_cycles = 5000;
  out.attention_split_cycles = 100;
  out.backward_multiply_share = 0.6;
  out.epilogue_step_cycles = 400;
  out.epilogue_vector_cycles = 100;
  out.epilogue_matrix_cycles = 400;
  out.epilogue_hidden_share = 0.5;
  out.gather_wait_cycles = 2000;
  out.gather_item_instructions = 200;
  out.scatter_wait_cycles = 20000;
  out.running_sum_wait_cycles = out.select_wait_cycles = 1000;
  out.column_load_instructions = 8;
  out.column_row_instructions = 20;
  out.sort_line_wait_cycles = out.sort_launch_wait_cycles = 5000;
  out.recurrence_load_cycles = 1000;
  out.select_key_cycles = 2;
  out.scatter_time_factor = out.sum_along_factor = out.sum_across_factor = out.recurrence_access_cycles =
      out.depthwise_factor = out.routed_time_factor = out.rotary_time_factor = 1;
  out.rotary_wait_cycles = 1000;
  out.gemv_wait_cycles = 2000;
  return out;
}

double off(double predicted, double measured) { return std::abs(base::log(predicted / measured)); }

void fit_few_rows(const Samples& samples, const Form& form, KernelConstants& numbers) {
  const KernelConstantsOverride tried(numbers);
  descend(numbers, {&KernelConstants::gemv_cycles_per_line, &KernelConstants::gemv_cycles_per_word}, [&] {
    double sum = 0;
    for (const FewRows& x : samples.few_rows)
      sum += off(cuda::predict_gemv_seconds(x.work, form.devices[static_cast<std::size_t>(x.device)]), x.measured_s);
    return sum;
  });
}

void fit_register_loads(const Results& results, const DeviceNumbers& device, KernelConstants& numbers) {
  const KernelConstantsOverride tried(numbers);
  descend(numbers,
          {&KernelConstants::f32_load_cycles, &KernelConstants::f32_unaligned_cycles,
           &KernelConstants::register_load_cycles, &KernelConstants::register_transpose_cycles,
           &KernelConstants::register_item_cycles, &KernelConstants::register_split_cycles},
          [&] {
            double sum = 0;
            for (const auto* const products : {&results.f32_products, &results.unaligned_products})
              for (const TimedRegisterLoads& x : *products)
                sum += off(cuda::predict_register_loads_seconds(x.call, x.choice, device), x.measured_s);
            return sum;
          });
}

// Products of tf32, of 8 bits and of e4m3_128. The numbers of products with register loads have been fitted.
void fit_narrow_products(const Results& results, const Form& form, const DeviceNumbers& device,
                         KernelConstants& numbers) {
  const KernelConstantsOverride tried(numbers);
  descend(numbers, {&KernelConstants::tf32_load_cycles}, [&] {
    double sum = 0;
    for (const TimedRegisterLoads& x : results.tf32_products)
      sum += off(cuda::predict_register_loads_seconds(x.call, x.choice, device), x.measured_s);
    return sum;
  });
  const auto sum_errors = [&](bool has_block_scales) {
    double sum = 0;
    for (const TimedTiles& x : results.narrow_products)
      if (is_block_scaled(x.call.problem.a.dtype) == has_block_scales) sum += off(tiles_ratio(x, form, device), 1);
    return sum;
  };
  descend(numbers, {&KernelConstants::piece_cycles, &KernelConstants::left_load_cycles},
          [&] { return sum_errors(false); });
  descend(numbers, {&KernelConstants::scaled_stage_cycles, &KernelConstants::scaled_column_cycles},
          [&] { return sum_errors(true); });
}

void fit_weights(const std::vector<TimedWeights>& timed, const DeviceNumbers& device, KernelConstants& numbers) {
  using C = KernelConstants;
  const KernelConstantsOverride tried(numbers);
  const auto sum_errors = [&] {
    double sum = 0;
    for (const TimedWeights& x : timed) sum += off(predicted_seconds(x, device), x.measured_s);
    return sum;
  };
  descend(numbers,
          {&C::weight_part_8bit_cycles, &C::weight_part_mxfp8_cycles, &C::weight_part_e2m1_cycles,
           &C::weight_part_int4_cycles, &C::weight_block_cycles, &C::weight_wgmma_cycles, &C::weight_group_cycles,
           &C::weight_wait_cycles, &C::weight_split_cycles, &C::weight_activation_share},
          sum_errors);
  fmt::print("Narrow weights: mean error {:.1f} % of {} products.\n",
             100 * sum_errors() / static_cast<double>(timed.size()), timed.size());
}

void fit_backward(const std::vector<TimedPass>& passes, const DeviceNumbers& device, KernelConstants& numbers) {
  descend(numbers, {&KernelConstants::gated_pass_launch_cycles, &KernelConstants::gated_pass_memory_share}, [&] {
    double sum = 0;
    for (const TimedPass& x : passes) sum += off(pass_seconds(x, numbers, device), x.measured_s);
    return sum;
  });
}

// The timings of data/timings/loops are those of graphs, as in programs; the others are of single calls, in which
// splits of the keys cost more.
void fit_attention(const Results& results, const DeviceNumbers& h100, const DeviceNumbers& h200,
                   KernelConstants& numbers) {
  const KernelConstantsOverride tried(numbers);
  descend(numbers,
          {&KernelConstants::attention_multiply_share, &KernelConstants::exposed_exponential_share,
           &KernelConstants::attention_l2_share, &KernelConstants::attention_item_cycles,
           &KernelConstants::attention_tail_share, &KernelConstants::attention_merge_cycles,
           &KernelConstants::attention_split_cycles},
          [&] {
            double sum = 0;
            for (const TimedAttention& x : results.attention)
              if (x.parts == 1) sum += off(attention_seconds(x, h100), x.measured_s);
            for (const char* const kind : {"attention", "split_attention"})
              for (const double ratio : loop_ratios(results.loops, kind, LoopSites::fitted, h200)) sum += off(ratio, 1);
            return sum;
          });
}

void fit_attention_backward(const std::vector<TimedAttentionBackward>& timings, const DeviceNumbers& device,
                            KernelConstants& numbers) {
  const KernelConstantsOverride tried(numbers);
  descend(numbers, {&KernelConstants::backward_multiply_share}, [&] {
    double sum = 0;
    for (const TimedAttentionBackward& x : timings)
      sum += off(cuda::choose_plan(x.problem, device).predicted_s, x.measured_s);
    return sum;
  });
}

// Minimizes squares, which have no kinks: changing one number at a time stops at a kink of the absolute errors.
void fit_epilogues(const std::vector<TimedEpilogue>& timings, const DeviceNumbers& device, KernelConstants& numbers) {
  const KernelConstantsOverride tried(numbers);
  descend(numbers,
          {&KernelConstants::epilogue_step_cycles, &KernelConstants::epilogue_vector_cycles,
           &KernelConstants::epilogue_matrix_cycles, &KernelConstants::epilogue_hidden_share},
          [&] {
            double sum = 0;
            for (const double ratio : epilogue_ratios(timings, false, device)) sum += off(ratio, 1) * off(ratio, 1);
            return sum;
          });
}

void print_held_out_epilogues(const std::vector<TimedEpilogue>& timings, const DeviceNumbers& device,
                              const KernelConstants& numbers) {
  const KernelConstantsOverride fitted(numbers);
  const PredictionSpread& spread = find_spread("product");
  std::vector<double> errors;
  double sum = 0;
  int inside = 0;
  for (const double ratio : epilogue_ratios(timings, true, device)) {
    errors.push_back(100 * off(ratio, 1));
    sum += errors.back();
    inside += ratio >= spread.low && ratio <= spread.high;
  }
  std::sort(errors.begin(), errors.end());
  fmt::print(
      "Epilogues on {} held-out timings: mean error {:.1f} %, median {:.1f} %, 90th percentile {:.1f} %, largest "
      "{:.1f} %; {} are inside the interval of products.\n",
      errors.size(), sum / static_cast<double>(errors.size()), errors[errors.size() / 2],
      errors[errors.size() * 9 / 10], errors.back(), inside);
}

struct ErrorSummary {
  double mean = 0, largest = 0;  // In percent
};
ErrorSummary summarize_errors(const std::vector<double>& ratios) {
  ErrorSummary out;
  for (const double ratio : ratios) {
    const double error = 100 * std::abs(1 / ratio - 1);
    out.mean += error / static_cast<double>(ratios.size());
    out.largest = std::max(out.largest, error);
  }
  return out;
}

void fit_loops(const std::vector<TimedLoop>& timings, const DeviceNumbers& device, KernelConstants& numbers) {
  const KernelConstantsOverride tried(numbers);
  for (const std::string& kind : list_loop_kinds(timings)) {
    const std::vector<Place> places = list_loop_constants(kind);
    descend(numbers, places, [&] {
      double sum = 0;
      for (const double ratio : loop_ratios(timings, kind, LoopSites::fitted, device))
        sum += off(ratio, 1) * off(ratio, 1);
      return sum;
    });
    for (const Place place : places) numbers.*place = rounded(numbers.*place);
    const ErrorSummary fitted = summarize_errors(loop_ratios(timings, kind, LoopSites::fitted, device));
    const std::vector<double> rest = loop_ratios(timings, kind, LoopSites::held_out, device);
    const ErrorSummary held_out = summarize_errors(rest);
    fmt::print("{}: mean error {:.1f} %, largest {:.1f} %", kind, fitted.mean, fitted.largest);
    if (rest.empty())
      fmt::print("; no other site was timed.\n");
    else
      fmt::print("; mean {:.1f} %, largest {:.1f} % on {} held-out timings.\n", held_out.mean, held_out.largest,
                 rest.size());
  }
}

// Header lines of the files that are not made from timings of products.
std::string facts_of(const Results& results) {
  return fmt::format(
      "# tool: tools/fit_models\n# device: {}, {}\n# day: {}\n# timings: data/timings results/h200_geglu.json "
      "results/h100_attention.json results/h100_attention_backward.json results/h200_stream.json "
      "results/h200_repeats.json results/h100_matmul_suite.json results/h200_f32_products.json "
      "results/h200_unaligned_products.json results/h200_narrow_products.json "
      "results/h200_scaled_products.json\n",
      results.h100, results.h200, results.day);
}

}  // namespace

Result<KernelConstants> fit_kernels(const Samples& samples, const Form& form, const std::string& root) {
  const auto results = read_results(root);
  if (!results) return results.error();
  const auto h100 = numbers_of(samples, form, results->h100), h200 = numbers_of(samples, form, results->h200);
  if (!h100) return h100.error();
  if (!h200) return h200.error();
  KernelConstants numbers = initial_kernel_constants();
  fit_few_rows(samples, form, numbers);
  fit_register_loads(*results, *h200, numbers);
  fit_narrow_products(*results, form, *h200, numbers);
  const auto weights = read_weights(root, results->h200);
  if (!weights) return weights.error();
  fit_weights(*weights, *h200, numbers);
  fit_backward(results->passes, *h200, numbers);
  fit_attention(*results, *h100, *h200, numbers);
  fit_attention_backward(results->attention_backward, *h100, numbers);
  const auto epilogues = read_epilogues(root, results->h200, *h200);
  if (!epilogues) return epilogues.error();
  fit_epilogues(*epilogues, *h200, numbers);
  const auto layers = read_layers(root, results->h200);
  if (!layers) return layers.error();
  numbers.kernel_switch_cycles = fit_kernel_switch(*layers) * h200->clock_hz;
  for (const NamedNumber<KernelConstants>& x : named_kernel_constants()) numbers.*x.member = rounded(numbers.*x.member);
  print_held_out_epilogues(*epilogues, *h200, numbers);
  fit_loops(results->loops, *h200, numbers);
  return numbers;
}

Status write_kernels(const Samples& samples, const Form& form, const KernelConstants& numbers,
                     const std::string& root) {
  const auto results = read_results(root);
  if (!results) return results.error();
  const std::string path = root + "/data/models/kernels.csv";
  const auto text = rewritten(path, facts_of(*results), [&](const std::string& line) {
    auto cells = cells_of(line);
    for (const NamedNumber<KernelConstants>& x : named_kernel_constants())
      if (x.name == cells[0] && cells[3] == "fitted") cells[2] = fmt::format("{:.4g}", numbers.*x.member);
    return line_of(cells);
  });
  if (!text) return text.error();
  const Status done = write_file(path, *text);
  if (!done) return done;
  return write_spreads(samples, form, numbers, *results, facts_of(*results), root);
}

}  // namespace ridge::fit
