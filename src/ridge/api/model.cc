// Counts of language models.
#include "ridge/api/facade.h"

namespace ridge::api {

Result<model::ModelCount> count_model(const std::string& config, const model::CountOptions& options) {
  RIDGE_TRY(found, model::find_config(config));
  return model::count_model(found, options);
}

}  // namespace ridge::api
