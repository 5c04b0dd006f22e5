// Published scaling laws of the loss of a dense model: L = E + A / N^alpha + B / D^beta for N parameters and D tokens.
// The constants and the data for which they hold are in data/models/scaling_laws.csv.
#pragma once

#include <string_view>
#include <vector>

namespace ridge {

struct ScalingLaw {
  double e = 0, a = 0, b = 0, alpha = 0, beta = 0;
};
// Returns the loss in nats per token.
double evaluate_law(const ScalingLaw& law, double parameters, double tokens);

struct PredictedLoss {
  std::string_view source;  // "Hoffmann et al. 2022"
  double loss = 0;
};
// Returns the loss by each law.
std::vector<PredictedLoss> predict_loss(double parameters, double tokens);

// Content of data/models/scaling_laws.csv at build time.
std::string_view scaling_laws_csv();

}  // namespace ridge
