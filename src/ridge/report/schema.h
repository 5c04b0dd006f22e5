// The JSON Schemas (2020-12) of what verbs print with --json: docs/report.schema.json and docs/schemas, embedded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge {

struct EmbeddedSchema {
  std::string_view name;  // "report": the file's, without .schema.json
  std::string_view json;
};
const std::vector<EmbeddedSchema>& embedded_schemas();

// The shapes that a verb prints, as one document that needs no other. Null: it prints no JSON.
std::string schema_of(std::string_view verb);

}  // namespace ridge
