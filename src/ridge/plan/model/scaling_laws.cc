#include "ridge/plan/model/scaling_laws.h"

#include <cmath>

#include "ridge/base/check.h"
#include "ridge/base/fitted_file.h"

namespace ridge {
namespace {

struct ScalingLaws {
  double hoffmann_e, hoffmann_a, hoffmann_b, hoffmann_alpha, hoffmann_beta;
  double besiroglu_e, besiroglu_a, besiroglu_b, besiroglu_alpha, besiroglu_beta;
};

constexpr NamedNumber<ScalingLaws> law_fields[] = {
    {"hoffmann_e", &ScalingLaws::hoffmann_e},           {"hoffmann_a", &ScalingLaws::hoffmann_a},
    {"hoffmann_b", &ScalingLaws::hoffmann_b},           {"hoffmann_alpha", &ScalingLaws::hoffmann_alpha},
    {"hoffmann_beta", &ScalingLaws::hoffmann_beta},     {"besiroglu_e", &ScalingLaws::besiroglu_e},
    {"besiroglu_a", &ScalingLaws::besiroglu_a},         {"besiroglu_b", &ScalingLaws::besiroglu_b},
    {"besiroglu_alpha", &ScalingLaws::besiroglu_alpha}, {"besiroglu_beta", &ScalingLaws::besiroglu_beta},
};

}  // namespace

double evaluate_law(const ScalingLaw& law, double parameters, double tokens) {
  return law.e + law.a / std::pow(parameters, law.alpha) + law.b / std::pow(tokens, law.beta);
}

std::vector<PredictedLoss> predict_loss(double parameters, double tokens) {
  static const ScalingLaws all = [] {
    const auto parsed =
        parse_named_numbers<ScalingLaws>(law_fields, scaling_laws_csv(), "data/models/scaling_laws.csv");
    RIDGE_CHECK(parsed, parsed.error().to_string());
    return *parsed;
  }();
  const ScalingLaw hoffmann{all.hoffmann_e, all.hoffmann_a, all.hoffmann_b, all.hoffmann_alpha, all.hoffmann_beta};
  const ScalingLaw besiroglu{all.besiroglu_e, all.besiroglu_a, all.besiroglu_b, all.besiroglu_alpha,
                             all.besiroglu_beta};
  return {{"Hoffmann et al. 2022", evaluate_law(hoffmann, parameters, tokens)},
          {"Besiroglu et al. 2024", evaluate_law(besiroglu, parameters, tokens)}};
}

}  // namespace ridge
