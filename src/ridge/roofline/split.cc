#include "ridge/roofline/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ridge {

Result<Split> parse_split(const std::string& text) {
  constexpr std::int64_t most = 1 << 20;
  const std::size_t equals = text.find('=');
  Split split{.dim = text.substr(0, equals)};
  const char* end = text.data() + text.size();
  if (equals != std::string::npos && equals > 0) {
    const auto [rest, status] = std::from_chars(text.data() + equals + 1, end, split.chips);
    if (status == std::errc{} && rest == end && split.chips >= 1 && split.chips <= most) return split;
  }
  return usage_error(fmt::format("expected DIMENSION=CHIPS with 1 to {} chips after --split, found '{}'", most, text),
                     "--split D=2");
}

Program sharded(const Program& program, const Split& split) {
  Program out = program;
  out.mesh.push_back({.name = split_axis, .size = split.chips});
  for (Tensor& tensor : out.tensors)
    for (Axis& each : tensor.axes)
      if (each.dim == split.dim) each.mesh = split_axis;
  for (Statement& statement : out.statements)
    if (auto* product = std::get_if<Contraction>(&statement.op))
      if (std::find(product->contracted.begin(), product->contracted.end(), split.dim) != product->contracted.end())
        product->partial = split_axis;
  return out;
}

std::vector<Work> count(const Program& program, const Split& split, Bindings sizes) {
  sizes[split_axis] = split.chips;
  std::vector<Work> work = count(sharded(program, split), sizes);
  for (Work& each : work) each.collective.clear();  // named after the axis
  return work;
}

}  // namespace ridge
