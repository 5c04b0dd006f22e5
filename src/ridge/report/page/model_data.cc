// Input of the scripts of a model's page: formulas of each phase and pair of formats, sizes of each number of chips,
// and machines with their costs of functions and collectives. A count is an index into `counts` (page_json.h).
#include <algorithm>
#include <set>

#include "ridge/machine/function_costs.h"
#include "ridge/report/page/model_page.h"
#include "ridge/report/page/page_json.h"
#include "ridge/roofline/network.h"

namespace ridge {
namespace {

Polynomial multiply_extents(const std::vector<Axis>& axes) {
  Polynomial out = 1;
  for (const Axis& axis : axes) out = out * axis.extent();
  return out;
}

// Returns a value that the page computes from preceding ones: `count` between `low` and `high`, the expected
// thousandths of experts that `rows` tokens choose, or the pairs of attention in chunks.
Json model_value_json(const FlatValue& value, CountTable& counts) {
  if (value.mask && value.mask->mask.routing) {
    const IndexMask& mask = value.mask->mask;
    const Routing& routing = *mask.routing;
    const Polynomial rows = multiply_extents(routing.indices);
    if (mask.routing_count == RoutingCount::kept) return {{"count", counts.add(rows)}};
    const std::vector<Axis> tokens(routing.indices.begin(), routing.indices.end() - 1);
    return {{"tokens", counts.add(multiply_extents(tokens))},
            {"each", counts.add(routing.indices.back().extent())},
            {"experts", counts.add(routing.experts.extent())}};
  }
  if (value.mask && value.mask->mask.gathered) {
    const TableRows& gathered = *value.mask->mask.gathered;
    Polynomial indices;
    for (const std::vector<Axis>& axes : gathered.indices) indices += multiply_extents(axes);
    return {{"count", counts.add(indices)}, {"high", counts.add(gathered.rows.extent())}};
  }
  // The only regions that these programs have are pairs of tokens of which the second sees the first in its chunk, and
  // the tokens that another one sees, which are all.
  if (value.mask) {
    const std::vector<std::string>& dims = value.mask->mask.region->dims;
    const Json::size_type tokens = counts.add(Polynomial::make_symbol(dims.size() == 1 ? dims.front() : "S"));
    return {{dims.size() == 1 ? "count" : "chunked", tokens}};
  }
  Json out{{"count", counts.add(value.count)}};
  if (value.low) out["low"] = counts.add(*value.low);
  if (value.high) out["high"] = counts.add(*value.high);
  return out;
}

Json unit_json(const UnitFormula& unit, CountTable& counts) {
  Json out{{"peaks", Json::array()},
           {"required", unit.contraction && unit.math != DType::f32},
           {"flops", counts.add(unit.flops)},
           {"calls", Json::object()}};
  if (unit.contraction) out["peaks"].push_back(rate_name(ComputeUnit::matrix, unit.math));
  out["peaks"].push_back(rate_name(ComputeUnit::vector, unit.math));
  for (const FunctionCalls& calls : unit.calls)
    out["calls"][std::string(function_info(calls.function).name)] = counts.add(calls.count);
  return out;
}

Json part_json(const PartFormula& part, CountTable& counts, std::set<Function>& functions) {
  counts.set_sizes(part.sizes);
  Json out{{"name", part.name},
           {"layers", part.layers},
           {"slides", part.slides},
           {"values", Json::array()},
           {"modules", Json::array()},
           {"parameters", counts.add(part.parameters)},
           {"cache", counts.add(part.cache)},
           {"activations", Json::array()}};
  for (const FlatValue& value : part.sizes.computed()) out["values"].push_back(model_value_json(value, counts));
  for (const Polynomial& activations : part.activations) out["activations"].push_back(counts.add(activations));
  for (const ModuleFormula& module : part.modules) {
    Json one{{"name", module.name},
             {"units", Json::array()},
             {"bytes", counts.add(module.bytes)},
             {"parameters", counts.add(module.parameter_bytes)},
             {"cache", counts.add(module.cache_bytes)}};
    for (const UnitFormula& unit : module.units) {
      one["units"].push_back(unit_json(unit, counts));
      for (const FunctionCalls& calls : unit.calls) functions.insert(calls.function);
    }
    out["modules"].push_back(std::move(one));
  }
  return out;
}

Json collectives_json(const std::vector<CollectiveFormula>& collectives, CountTable& counts) {
  Json out = Json::array();
  for (const CollectiveFormula& each : collectives)
    out.push_back(
        {{"part", each.part}, {"bytes", counts.add(each.transfer.bytes)}, {"kind", name(each.transfer.kind)}});
  return out;
}

Json chips_json(const ModelFormulas& formulas, const ChipFormulas& chips, CountTable& counts) {
  Json out{{"chips", chips.chips},
           {"sizes", Json::array()},
           {"notes", {{"prefill", chips.prefill_notes}, {"decode", chips.decode_notes}}}};
  for (std::size_t i = step_size_names.size(); i < formulas.free_sizes.size(); ++i)
    out["sizes"].push_back(chips.sizes.at(formulas.free_sizes[i]));
  out["prefill"] = collectives_json(chips.prefill_collectives, counts);
  out["decode"] = collectives_json(chips.decode_collectives, counts);
  return out;
}

// Returns the costs of collectives by number of chips and kind. Numbers of chips that the links do not join are left
// out.
Json network_json(const Machine& machine, const ModelFormulas& formulas) {
  Json out = Json::object();
  auto network = make_network(machine);
  if (!network) return out;
  for (const ChipFormulas& chips : formulas.chips) {
    network->mesh = {{'C', chips.chips}};
    Json costs = Json::object();
    for (const CollectiveFormula& each : chips.decode_collectives) {
      if (!check_reach(each.transfer, *network)) break;
      const TransferCost cost = estimate_cost(each.transfer, *network);
      Json protocols = Json::array();
      for (const LinearTime& protocol : cost.protocols) protocols.push_back(line_json(protocol));
      costs[std::string(name(each.transfer.kind))] = {line_json(cost.links), std::move(protocols)};
    }
    if (!costs.empty()) out[std::to_string(chips.chips)] = std::move(costs);
  }
  return out;
}

Json model_machine_json(const Machine& machine, const ModelFormulas& formulas, const std::set<Function>& functions) {
  Json out = machine_json(machine);
  out["memory"].erase(out["memory"].begin() + 1, out["memory"].end());
  out["functions"] = Json::object();
  for (const Function function : functions)
    if (const auto cost = static_cast<std::int64_t>(function_cost(machine, function).value); cost > 1)
      out["functions"][std::string(function_info(function).name)] = cost;
  out["network"] = network_json(machine, formulas);
  const auto host_chips = machine.numbers.find("host_chips");
  out["host_chips"] = host_chips == machine.numbers.end() ? Json(nullptr) : Json(host_chips->second.value);
  out["not_on_record"] = {list_times_not_on_record(machine, 1), list_times_not_on_record(machine, 2)};
  return out;
}

Json encoders_json(const std::vector<EncoderFormulas>& encoders, CountTable& counts, std::set<Function>& functions) {
  Json out = Json::array();
  for (const EncoderFormulas& each : encoders) {
    out.push_back({{"weights", dtype_name(each.weight_dtype)},
                   {"cache", dtype_name(each.cache_dtype)},
                   {"parts", Json::array()}});
    for (const PartFormula& part : each.parts) out.back()["parts"].push_back(part_json(part, counts, functions));
  }
  return out;
}

// Returns the images of the request and the formulas of their encoder; null without images.
Json images_json(const ModelPage& page, CountTable& counts, std::set<Function>& functions) {
  const auto has_images = [](const ModelOnMachine& x) { return x.images.has_value(); };
  const auto answer = std::find_if(page.answers.begin(), page.answers.end(), has_images);
  if (answer == page.answers.end()) return nullptr;
  const model::ImageTokens& image = answer->images->image;
  Json out{{"size", image.image_size},
           {"patches", image.patches_per_side * image.patches_per_side},
           {"tokens", image.tokens},
           {"encoders", encoders_json(page.formulas.images, counts, functions)}};
  return out;
}

// Returns the clip of each prompt and the formulas of the encoder; null without an audio encoder.
Json audio_json(const ModelPage& page, CountTable& counts, std::set<Function>& functions) {
  const auto has_audio = [](const ModelOnMachine& x) { return x.audio.has_value(); };
  const auto answer = std::find_if(page.answers.begin(), page.answers.end(), has_audio);
  if (answer == page.answers.end()) return nullptr;
  return {{"frames", answer->audio->frames},
          {"vectors", answer->audio->vectors},
          {"encoders", encoders_json(page.formulas.audio, counts, functions)}};
}

// Returns what the page shows first.
Json asked_json(const ModelPage& page) {
  const auto& request = page.request;
  const auto has_numbers = [](const ModelOnMachine& x) { return x.unavailable.empty(); };
  const auto first = std::find_if(page.answers.begin(), page.answers.end(), has_numbers);
  Json out{{"phase", name(request.phase)},
           {"batch", request.counts.batch},
           {"context", *request.counts.context},
           {"weights", dtype_name(request.counts.weight_dtype)},
           {"cache", dtype_name(request.counts.cache_dtype)},
           {"chips", or_null(request.tensor_parallel)},
           {"machine", first->machine},
           {"images", request.images ? request.images->images : 0},
           {"compared", Json::array()}};
  for (const ModelOnMachine& answer : page.answers) out["compared"].push_back(answer.machine);
  return out;
}

// Returns the constants of served times, and the machines on which they hold; null for all.
Json serving_json(const ModelPage& page) {
  if (!page.request.serving) return nullptr;
  const ServingRequest& serving = *page.request.serving;
  Json out{{"engine", name(serving.engine)},
           {"output_tokens", serving.output_tokens},
           {"source", serving.source},
           {"layers", page.count.layers.size()},
           {"expert_layers", std::count_if(page.count.layers.begin(), page.count.layers.end(),
                                           [](const auto& layer) { return layer.kind.has_experts; })},
           {"machines", nullptr},
           {"constants", Json::object()}};
  if (!serving.constants) out["machines"] = measured_serving_machines;
  for (const NamedNumber<ServingConstants>& each : named_serving_constants())
    out["constants"][std::string(each.name)] = serving.used_constants().*each.member;
  return out;
}

// Returns the predicted times of the requested machines at the requested sizes.
Json planned_json(const ModelPage& page) {
  Json out = Json::object();
  const auto interval_json = [](const Interval& x) {
    return Json{{"low", x.low}, {"expected", x.expected}, {"high", x.high}};
  };
  for (const ModelOnMachine& answer : page.answers) {
    if (!answer.unavailable.empty() || !answer.decode.predicted_s) continue;
    const auto first = answer.first_token_predicted_s();
    out[answer.machine] = {{"chips", answer.layout.tensor},
                           {"token", interval_json(*answer.decode.predicted_s)},
                           {"first", first ? interval_json(*first) : Json(nullptr)}};
  }
  return out;
}

}  // namespace

std::string model_page_data(const ModelPage& page) {
  const ModelFormulas& formulas = page.formulas;
  Json out{{"schema", "ridge.model_page/1"},
           {"name", page.count.name},
           {"asked", asked_json(page)},
           {"serving", serving_json(page)},
           {"planned", planned_json(page)},
           {"learned_positions", formulas.learned_positions},
           {"window", formulas.window},
           {"has_chunks", formulas.has_chunks},
           {"recurrent_chunk", formulas.recurrent_chunk},
           {"has_cache", formulas.has_cache},
           {"min_context", formulas.min_context},
           {"max_context", formulas.max_context},
           {"max_positions", formulas.max_positions},
           {"scale_bytes", formulas.scale_bytes},
           {"encoder_bytes", formulas.encoder_bytes},
           {"steps", Json::array()},
           {"chips", Json::array()},
           {"machines", Json::array()}};
  const FlatSizes sizes(formulas.free_sizes, {});
  CountTable counts(sizes);
  std::set<Function> functions;
  for (const StepFormulas& step : formulas.steps) {
    Json one{{"phase", name(step.phase)},
             {"max_context", step.max_context},
             {"has_rest", step.has_rest},
             {"weights", dtype_name(step.weight_dtype)},
             {"cache", dtype_name(step.cache_dtype)},
             {"parts", Json::array()}};
    for (const PartFormula& part : step.parts) one["parts"].push_back(part_json(part, counts, functions));
    out["steps"].push_back(std::move(one));
  }
  out["images"] = images_json(page, counts, functions);
  out["audio"] = audio_json(page, counts, functions);
  counts.set_sizes(sizes);
  for (const ChipFormulas& chips : formulas.chips) out["chips"].push_back(chips_json(formulas, chips, counts));
  for (const Machine& machine : page.machines)
    out["machines"].push_back(model_machine_json(machine, formulas, functions));
  out["counts"] = counts.json();
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace ridge
