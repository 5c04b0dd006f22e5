// The JSON Schemas (2020-12) of the output of --json, embedded from docs/report.schema.json and docs/schemas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge {

struct EmbeddedSchema {
  std::string_view name;  // file name without .schema.json, such as "report"
  std::string_view json;
};
const std::vector<EmbeddedSchema>& embedded_schemas();

// Returns one self-contained schema of everything that a verb prints, or "null\n" if it prints no JSON.
std::string verb_schema(std::string_view verb);

}  // namespace ridge
