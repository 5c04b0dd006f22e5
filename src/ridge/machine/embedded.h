// Built-in catalog: the content of each machines/<name>.toml at build time.
#pragma once

#include <string_view>
#include <vector>

namespace ridge {

struct EmbeddedMachine {
  std::string_view name;
  std::string_view toml;
};
const std::vector<EmbeddedMachine>& embedded_machines();

}  // namespace ridge
