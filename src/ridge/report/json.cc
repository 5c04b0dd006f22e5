// The versioned JSON "ridge.report/2". Key names include units, and unknown values are null. An infinite error (a NaN
// in the result) is written as the largest double, 1.7976931348623157e308, because JSON has no infinity.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>

#include "ridge/base/version.h"
#include "ridge/report/distributed/communication.h"
#include "ridge/report/json_values.h"
#include "ridge/report/parts/assumptions.h"
#include "ridge/report/parts/used_peaks.h"
#include "ridge/report/plan.h"
#include "ridge/report/report.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

Json source_json(const SourcedValue& number) {
  Json out{{"source", number.source}, {"read_on", number.read_on}, {"origin", origin_name(number.origin)}};
  if (!number.note.empty()) out["note"] = number.note;
  return out;
}

Json rate_json(const char* key, const SourcedValue& number) {
  Json out{{key, number.value}};
  out.update(source_json(number));
  return out;
}

Json peak_json(const Peak& peak) {
  Json out{{"unit", unit_name(peak.unit)}, {"dtype", dtype_name(peak.dtype)}};
  out.update(rate_json("flops_per_s", peak.rate));
  if (peak.one_core) out["one_core_flops_per_s"] = peak.one_core->value;
  if (peak.sustained) out["sustained"] = rate_json("flops_per_s", *peak.sustained);
  return out;
}

Json memory_json(const MemoryLevel& level) {
  Json out{{"name", level.name}};
  out["bytes_per_s"] = level.bandwidth ? Json(level.bandwidth->value) : Json(nullptr);
  if (level.bandwidth) out.update(source_json(*level.bandwidth));
  if (level.capacity) out["capacity_bytes"] = level.capacity->value;
  if (level.one_core_bandwidth) out["one_core_bytes_per_s"] = level.one_core_bandwidth->value;
  if (level.sustained) out["sustained"] = rate_json("bytes_per_s", *level.sustained);
  return out;
}

Json link_json(const Link& link) {
  Json out{{"name", link.name}};
  out.update(rate_json("bytes_per_s_one_way", link.bandwidth));
  if (link.count) out["count"] = link.count->value;
  if (link.latency) out["latency_s"] = link.latency->value;
  if (link.topology) out["topology"] = topology_name(*link.topology);
  if (link.sustained) out["sustained"] = rate_json("bytes_per_s_one_way", *link.sustained);
  return out;
}

Json threshold_json(const Threshold& t) {
  Json out{{"dim", t.dim}, {"relation", name(t.relation)}};
  out["exact"] = or_null(t.exact);
  out["value"] = or_null(t.value);
  out["value_real"] = or_null(t.value_real);
  out["approx"] = or_null(t.approx);
  out["assuming"] = or_null(t.assuming);
  out["condition"] = or_null(t.condition);
  out["ratio"] = t.ratio;
  out["roofs"] = {name(t.roofs[0]), name(t.roofs[1])};
  if (t.numerical) out["numerical"] = true;
  if (!t.unit.empty()) out["unit"] = t.unit;
  return out;
}

Json prediction_json(const Prediction& p, const std::vector<std::string>& order) {
  Json out{{"name", p.work.name}, {"text", p.work.text}};
  out["flops"] = or_null(p.flops);
  out["bytes"] = or_null(p.bytes);
  out["intensity"] = or_null(p.intensity);
  out["ridge"] = or_null(p.ridge);
  out["limiter"] = p.limiter ? Json(name(*p.limiter)) : Json(nullptr);
  out["runner_up"] = p.runner_up ? Json(name(*p.runner_up)) : Json(nullptr);
  if (!p.work.bytes_sent.is_zero()) {
    out["bytes_sent_formula"] = p.work.bytes_sent.to_string(order);
    out["link_bytes_per_s"] = or_null(p.link_rate);
    out["time_network_s"] = or_null(p.time_network_s);
    out["bytes_sent"] = or_null(p.bytes_sent);
  }
  if (p.launch_s > 0) out["launch_s"] = p.launch_s;
  if (p.calls != 1) out["calls"] = p.calls;
  out["time_lower_s"] = or_null(p.time_lower_s);
  out["time_upper_s"] = or_null(p.time_upper_s);
  out["formulas"] = {{"flops", p.work.flops.to_string(order)},
                     {"bytes", p.work.bytes().to_string(order)},
                     {"intensity", p.intensity_formula}};
  out["thresholds"] = Json::array();
  for (const Threshold& t : p.thresholds) out["thresholds"].push_back(threshold_json(t));
  if (!p.work.collective.empty()) out["collective"] = p.work.collective;
  if (!p.missing.empty()) out["missing"] = p.missing;
  return out;
}

