// Input of the page's scripts: programs as formulas, machines as numbers, runs as medians. Polynomials are lists of
// terms [numerator, denominator, size, ...], where sizes are indices into `sizes` (formulas.js).
#include <algorithm>
#include <cmath>
#include <map>

#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"
#include "ridge/report/page/page.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {
using SizeIndices = std::map<std::string, std::size_t>;

// JavaScript numbers hold 53 bits; larger integers become strings.
Json integer_json(std::int64_t value) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  return value <= exact && value >= -exact ? Json(value) : Json(std::to_string(value));
}

Json terms_json(const Polynomial& polynomial, const SizeIndices& size_indices) {
  Json out = Json::array();
  for (const auto& [monomial, coefficient] : polynomial.terms()) {
    Json term = Json::array({integer_json(coefficient.numerator()), integer_json(coefficient.denominator())});
    for (const auto& [symbol, power] : monomial)
      for (int i = 0; i < power; ++i) term.push_back(size_indices.at(symbol));
    out.push_back(std::move(term));
  }
  return out;
}

Json size_json(const SizeFormula& size, const SizeIndices& size_indices, const std::vector<std::string>& order) {
  Json out{{"name", size.name}};
  if (size.value) out["value"] = integer_json(*size.value);
  if (size.formula) {
    out["follows"] = terms_json(*size.formula, size_indices);
    out["formula"] = size.formula->to_string(order);
  }
  if (size.shard) out["part"] = {size_indices.at(size.shard->dim), size.shard->shards};
  if (!size.mask) return out;
  out["mask"] = {{"rows", size_indices.at(size.mask->rows)}, {"columns", size_indices.at(size.mask->columns)}};
  if (size.mask->lower) out["mask"]["lower"] = terms_json(*size.mask->lower, size_indices);
  if (size.mask->upper) out["mask"]["upper"] = terms_json(*size.mask->upper, size_indices);
  return out;
}

const char* collective_name(Collective collective) {
  switch (collective) {
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_reduce: return "all_reduce";
    case Collective::all_to_all: return "all_to_all";
    case Collective::permute: return "permute";
    case Collective::all_gather: break;
  }
  return "all_gather";
}

Json statement_json(const Work& work, const SizeIndices& size_indices) {
  Json out{{"name", work.name},
           {"product", work.contraction},
           {"dtype", dtype_name(work.math)},
           {"flops", terms_json(work.flops, size_indices)}};
  for (const Transfer& t : work.transfers)
    out["transfers"].push_back({collective_name(t.kind), static_cast<std::int64_t>(t.mesh_axes.size()), t.devices,
                                terms_json(t.bytes, size_indices)});
  return out;
}

Json kernel_json(const KernelFormula& kernel, const SizeIndices& size_indices) {
  return {{"statements", kernel.statements}, {"bytes", terms_json(kernel.bytes, size_indices)}};
}

Json measured_json(const Report& report) {
  const Measurement& m = *report.measured;
  Json out{{"day", report.day}, {"ops", Json::array()}};
  const auto one = [](const OpMeasurement& op) {
    return Json{{"median", op.time.median}, {"min", op.time.min}, {"max", op.time.max}, {"runs", op.time.runs}};
  };
  for (const OpMeasurement& op : m.ops) out["ops"].push_back(one(op));
  out["total"] = one(m.total);
  return out;
}

Json machine_json(const Machine& machine) {
  Json out{{"name", machine.name}, {"title", machine.title}, {"peaks", Json::array()}, {"memory", Json::array()}};
  const auto value = [](const std::optional<SourcedValue>& n) { return n ? Json(n->value) : Json(); };
  for (const Peak& peak : machine.peaks)
    out["peaks"].push_back({unit_name(peak.unit), dtype_name(peak.dtype), peak.rate.value});
  for (const MemoryLevel& level : machine.memory)
    out["memory"].push_back({level.name, value(level.bandwidth), value(level.capacity)});
  if (const auto launch = machine.numbers.find("launch_s"); launch != machine.numbers.end())
    out["launch"] = launch->second.value;
  if (machine.links.empty()) return out;
  const Link& link = machine.links.front();
  const bool has_count = link.topology && link.count;
  out["link"] = {{"name", link.name},
                 {"rate", link.bandwidth.value},
                 {"count", has_count ? std::max<std::int64_t>(1, std::llround(link.count->value)) : 1},
                 {"latency", link.latency ? link.latency->value : 0}};
  if (link.topology) out["link"]["topology"] = topology_name(*link.topology);
  return out;
}

// Longer texts are truncated, because the page shows them on one line.
constexpr std::size_t max_title_columns = 160, max_text_columns = 300;

Json subject_json(const PageSubject& subject, bool is_same_program) {
  const Report& report = subject.report;
  const Explanation& e = report.explanation;
  const Formulas& formulas = *subject.formulas;
  SizeIndices size_indices;
  for (std::size_t i = 0; i < formulas.sizes.size(); ++i) size_indices[formulas.sizes[i].name] = i;
  Json out{{"title", truncate_text(report.title, max_title_columns)},
           {"same", is_same_program},
           {"machine", machine_json(e.machine)},
           {"order", e.dim_names},
           {"asked", report.threshold_dims},
           {"sizes", Json::array()},
           {"roofs", report.show_cache_roofs},
           {"statements", Json::array()},
           {"kernels", Json::array()},
           {"tensors", Json::array()}};
  for (const SizeFormula& size : formulas.sizes) out["sizes"].push_back(size_json(size, size_indices, e.dim_names));
  for (const Work& work : formulas.statements) out["statements"].push_back(statement_json(work, size_indices));
  for (std::size_t i = 0; i < formulas.kernels.size(); ++i) {
    out["kernels"].push_back(kernel_json(formulas.kernels[i], size_indices));
    out["kernels"].back()["name"] = e.ops[i].work.name;
    out["kernels"].back()["called"] = op_name(report, i);
    out["kernels"].back()["text"] = truncate_text(e.ops[i].work.text, max_text_columns);
  }
  if (formulas.fused) out["fused"] = kernel_json(*formulas.fused, size_indices);
  for (const TensorFormula& t : formulas.tensors)
    out["tensors"].push_back({t.name, terms_json(t.bytes, size_indices), t.begin, t.end});
  if (e.split) out["split"] = {{"dim", e.split->dim}, {"chips", e.split->chips}};
  if (report.measured) out["measured"] = measured_json(report);
  return out;
}

}  // namespace

std::string page_data(const Page& page) {
  Json out{{"schema", "ridge.page/1"}, {"subjects", Json::array()}, {"machines", Json::array()}};
  const auto text = [](const PageSubject& subject) { return subject.report.explanation.program_text; };
  for (const PageSubject& subject : page.subjects)
    if (subject.formulas)
      out["subjects"].push_back(subject_json(subject, text(subject) == text(page.subjects.front())));
  for (const Machine& machine : page.machines) out["machines"].push_back(machine_json(machine));
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ridge
