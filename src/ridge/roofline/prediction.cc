// Names of limiters and relations, as JSON and text print them.
#include "ridge/roofline/prediction.h"

namespace ridge {

std::string_view name(Limiter limiter) {
  switch (limiter) {
    case Limiter::compute: return "compute";
    case Limiter::memory: return "memory";
    case Limiter::network: return "network";
    case Limiter::overhead: return "overhead";
    case Limiter::quantization: return "quantization";
  }
  return "";
}

std::string_view name(Relation relation) {
  switch (relation) {
    case Relation::at_least: return ">=";
    case Relation::at_most: return "<=";
    case Relation::always: return "always";
    case Relation::never: return "never";
  }
  return "";
}

}  // namespace ridge
