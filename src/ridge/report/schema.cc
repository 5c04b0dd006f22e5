#include "ridge/report/schema.h"

#include <algorithm>
#include <map>

#include "ridge/report/json_values.h"

namespace ridge {
namespace {

constexpr const char* dialect = "https://json-schema.org/draft/2020-12/schema";

const std::map<std::string, std::vector<std::string>, std::less<>>& schemas_of_verbs() {
  static const std::map<std::string, std::vector<std::string>, std::less<>> all{
      {"explain", {"report", "ranking", "check", "against", "lines", "chains", "tiles", "between"}},
      {"run", {"report", "against"}},
      {"advise", {"advice"}},
      {"sweep", {"sweep", "stripes"}},
      {"shard", {"shard", "meshes", "collective"}},
      {"simulate", {"simulate"}},
      {"model", {"model"}},
      {"trace", {"trace"}},
      {"probe", {"probe"}},
      {"calibrate", {"calibration"}},
      {"bench", {"benchmark"}},
      {"kernels", {"kernels"}},
      {"machines", {"machines", "machine"}}};
  return all;
}

Json read_schema(const std::string& name) {
  const auto& all = embedded_schemas();
  const auto found = std::find_if(all.begin(), all.end(), [&](const EmbeddedSchema& s) { return s.name == name; });
  return found == all.end() ? Json::object() : Json::parse(found->json);
}

// Returns "ridge.report-2": in "#/$defs/NAME" a slash in the name would separate two keys.
std::string def_name(const Json& schema) {
  std::string out = schema["title"];
  std::replace(out.begin(), out.end(), '/', '-');
  return out;
}

// Returns a schema that accepts any of the named schemas; their own definitions are merged into `$defs`.
Json bundle_schemas(std::string_view verb, const std::vector<std::string>& names) {
  Json out{{"$schema", dialect}, {"title", "ridge " + std::string(verb) + " --json"}, {"anyOf", Json::array()}};
  Json defs = Json::object();
  for (const std::string& name : names) {
    Json schema = read_schema(name);
    schema.erase("$schema");
    if (schema.contains("$defs")) defs.update(schema["$defs"]);
    schema.erase("$defs");
    const std::string definition = def_name(schema);
    out["anyOf"].push_back({{"$ref", "#/$defs/" + definition}});
    defs[definition] = std::move(schema);
  }
  out["$defs"] = std::move(defs);
  return out;
}

}  // namespace

std::string verb_schema(std::string_view verb) {
  const auto found = schemas_of_verbs().find(verb);
  if (found == schemas_of_verbs().end()) return "null\n";
  if (found->second.size() > 1) return bundle_schemas(verb, found->second).dump(1) + "\n";
  Json out{{"$schema", dialect}};
  out.update(read_schema(found->second.front()));
  return out.dump(1) + "\n";
}

}  // namespace ridge
