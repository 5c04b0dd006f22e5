#include "ridge/report/chain.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"

namespace ridge {

Cells chain_table(const std::vector<PointwiseChain>& chains) {
  Cells cells{{"", "fused", "one kernel per application"}};
  for (const PointwiseChain& c : chains) {
    cells.push_back({c.text, "", ""});
    std::string costs;
    for (const ChainFunction& f : c.functions)
      costs += fmt::format("{}{} x {} at {} ({})", costs.empty() ? "" : ", ", f.applications, f.name, f.cost, f.source);
    cells.push_back({"  kernels", "1", std::to_string(c.kernels)});
    cells.push_back({"  bytes per element", format_significant(c.fused_bytes), format_significant(c.unfused_bytes)});
    cells.push_back({"  FLOPs per element", format_significant(c.flops), costs});
    cells.push_back({"  break-even FLOPs per element", format_significant(c.break_even_flops),
                     c.compute_bound ? "=> compute-bound" : "=> memory-bound"});
    if (c.break_even_repeats)
      cells.push_back({"  compute-bound from repeats", std::to_string(*c.break_even_repeats), ""});
    if (c.launch_s > 0)
      cells.push_back({fmt::format("  launch ({}) dominates below elements", format_with_prefix(c.launch_s, "s")),
                       format_significant(c.fused_elements), format_significant(c.unfused_elements)});
  }
  return cells;
}

std::string render_chains_json(const std::vector<PointwiseChain>& chains) {
  Json out{{"schema", "ridge.chains/1"}, {"chains", Json::array()}};
  for (const PointwiseChain& c : chains) {
    Json one{{"name", c.name},
             {"text", c.text},
             {"flops_per_element", c.flops},
             {"kernels_unfused", c.kernels},
             {"bytes_per_element_fused", c.fused_bytes},
             {"bytes_per_element_unfused", c.unfused_bytes},
             {"break_even_flops_per_element", c.break_even_flops},
             {"compute_bound", c.compute_bound}};
    one["break_even_repeats"] = or_null(c.break_even_repeats);
    one["launch_s"] = c.launch_s;
    one["launch_dominates_below_elements_fused"] = c.fused_elements;
    one["launch_dominates_below_elements_unfused"] = c.unfused_elements;
    one["functions"] = Json::array();
    for (const ChainFunction& f : c.functions)
      one["functions"].push_back(
          {{"name", f.name}, {"applications", f.applications}, {"flops_each", f.cost}, {"source", f.source}});
    out["chains"].push_back(std::move(one));
  }
  return out.dump(2) + "\n";
}

}  // namespace ridge