Json network_json(const Network& network) {
  Json out{{"link", network.link}, {"links_used", network.links_used}, {"bytes_per_s_one_way", network.rate}};
  out["topology"] = network.topology ? Json(topology_name(*network.topology)) : Json(nullptr);
  out["latency_s"] = positive_or_null(network.latency_s);
  return out;
}

Json mask_json(const MaskCount& mask, const std::vector<std::string>& order) {
  Json out{{"condition", format_mask(mask.mask)},
           {"pairs", mask.unmasked.to_string(order)},
           {"of", mask.all.to_string(order)}};
  out["pairs_value"] = or_null(mask.unmasked_count);
  out["of_value"] = or_null(mask.all_count);
  if (mask.on_all_devices) out["all_chips_value"] = *mask.on_all_devices;
  return out;
}

// Returns the largest size of each dimension that fits.
Json fits_json(const MemoryUse& memory) {
  Json out = Json::array();
  for (const Threshold& t : memory.capacity_thresholds) {
    Json one{{"dim", t.dim}, {"relation", name(t.relation)}, {"value", or_null(t.value)}};
    one["exact"] = or_null(t.exact);
    out.push_back(std::move(one));
  }
  return out;
}

Json memory_use_json(const MemoryUse& memory, const std::vector<std::string>& order) {
  Json out{{"footprint_bytes", or_null(memory.peak_bytes)},
           {"capacity_bytes", or_null(memory.capacity)},
           {"chips", or_null(memory.min_chips)}};
  out["at"] = or_null(memory.peak_statement);
  out["formula"] = memory.peak.to_string(order);
  out["parameters"] = or_null(memory.parameter_count);
  out["parameter_bytes"] = or_null(memory.parameter_bytes);
  out["devices"] = memory.devices;
  out["tensors"] = Json::array();
  for (const TensorMemory& t : memory.tensors)
    out["tensors"].push_back({{"name", t.name},
                              {"dtype", dtype_name(t.dtype)},
                              {"parameter", t.role == TensorRole::input && t.use == InputUse::parameter},
                              {"use", t.role == TensorRole::input ? Json(input_use_word(t.use)) : Json(nullptr)},
                              {"bytes", or_null(t.device_bytes)},
                              {"bytes_all_devices", or_null(t.all_bytes)},
                              {"copies", or_null(t.copies)},
                              {"formula", t.bytes_formula.to_string(order)}});
  out["fits"] = fits_json(memory);
  if (!memory.replaced_peak_bytes) return out;
  Json pairs = Json::array();
  for (const MemoryUse::Replacement& each : memory.possible_replacements)
    pairs.push_back({{"result", each.result}, {"input", each.input}});
  out["in_place"] = {{"footprint_bytes", *memory.replaced_peak_bytes}, {"replacements", std::move(pairs)}};
  return out;
}

Json layers_json(const LayeredModel& layers) {
  Json out{{"count", layers.count},
           {"time_lower_s", or_null(layers.time_lower_s)},
           {"time_upper_s", or_null(layers.time_upper_s)}};
  if (layers.predicted_s) out["predicted_s"] = interval_json(*layers.predicted_s);
  out["footprint_bytes"] = layers.memory ? or_null(layers.memory->peak_bytes) : Json(nullptr);
  out["chips"] = layers.memory ? or_null(layers.memory->min_chips) : Json(nullptr);
  if (layers.memory) out["fits"] = fits_json(*layers.memory);
  return out;
}

