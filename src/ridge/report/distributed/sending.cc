#include "ridge/report/distributed/sending.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

Json line_json(const StraightLine& line) { return {{"steps", line.steps}, {"bytes_per_s", line.rate}}; }

std::string tree_faster(const SmallMessages& small) {
  if (small.always()) return "always";
  return small.tree_below > 0 ? "below" : "never";
}

}  // namespace

Json small_messages_json(const std::vector<SmallMessages>& all) {
  Json out = Json::array();
  for (const SmallMessages& s : all) {
    Json one{{"collective", name(s.kind)}, {"over", s.over}, {"devices", s.devices}, {"step_s", s.step_s}};
    one["ring"] = line_json(s.ring);
    one["tree"] = line_json(s.tree);
    one["tree_faster"] = tree_faster(s);
    one["tree_below_bytes"] = s.tree_below > 0 && !s.always() ? Json(s.tree_below) : Json(nullptr);
    out.push_back(std::move(one));
  }
  return out;
}

Json overlaps_json(const std::vector<Overlap>& all) {
  Json out = Json::array();
  for (const Overlap& o : all) {
    Json one{{"product", o.product}, {"tensor", o.tensor}, {"collective", o.collective}};
    one["side"] = o.before ? "before" : "after";
    one["along"] = o.dim;
    one["math_s"] = o.beside.math_s;
    one["memory_cut_s"] = o.beside.moved_s;
    one["memory_kept_s"] = o.beside.kept_s;
    one["launch_s"] = o.beside.launch_s;
    one["sending_s"] = o.beside.sending_s;
    one["wait_s"] = o.beside.wait_s;
    one["in_turn_s"] = o.beside.seconds(1);
    one["chunks"] = o.best.count;
    one["chunked_s"] = o.best.seconds;
    one["chunks_pay_from"] = o.pays_from ? Json(*o.pays_from) : Json(nullptr);
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace ridge
