// What the page's scripts read: programs as formulas, machines as numbers, runs as medians. Polynomials are lists of
// terms [numerator, denominator, size, …], with sizes by their place in `sizes` (formulas.js).
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/report/page/page.h"
#include "ridge/report/words.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;
using Places = std::map<std::string, std::size_t>;

// A script's numbers hold 53 bits; beyond that digits are quoted.
Json whole(std::int64_t value) {
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  return value <= exact && value >= -exact ? Json(value) : Json(std::to_string(value));
}

Json terms(const Polynomial& polynomial, const Places& places) {
  Json out = Json::array();
  for (const auto& [monomial, coefficient] : polynomial.terms()) {
    Json term = Json::array({whole(coefficient.num()), whole(coefficient.den())});
    for (const auto& [symbol, power] : monomial)
      for (int i = 0; i < power; ++i) term.push_back(places.at(symbol));
    out.push_back(std::move(term));
  }
  return out;
}

Json size_json(const SizeFormula& size, const Places& places, const std::vector<std::string>& order) {
  Json out{{"name", size.name}};
  if (size.value) out["value"] = whole(*size.value);
  if (size.follows) {
    out["follows"] = terms(*size.follows, places);
    out["formula"] = size.follows->text(order);
  }
  if (size.part) out["part"] = {places.at(size.part->dim), size.part->parts};
  if (!size.mask) return out;
  out["mask"] = {{"rows", places.at(size.mask->rows)}, {"columns", places.at(size.mask->columns)}};
  if (size.mask->lower) out["mask"]["lower"] = terms(*size.mask->lower, places);
  if (size.mask->upper) out["mask"]["upper"] = terms(*size.mask->upper, places);
  return out;
}

const char* kind(Collective collective) {
  switch (collective) {
    case Collective::reduce_scatter: return "reduce_scatter";
    case Collective::all_reduce: return "all_reduce";
    case Collective::all_to_all: return "all_to_all";
    case Collective::permute: return "permute";
    case Collective::all_gather: break;
  }
  return "all_gather";
}

Json statement_json(const Work& work, const Places& places) {
  Json out{{"name", work.name},
           {"product", work.contraction},
           {"dtype", name(work.math)},
           {"flops", terms(work.flops, places)}};
  for (const Transfer& t : work.transfers)
    out["transfers"].push_back(
        {kind(t.kind), static_cast<std::int64_t>(t.over.size()), t.devices, terms(t.bytes, places)});
  return out;
}

Json kernel_json(const KernelFormula& kernel, const Places& places) {
  return {{"statements", kernel.statements}, {"bytes", terms(kernel.bytes, places)}};
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
  const auto value = [](const std::optional<Sourced>& n) { return n ? Json(n->value) : Json(); };
  for (const Peak& peak : machine.peaks) out["peaks"].push_back({name(peak.unit), name(peak.dtype), peak.rate.value});
  for (const MemoryLevel& level : machine.memory)
    out["memory"].push_back({level.name, value(level.bandwidth), value(level.capacity)});
  if (const auto launch = machine.numbers.find("launch_s"); launch != machine.numbers.end())
    out["launch"] = launch->second.value;
  if (machine.links.empty()) return out;
  const Link& link = machine.links.front();
  const bool counted = link.topology && link.count;
  out["link"] = {{"name", link.name},
                 {"rate", link.bandwidth.value},
                 {"count", counted ? std::max<std::int64_t>(1, std::llround(link.count->value)) : 1},
                 {"latency", link.latency ? link.latency->value : 0}};
  if (link.topology) out["link"]["topology"] = name(*link.topology);
  return out;
}

// Longer texts are cut: a page shows them in one line.
constexpr std::size_t most_title = 160, most_text = 300;

Json subject_json(const PageSubject& subject, bool same) {
  const Report& report = subject.report;
  const Explanation& e = report.explanation;
  const Formulas& formulas = *subject.formulas;
  Places places;
  for (std::size_t i = 0; i < formulas.sizes.size(); ++i) places[formulas.sizes[i].name] = i;
  Json out{{"title", shortened(report.title, most_title)},
           {"same", same},
           {"machine", machine_json(e.machine)},
           {"order", e.dim_names},
           {"asked", report.asked},
           {"sizes", Json::array()},
           {"roofs", report.roofs},
           {"statements", Json::array()},
           {"kernels", Json::array()},
           {"tensors", Json::array()}};
  for (const SizeFormula& size : formulas.sizes) out["sizes"].push_back(size_json(size, places, e.dim_names));
  for (const Work& work : formulas.statements) out["statements"].push_back(statement_json(work, places));
  for (std::size_t i = 0; i < formulas.kernels.size(); ++i) {
    out["kernels"].push_back(kernel_json(formulas.kernels[i], places));
    out["kernels"].back()["name"] = e.ops[i].work.name;
    out["kernels"].back()["called"] = op_name(report, i);
    out["kernels"].back()["text"] = shortened(e.ops[i].work.text, most_text);
  }
  if (formulas.fused) out["fused"] = kernel_json(*formulas.fused, places);
  for (const TensorFormula& t : formulas.tensors)
    out["tensors"].push_back({t.name, terms(t.bytes, places), t.begin, t.end});
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
