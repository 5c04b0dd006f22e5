#include "ridge/report/schema.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* dialect = "https://json-schema.org/draft/2020-12/schema";

const std::map<std::string, std::vector<std::string>, std::less<>>& shapes() {
  static const std::map<std::string, std::vector<std::string>, std::less<>> all{
      {"explain", {"report", "ranking", "check", "against", "lines", "chains", "tiles", "between"}},
      {"run", {"report", "against"}},
      {"advise", {"advice"}},
      {"sweep", {"sweep", "stripes"}},
      {"shard", {"shard", "meshes", "collective"}},
      {"simulate", {"simulate"}},
      {"probe", {"probe"}},
      {"calibrate", {"calibration"}},
      {"bench", {"contest", "device_contest", "stream", "device_stream", "repeats"}},
      {"kernels", {"kernels"}},
      {"machines", {"machines", "machine"}}};
  return all;
}

Json read(const std::string& name) {
  const auto& all = embedded_schemas();
  const auto found = std::find_if(all.begin(), all.end(), [&](const EmbeddedSchema& s) { return s.name == name; });
  return found == all.end() ? Json::object() : Json::parse(found->json);
}

// "ridge.report/2" as a name behind #/$defs/, where a slash would part it.
std::string def_name(const Json& shape) {
  std::string out = shape["title"];
  std::replace(out.begin(), out.end(), '/', '-');
  return out;
}

// Each shape among the definitions, with its own definitions beside it.
Json bundle(std::string_view verb, const std::vector<std::string>& names) {
  Json out{{"$schema", dialect}, {"title", "ridge " + std::string(verb) + " --json"}, {"anyOf", Json::array()}};
  Json defs = Json::object();
  for (const std::string& name : names) {
    Json shape = read(name);
    shape.erase("$schema");
    if (shape.contains("$defs")) defs.update(shape["$defs"]);
    shape.erase("$defs");
    const std::string called = def_name(shape);
    out["anyOf"].push_back({{"$ref", "#/$defs/" + called}});
    defs[called] = std::move(shape);
  }
  out["$defs"] = std::move(defs);
  return out;
}

}  // namespace

std::string schema_of(std::string_view verb) {
  const auto found = shapes().find(verb);
  if (found == shapes().end()) return "null\n";
  if (found->second.size() > 1) return bundle(verb, found->second).dump(1) + "\n";
  Json out{{"$schema", dialect}};
  out.update(read(found->second.front()));
  return out.dump(1) + "\n";
}

}  // namespace ridge
