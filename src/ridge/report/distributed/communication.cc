#include "ridge/report/distributed/communication.h"

#include "ridge/report/json_values.h"

namespace ridge {
namespace {

Json linear_cost_json(const LinearCost& line) { return {{"steps", line.steps}, {"bytes_per_s", line.rate}}; }

std::string tree_faster_range(const SmallMessages& small) {
  if (small.is_tree_always_faster()) return "always";
  return small.max_tree_bytes > 0 ? "below" : "never";
}

}  // namespace

Json small_messages_json(const std::vector<SmallMessages>& all) {
  Json out = Json::array();
  for (const SmallMessages& s : all) {
    Json one{{"collective", name(s.kind)}, {"over", s.mesh_axes}, {"devices", s.devices}, {"step_s", s.step_s}};
    one["ring"] = linear_cost_json(s.ring);
    one["tree"] = linear_cost_json(s.tree);
    one["tree_faster"] = tree_faster_range(s);
    one["tree_below_bytes"] =
        s.max_tree_bytes > 0 && !s.is_tree_always_faster() ? Json(s.max_tree_bytes) : Json(nullptr);
    out.push_back(std::move(one));
  }
  return out;
}

Json overlaps_json(const std::vector<Overlap>& all) {
  Json out = Json::array();
  for (const Overlap& o : all) {
    Json one{{"product", o.product}, {"tensor", o.tensor}, {"collective", o.collective}};
    one["side"] = o.gathers_operand ? "before" : "after";
    one["along"] = o.dim;
    one["math_s"] = o.times.math_s;
    one["memory_cut_s"] = o.times.chunked_memory_s;
    one["memory_kept_s"] = o.times.repeated_memory_s;
    one["launch_s"] = o.times.launch_s;
    one["sending_s"] = o.times.transfer_s;
    one["wait_s"] = o.times.message_latency_s;
    one["in_turn_s"] = o.times.total_seconds(1);
    one["chunks"] = o.best.count;
    one["chunked_s"] = o.best.seconds;
    one["chunks_pay_from"] = or_null(o.min_size);
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace ridge
