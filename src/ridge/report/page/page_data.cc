// Input of the page's scripts: a flat program per subject, machines as rates, runs as medians (page.h). A count is
// [denominator, [coefficient, index, ...], ...], a polynomial in the values with these indices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"
#include "ridge/report/page/page.h"
#include "ridge/report/page/page_json.h"
#include "ridge/report/text_parts.h"
#include "ridge/roofline/roofs.h"
#include "ridge/roofline/sizes/flat_program.h"

namespace ridge {
namespace {

FlatSizes flatten_sizes(const Formulas& formulas) {
  SizeNames independent;
  const auto is_computed = [](const SizeFormula& size) { return size.formula || size.shard || size.mask; };
  for (const SizeFormula& size : formulas.sizes)
    if (!is_computed(size)) independent.push_back(size.name);
  FlatSizes out(std::move(independent), {});
  for (const SizeFormula& size : formulas.sizes) {
    if (size.formula) out.add_derived_size(size.name, *size.formula);
    if (size.mask) out.add_mask(*size.mask);
    if (size.shard) out.add_shard(*size.shard);
  }
  return out;
}

Json value_json(const FlatValue& value) {
  Json out{{"count", count_json(value.count)}};
  if (value.low) out["low"] = count_json(*value.low);
  if (value.high) out["high"] = count_json(*value.high);
  if (value.is_size) out["least"] = 1;
  return out;
}

// Returns the independent sizes with their given values, then the computed values; helpers have no name.
Json values_json(const FlatSizes& sizes, const Formulas& formulas, const std::vector<std::string>& order) {
  Json out = Json::array();
  const std::size_t first = sizes.names().size() - sizes.computed().size();
  for (std::size_t i = 0; i < sizes.names().size(); ++i) {
    Json value = i < first ? Json::object() : value_json(sizes.computed()[i - first]);
    if (!sizes.is_helper(i)) value["name"] = sizes.names()[i];
    for (const SizeFormula& size : formulas.sizes) {
      if (size.name != sizes.names()[i]) continue;
      if (size.value) value["value"] = integer_json(*size.value);
      if (size.formula && contains(order, size.name)) value["formula"] = size.formula->to_string(order);
    }
    out.push_back(std::move(value));
  }
  return out;
}

// `required`: without this rate, there is no prediction.
// `peaks`: the statement runs at the first of these that a machine has.
Json statement_json(const Work& work, CountTable& counts) {
  Json peaks = Json::array();
  if (work.contraction) peaks.push_back(rate_name(ComputeUnit::matrix, work.math));
  peaks.push_back(rate_name(ComputeUnit::vector, work.math));
  return {{"flops", counts.add(work.flops)},
          {"peaks", std::move(peaks)},
          {"required", work.contraction && work.math != DType::f32}};
}

// Statements that run as one kernel, or, with `sequence`, all kernels in sequence. `bytes` are counts that are moved in
// sequence.
Json row_json(const Formulas& formulas, const std::vector<int>& statements, Json bytes) {
  Json out{{"statements", statements}, {"bytes", std::move(bytes)}};
  bool is_integer = true, has_product = false;
  for (const int s : statements) {
    const Work& work = formulas.statements[s];
    is_integer = is_integer && dtype_info(work.math).is_integer;
    has_product = has_product || work.contraction;
  }
  out["unit"] = is_integer ? "OP" : "FLOP";
  if (has_product) out["product"] = true;
  return out;
}

Json total_json(const Formulas& formulas, CountTable& counts) {
  std::vector<int> statements;
  Json bytes = Json::array();
  for (const KernelFormula& kernel : formulas.kernels) {
    statements.insert(statements.end(), kernel.statements.begin(), kernel.statements.end());
    bytes.push_back(counts.add(kernel.bytes));
  }
  Json out = row_json(formulas, statements, std::move(bytes));
  out["sequence"] = true;
  return out;
}

// Returns the changes of the live bytes at each statement; the largest sum of the first ones is the peak.
Json live_changes_json(const Formulas& formulas, CountTable& counts) {
  std::vector<Polynomial> changes(formulas.statements.size() + 1);
  for (const TensorFormula& tensor : formulas.tensors) {
    changes[std::max(0, tensor.begin)] += tensor.bytes;
    Polynomial& after = changes[static_cast<std::size_t>(tensor.end) + 1];
    after = after - tensor.bytes;
  }
  changes.pop_back();
  Json out = Json::array();
  for (const Polynomial& change : changes) out.push_back(counts.add(change));
  return out;
}

// Routes the transfers over the machine's links: per statement, the bytes that leave a chip, the bytes that take as
// long at `rate`, and the cost of each transfer; null for a statement that sends nothing.
Json link_json(const Formulas& formulas, Network network, CountTable& counts) {
  std::vector<Work> work = formulas.statements;
  route_transfers(work, network);
  Json out{{"name", network.link},
           {"rate", network.used_rate()},
           {"sent", Json::array()},
           {"load", Json::array()},
           {"transfers", Json::array()}};
  for (const Work& each : work) {
    const bool sends = !each.bytes_sent.is_zero();
    out["sent"].push_back(sends ? Json(counts.add(each.bytes_sent)) : Json());
    out["load"].push_back(sends ? Json(counts.add(each.link_load)) : Json());
    Json transfers = Json::array();
    for (const Transfer& t : each.transfers) {
      Json protocols = Json::array();
      for (const LinearTime& protocol : t.cost.protocols) protocols.push_back(line_json(protocol));
      transfers.push_back({counts.add(t.bytes), line_json(t.cost.links), std::move(protocols)});
    }
    out["transfers"].push_back(std::move(transfers));
  }
  return out;
}

// Returns the report's run in the form of a saved one (saved.js).
Json run_json(const Report& report, const Formulas& formulas) {
  const Measurement& m = *report.measured;
  const auto times = [](const OpMeasurement& op) {
    Json out{{"median", op.time.median}, {"min", op.time.min}, {"max", op.time.max}, {"runs", op.time.runs}};
    out["fraction_of_roof"] = or_null(op.fraction_of_roof);
    if (!op.cache.empty()) out["in_cache"] = op.cache;
    return out;
  };
  Json out{{"called", "run of " + (report.day.empty() ? "this program" : report.day)},
           {"dims", Json::object()},
           {"total", times(m.total)},
           {"ops", Json::array()}};
  for (const SizeFormula& size : formulas.sizes)
    if (size.value && !size.formula) out["dims"][size.name] = *size.value;
  for (std::size_t i = 0; i < m.ops.size(); ++i) {
    out["ops"].push_back(times(m.ops[i]));
    out["ops"].back()["name"] = report.explanation.ops[i].work.name;
  }
  return out;
}

// Returns what is said below the sliders, after the derived sizes.
Json notes_json(const Formulas& formulas, const Explanation& e) {
  Json out = Json::array();
  std::string unknown;
  for (const SizeFormula& size : formulas.sizes)
    if (!size.value && !size.formula && !size.shard && !size.mask) unknown += (unknown.empty() ? "" : ", ") + size.name;
  if (!unknown.empty()) out.push_back(fmt::format("no value was given for {}: the sliders start at 1024", unknown));
  if (e.split) out.push_back(fmt::format("one of {} chips, {} split", e.split->chips, e.split->dim));
  return out;
}

// All machines of a subject's page.
std::vector<Machine> list_machines(const Page& page) {
  std::vector<Machine> out;
  for (const PageSubject& each : page.subjects) out.push_back(each.report.explanation.machine);
  out.insert(out.end(), page.machines.begin(), page.machines.end());
  return out;
}

// Returns for each machine the FLOPs that take as long as each statement, or null if no function takes longer than it
// counts.
Json math_json(const Page& page, const std::vector<Work>& statements, CountTable& counts) {
  if (std::ranges::all_of(statements, [](const Work& work) { return work.calls.empty(); })) return {};
  Json out = Json::object();
  for (const Machine& machine : list_machines(page)) {
    Json loads = Json::array();
    for (const Work& work : statements) loads.push_back(counts.add(compute_math_load(work, machine)));
    out[machine.name] = std::move(loads);
  }
  return out;
}

bool reaches_all(const Work& work, const Network& network) {
  return std::all_of(work.transfers.begin(), work.transfers.end(),
                     [&](const Transfer& transfer) { return check_reach(transfer, network).ok(); });
}

// Returns the links of each machine that has some and joins enough chips, or null if the program sends nothing.
Json links_json(const Page& page, const PageSubject& subject, CountTable& counts) {
  const Explanation& e = subject.report.explanation;
  const auto sends = [](const Work& work) { return !work.transfers.empty(); };
  const std::vector<Work>& statements = subject.formulas->statements;
  if (!e.split && std::none_of(statements.begin(), statements.end(), sends)) return {};
  Json out = Json::object();
  for (const Machine& machine : list_machines(page)) {
    auto network = make_network(machine);
    if (!network || out.contains(machine.name)) continue;
    if (e.network) network->mesh = e.network->mesh;
    if (!std::all_of(statements.begin(), statements.end(), [&](const Work& w) { return reaches_all(w, *network); }))
      continue;
    out[machine.name] = link_json(*subject.formulas, *std::move(network), counts);
  }
  return out;
}

// Longer texts are truncated, because the page shows them on one line.
constexpr std::size_t max_title_columns = 160, max_text_columns = 300;

Json subject_json(const Page& page, const PageSubject& subject) {
  const Report& report = subject.report;
  const Explanation& e = report.explanation;
  const Formulas& formulas = *subject.formulas;
  const FlatSizes sizes = flatten_sizes(formulas);
  CountTable counts(sizes);
  Json out{{"title", truncate_text(report.title, max_title_columns)},
           {"same", e.program_text == page.subjects.front().report.explanation.program_text},
           {"machine", machine_json(e.machine)},
           {"order", e.dim_names},
           {"asked", report.threshold_dims},
           {"roofs", report.show_cache_roofs},
           {"values", values_json(sizes, formulas, e.dim_names)},
           {"statements", Json::array()},
           {"kernels", Json::array()},
           {"live", live_changes_json(formulas, counts)},
           {"notes", notes_json(formulas, e)}};
  for (const Work& work : formulas.statements) out["statements"].push_back(statement_json(work, counts));
  for (std::size_t i = 0; i < formulas.kernels.size(); ++i) {
    const KernelFormula& kernel = formulas.kernels[i];
    out["kernels"].push_back(row_json(formulas, kernel.statements, Json::array({counts.add(kernel.bytes)})));
    out["kernels"].back()["name"] = e.ops[i].work.name;
    out["kernels"].back()["called"] = op_name(report, i);
    out["kernels"].back()["text"] = truncate_text(e.ops[i].work.text, max_text_columns);
  }
  out["total"] = total_json(formulas, counts);
  if (formulas.fused)
    out["fused"] = row_json(formulas, formulas.fused->statements, Json::array({counts.add(formulas.fused->bytes)}));
  if (Json math = math_json(page, formulas.statements, counts); !math.is_null()) out["math"] = std::move(math);
  if (Json links = links_json(page, subject, counts); !links.is_null()) out["links"] = std::move(links);
  out["counts"] = counts.json();
  if (report.measured) out["run"] = run_json(report, formulas);
  return out;
}

}  // namespace

std::string page_data(const Page& page) {
  Json out{{"schema", "ridge.page/2"}, {"subjects", Json::array()}, {"machines", Json::array()}};
  for (const PageSubject& subject : page.subjects)
    if (subject.formulas) out["subjects"].push_back(subject_json(page, subject));
  for (const Machine& machine : page.machines) out["machines"].push_back(machine_json(machine));
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ridge