Json tuned_json(const TuningResult& t) {
  const bool known = t.candidates > 0;
  Json out{{"kernel", t.kernel}, {"split", t.splits}, {"is_model", t.is_model}};
  out["tuned_s"] = known ? Json(t.seconds) : Json(nullptr);
  out["model_s"] = known ? Json(t.model_seconds) : Json(nullptr);
  out["candidates"] = t.candidates;
  out["measured_now"] = t.measured_now;
  if (!t.remark.empty()) out["remark"] = t.remark;
  return out;
}

void add_measurement(Json& out, const OpMeasurement& m) {
  out["measured_s"] = {{"median", m.time.median},
                       {"min", m.time.min},
                       {"max", m.time.max},
                       {"runs", m.time.runs},
                       {"outliers", m.time.outliers}};
  out["fraction_of_roof"] = or_null(m.fraction_of_roof);
  out["expected_s"] = or_null(m.predicted_s);
  if (!m.cache.empty()) out["in_cache"] = m.cache;
  out["max_rel_error"] = std::isfinite(m.max_rel_error) ? m.max_rel_error : std::numeric_limits<double>::max();
  out["checked"] = m.checked;
  out["elements"] = m.elements;
  out["out_of_range"] = m.out_of_range;
  out["lost_digits"] = m.lost_digits;
  if (!m.warnings.empty()) out["warnings"] = m.warnings;
  out["share_of_time"] = m.share;
  if (!m.copies.empty()) out["copies"] = m.copies;
  if (!m.note.empty()) out["note"] = m.note;
  if (const auto& r = m.measured_bound)
    out["regime"] = {{"dim", r->dim},         {"half_s", r->half_s},
                     {"once_s", r->actual_s}, {"double_s", r->double_s},
                     {"fixed_s", r->fixed_s}, {"name", r->limiter ? Json(name(*r->limiter)) : Json(nullptr)}};
  for (const TuningResult& t : m.tuned) out["tuned"].push_back(tuned_json(t));
}

// Adds the names of the statements of a fused operation.
void add_statement_names(Json& out, const std::vector<std::vector<std::string>>& names, std::size_t op) {
  if (op < names.size() && names[op].size() > 1) out["statements"] = names[op];
}

Json step_json(const SuggestedStep& each) {
  Json out{{"what", each.step.description}};
  out["gain_s"] = or_null(each.step.gain_s);
  out["time_s"] = or_null(each.step.time_s);
  out["command"] = each.command;
  return out;
}

// Returns the summary: limiter, largest operations, next steps.
Json summary_json(const Report& report) {
  constexpr std::size_t max_largest = 5;
  const Explanation& e = report.explanation;
  Json out = Json::object();
  out["limiter"] = e.total.limiter ? Json(name(*e.total.limiter)) : Json(nullptr);
  out["time_lower_s"] = or_null(e.total.time_lower_s);
  out["time_upper_s"] = or_null(e.total.time_upper_s);
  out["largest"] = Json::array();
  for (const std::size_t i : ops_by_time(e))
    if (const auto share = time_fraction(e, e.ops[i]); share && out["largest"].size() < max_largest)
      out["largest"].push_back({{"name", e.ops[i].work.name}, {"share", *share}});
  out["next"] = Json::array();
  for (const SuggestedStep& each : report.next_steps) out["next"].push_back(step_json(each));
  return out;
}

void add_device(Json& out, const Measurement& m) {
  out["clocks"]["most_hz"] = or_null(m.clocks.max_hz);
  out["clocks"]["power_w"] = or_null(m.clocks.power_w);
  out["clocks"]["slowed_by"] = m.clocks.throttle_reasons;
  const DeviceMeasurement& d = *m.device;
  out["device"] = {{"name", d.name}, {"driver", d.driver}, {"eager_s", d.eager_s}};
  out["transfer"] = {{"host_to_device_bytes_per_s", d.host_to_device_bytes_per_s},
                     {"device_to_host_bytes_per_s", d.device_to_host_bytes_per_s},
                     {"input_bytes", d.input_bytes},
                     {"input_s", static_cast<double>(d.input_bytes) / d.host_to_device_bytes_per_s},
                     {"output_bytes", d.output_bytes},
                     {"output_s", static_cast<double>(d.output_bytes) / d.device_to_host_bytes_per_s}};
}

