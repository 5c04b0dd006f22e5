// Shipped configs: the content of each models/<name>.json at build time.
#pragma once

#include <string_view>
#include <vector>

namespace ridge {

struct EmbeddedModel {
  std::string_view name;
  std::string_view json;
};
const std::vector<EmbeddedModel>& embedded_models();

}  // namespace ridge
