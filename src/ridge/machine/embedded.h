// The catalog as it was at build time: one entry for each machines/NAME.toml.
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
