#include "ridge/roofline/split.h"

#include <fmt/format.h>

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

Work split(const Work& work, const Split& split) {
  Work part = work;
  const Polynomial share = Polynomial::symbol(split.dim) * Rational(1, split.chips);
  for (Polynomial* count : {&part.flops, &part.bytes_in, &part.bytes_out}) *count = count->substitute(split.dim, share);
  const bool summed = work.bytes_in.degree(split.dim) > 0 && work.bytes_out.degree(split.dim) == 0;
  if (summed && split.chips > 1) part.bytes_sent = work.bytes_out * Rational(2 * (split.chips - 1), split.chips);
  return part;
}

}  // namespace ridge