void add_ranks(Json& out, const RanksMeasurement& notes) {
  out["ranks"] = Json::array();
  for (const RankTimes& r : notes.ranks)
    out["ranks"].push_back({{"rank", r.rank},
                            {"words", r.words_sent},
                            {"compute_s", r.compute_s},
                            {"network_s", r.network_s},
                            {"wait_s", r.wait_s}});
  Json& network = out["network"];  // may hold the link's numbers already
  network["carrier"] = notes.transport;
  network["words"] = notes.words_sent;
  network["words_bound"] = notes.min_words;
  network["predicted_s"] = or_null(notes.predicted_s);
  network["measured_s"] = notes.measured_s;
  if (!notes.device.empty()) {
    network["device"] = notes.device;
    network["in_chunks"] = notes.overlap_notes;
    network["computing_predicted_s"] = or_null(notes.predicted_compute_s);  // prediction of ranks[0].compute_s
  }
  if (!notes.product_grid.empty()) network["grid"] = notes.product_grid;
  if (!notes.sharding_note.empty()) out["written"] = notes.sharding_note;
}

Json machine_json(const Machine& machine, const std::vector<const Peak*>& peaks) {
  Json out{
      {"name", machine.name}, {"title", machine.title}, {"origin", origin_name(least_certain_origin(machine, peaks))}};
  out["peaks"] = Json::array();
  for (const Peak* peak : peaks) out["peaks"].push_back(peak_json(*peak));
  out["memory"] = Json::array();
  for (const MemoryLevel& level : machine.memory) out["memory"].push_back(memory_json(level));
  return out;
}

// Returns the cost of each function that takes longer than the FLOPs that it counts as, by name.
Json function_costs_json(const Explanation& e) {
  Json out = Json::object();
  for (const auto& [function, cost] : used_function_costs(e))
    out[std::string(function_info(function).name)] = rate_json("flops", cost);
  return out;
}

Json dims_json(const Explanation& e) {
  Json out = Json::object();
  for (const std::string& dim : e.dim_names) {
    const auto value = e.dims.find(dim);
    out[dim] = value == e.dims.end() ? Json(nullptr) : Json(value->second);
  }
  return out;
}

Json provenance_json(const Report& report) {
  Json out{{"ridge", version()}, {"commit", commit()}};
  out["day"] = or_null(report.day);
  if (report.measured) {
    out["seed"] = report.measured->seed;
    out["threads"] = report.measured->threads;
    out["isa"] = report.measured->isa;
    out["memory_bytes"] = report.measured->memory_bytes;
  }
  return out;
}

// Invalid UTF-8 (in a path or a comment) becomes U+FFFD, because the writer would throw otherwise.
std::string dump_json(const Json& json, bool one_line) {
  return json.dump(one_line ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_plain_character(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}

// A program may be 64 MB long and is mostly plain characters and line ends. Those are copied in runs; only the other
// characters go through the JSON writer.
void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const bool is_plain = is_plain_character(text[at]);
    std::size_t end = at + 1;
    while (end < text.size() && text[end] != '\n' && is_plain_character(text[end]) == is_plain) ++end;
    if (is_plain)
      out.append(text.substr(at, end - at));
    else if (text[at] == '\n') {
      out += "\\n";
      end = at + 1;
    } else {
      const std::string encoded = Json(text.substr(at, end - at)).dump(-1, ' ', false, Json::error_handler_t::replace);
      out.append(encoded, 1, encoded.size() - 2);
    }
    at = end;
  }
  out += '"';
}

// Returns the document with the program's text as the value of "program", which is "" so far.
std::string insert_program(const std::string& json, std::string_view text) {
  const std::size_t at = json.find("\"\"", json.find("\"program\":"));
  std::string out;
  out.reserve(json.size() + text.size() + text.size() / 16);
  append_quoted(out.append(json, 0, at), text);
  return out.append(json, at + 2);
}

Json full_machine_json(const Machine& machine) {
  std::vector<const Peak*> all;
  for (const Peak& peak : machine.peaks) all.push_back(&peak);
  Json out = machine_json(machine, all);
  out["links"] = Json::array();
  for (const Link& link : machine.links) out["links"].push_back(link_json(link));
  out["numbers"] = Json::object();
  for (const auto& [key, number] : machine.numbers) out["numbers"][key] = rate_json("value", number);
  return out;
}

