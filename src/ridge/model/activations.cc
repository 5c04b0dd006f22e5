#include "ridge/model/activations.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "ridge/base/string_util.h"

namespace ridge::model {
namespace {

// Names in config files, and the notation's functions. Source: ACT2FN in Hugging Face's transformers.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> activations{
    {{"silu", "silu({0})"},
     {"swish", "silu({0})"},
     {"gelu", "gelu({0})"},
     {"gelu_new", "gelu_tanh({0})"},
     {"gelu_fast", "gelu_tanh({0})"},
     {"gelu_pytorch_tanh", "gelu_tanh({0})"},
     {"quick_gelu", "{0} * sigmoid(1.702 * {0})"},
     {"relu", "relu({0})"},
     {"relu2", "relu({0}) * relu({0})"},
     {"sigmoid", "sigmoid({0})"}}};

}  // namespace

Result<std::string> find_activation(const std::string& name, const std::string& model) {
  for (const auto& [known, function] : activations)
    if (name == known) return std::string(function);
  return input_error(
      fmt::format("{}: expected silu, gelu, gelu_pytorch_tanh, relu, relu2 or sigmoid as activation, found '{}'", model,
                  make_printable(name)),
      "programs have no such function; the counts without --on need none");
}

}  // namespace ridge::model
