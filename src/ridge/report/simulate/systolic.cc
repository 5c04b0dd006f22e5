#include "ridge/report/json_values.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/table.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"

namespace ridge {
namespace {

Json words_json(std::int64_t a, std::int64_t b, std::int64_t c) { return {{"a", a}, {"b", b}, {"c", c}}; }

std::string utilization_text(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

std::string run_details(const SystolicRun& run) {
  const FoldPhaseCycles& p = run.phases;
  std::string out = run.task.name.empty() ? "" : run.task.name + ": ";
  out += run.report.to_text();
  out += fmt::format("  fold         {}\n", run.mapping_formula());
  out += fmt::format("               load {}, fill {}, compute {}, drain {}\n", p.load, p.fill, p.compute, p.drain);
  if (run.stalls) out += run.stalls->to_text();
  return out;
}

std::string runs_table(std::span<const SystolicRun> runs, const TextStyle& style) {
  bool stalls = false, copies = false;
  for (const SystolicRun& run : runs) {
    stalls |= run.stalls.has_value();
    copies |= run.task.copies > 1;
  }
  std::vector<std::vector<std::string>> rows{{"layer", "M", "N", "K", "folds", "cycles", "utilization"}};
  if (stalls) rows[0].insert(rows[0].end(), {"stalls", "total"});
  if (copies) rows[0].push_back("copies");
  for (const SystolicRun& run : runs) {
    const ProductSize& p = run.task.product;
    std::vector<std::string> row{run.task.name.empty() ? "-" : run.task.name,
                                 std::to_string(p.m),
                                 std::to_string(p.n),
                                 std::to_string(p.k),
                                 std::to_string(run.report.folds),
                                 std::to_string(run.report.cycles),
                                 run.report.utilization ? utilization_text(*run.report.utilization) : "-"};
    if (stalls) row.push_back(run.stalls ? std::to_string(run.stalls->stall_cycles) : "-");
    if (stalls) row.push_back(run.stalls ? std::to_string(run.stalls->cycles) : "-");
    if (copies) row.push_back(std::to_string(run.task.copies));
    rows.push_back(std::move(row));
  }
  const SystolicTotal total = sum_runs(runs);
  std::string out = text_table(rows,
                               {.right = {false, true, true, true, true, true, true, true, true, true},
                                .omit_first = {"copies", "folds", "stalls", "N", "K", "M"}},
                               style);
  out += fmt::format("\n{} layers: {} cycles, {} busy", runs.size(), format_significant(total.cycles, 15),
                     utilization_text(total.utilization()));
  if (stalls) out += fmt::format(", plus {} stall cycles", format_significant(total.stall_cycles, 15));
  return out + "\n";
}

Json stalls_json(const StallReport& s) {
  return {{"stall_cycles", s.stall_cycles},
          {"total_cycles", s.cycles},
          {"total_cycles_with_prefetch", s.cycles_with_prefetch},
          {"memory_words", words_json(s.memory_reads_a, s.memory_reads_b, s.memory_writes_c)}};
}

}  // namespace

std::string render_text(std::span<const SystolicRun> runs, const TextStyle& style) {
  return runs.size() == 1 ? run_details(runs[0]) : runs_table(runs, style);
}

std::string render_json(const SystolicRun& run, bool one_line) {
  const SystolicReport& r = run.report;
  Json out{{"schema", "ridge.simulate/1"}, {"verb", "simulate systolic"}};
  if (!run.task.name.empty()) out["layer"] = run.task.name;
  out["array"] = {{"rows", r.array.rows},
                  {"cols", r.array.cols},
                  {"dataflow", dataflow_name(r.array.dataflow)},
                  {"preload", r.array.preload}};
  out["product"] = {{"m", r.product.m}, {"n", r.product.n}, {"k", r.product.k}};
  if (run.task.copies > 1) out["copies"] = run.task.copies;
  out["cycles"] = r.cycles;
  out["folds"] = r.folds;
  out["utilization"] = or_null(r.utilization);
  out["sram_words"] = words_json(r.sram_words.a, r.sram_words.b, r.sram_words.c);
  out["fold"] = {{"cycles", r.fold_cycles},
                 {"load", run.phases.load},
                 {"fill", run.phases.fill},
                 {"compute", run.phases.compute},
                 {"drain", run.phases.drain}};
  out["mapping_efficiency"] = r.mapping_efficiency;
  out["scalesim"] = {{"compute_utilization", r.scalesim_compute_utilization},
                     {"c_words_never_written", r.sram_words.c_overcount}};
  if (run.stalls) out["stalls"] = stalls_json(*run.stalls);
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(one_line ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_json(std::span<const SystolicRun> runs) {
  std::string out;
  for (const SystolicRun& run : runs) out += render_json(run, runs.size() > 1);
  return out;
}

}  // namespace ridge