// Adds what was measured of the whole program.
void add_total_measurement(Json& out, const Measurement& m) {
  add_measurement(out["total"], m.total);
  out["overhead_s"] = m.overhead_s;
  out["clocks"] = {{"base_hz", or_null(m.clocks.base_hz)},
                   {"before_hz", or_null(m.clocks.before_hz)},
                   {"after_hz", or_null(m.clocks.after_hz)}};
  if (m.device) add_device(out, m);
  if (m.ranks) add_ranks(out, *m.ranks);
}

}  // namespace

std::string render_json(const Report& report, bool one_line) {
  const Explanation& e = report.explanation;
  Json out{{"schema", "ridge.report/2"}, {"verb", report.verb}, {"program", ""}};
  out["machine"] = machine_json(e.machine, used_peaks(e));
  if (Json costs = function_costs_json(e); !costs.empty()) out["function_costs"] = std::move(costs);
  out["dims"] = dims_json(e);
  if (!report.measured) out["summary"] = summary_json(report);
  if (!report.warnings.empty()) out["warnings"] = report.warnings;
  if (!report.weights_dtype.empty()) out["weights"] = report.weights_dtype;
  if (!report.narrow_dtype.empty()) out["narrow"] = report.narrow_dtype;
  if (report.layers) out["layers"] = layers_json(*report.layers);
  if (e.split) out["split"] = {{"dim", format_dims(*e.split)}, {"chips", e.split->chips}};
  for (const std::string& axis : e.mesh_names) out["mesh"][axis] = e.dims.at(axis);
  out["ops"] = Json::array();
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    out["ops"].push_back(prediction_json(e.ops[i], e.dim_names));
    if (report.measured) add_measurement(out["ops"].back(), report.measured->ops[i]);
    add_statement_names(out["ops"].back(), report.measured ? report.measured->result_names : report.statement_names, i);
  }
  if (e.thresholds_skipped) out["thresholds_left_out"] = true;
  for (const Threshold& t : e.product_thresholds) out["products"].push_back(threshold_json(t));
  if (e.network) out["network"] = network_json(*e.network);
  if (!e.small_messages.empty()) out["small_messages"] = small_messages_json(e.small_messages);
  if (!e.overlaps.empty()) out["overlaps"] = overlaps_json(e.overlaps);
  for (const MaskCount& mask : e.masks)
    if (mask.unmasked != mask.all && !mask.is_irregular) out["masks"].push_back(mask_json(mask, e.dim_names));
  if (!e.not_counted.empty()) out["not_counted"] = e.not_counted;
  if (e.memory) out["memory"] = memory_use_json(*e.memory, e.dim_names);
  out["total"] = prediction_json(e.total, e.dim_names);
  if (e.fused) out["fused"] = prediction_json(*e.fused, e.dim_names);
  if (report.measured) add_total_measurement(out, *report.measured);
  if (report.planned) add_plans(out, report);
  for (std::size_t i = 0; i < report.measured_overheads.size(); ++i)
    out["ops"][i]["lost"] =
        overheads_json(report.measured_overheads[i].roofline_s, report.measured_overheads[i].overheads);
  out["provenance"] = provenance_json(report);
  return insert_program(dump_json(out, one_line), e.program_text);
}

std::string render_json(const ClaimCheck& check) {
  Json out{{"schema", "ridge.check/1"}, {"claim", check.claim}, {"right", check.right}, {"truth", check.truth}};
  out["verdict"] = claim_result(check);
  if (!check.operation.empty()) out["of"] = check.operation;
  out["depends_on"] = check.deciding_dims;
  out["slip"] = or_null(check.mistake);
  return dump_json(out, false);
}

std::string render_machine_json(const Machine& machine) {
  Json out{{"schema", "ridge.machine/1"}};
  out.update(full_machine_json(machine));
  return dump_json(out, false);
}

std::string render_catalog_json(const std::vector<Machine>& machines) {
  Json out{{"schema", "ridge.machines/1"}, {"machines", Json::array()}};
  for (const Machine& machine : machines) out["machines"].push_back(full_machine_json(machine));
  return dump_json(out, false);
}

}  // namespace ridge
