// Fuzzes counts, bounds and thresholds with libFuzzer: any program at any sizes is explained with finite numbers, or
// rejected with a message. The first line of an input has options, "B=8 D=64 /D=2" (sizes; a split after a slash), the
// second line a claim, the rest is the program.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/check.h"
#include "ridge/program/bindings.h"
#include "ridge/program/program.h"
#include "ridge/program/ranges.h"
#include "ridge/roofline/claim.h"
#include "ridge/roofline/memory_lines.h"
#include "ridge/roofline/pointwise_chain.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

std::string pop_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string line(text.substr(0, end));
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

void check_prediction(const Prediction& p) {
  for (const auto& number :
       {p.intensity, p.time_math_s, p.time_memory_s, p.time_network_s, p.time_lower_s, p.time_upper_s})
    RIDGE_CHECK(!number || (std::isfinite(*number) && *number >= 0), "a number is infinite, NaN or negative");
  RIDGE_CHECK(!p.time_lower_s || !p.time_upper_s || *p.time_lower_s <= *p.time_upper_s,
              "a lower bound exceeds the upper bound");
  RIDGE_CHECK(!p.flops || *p.flops >= 0, "negative FLOPs");
  RIDGE_CHECK(!p.bytes || *p.bytes >= 0, "negative bytes");
}

template <class T> bool has_result(const Result<T>& result) {
  RIDGE_CHECK(result.ok() || !result.error().to_string().empty(), "an error without a message");
  return result.ok();
}

void explain_text(std::string_view text) {
  Bindings sizes;
  std::optional<DimensionSplit> split_option;
  const std::string options = pop_line(text), claim = pop_line(text);
  for (std::size_t at = 0; at < options.size();) {
    const std::size_t end = std::min(options.find(' ', at), options.size());
    const std::string word = options.substr(at, end - at);
    at = end + 1;
    if (word.starts_with('/')) {
      if (const auto split = parse_split(word.substr(1)); has_result(split)) split_option = *split;
    } else if (const auto one = parse_assignments({word}); has_result(one)) {
      sizes.insert(one->begin(), one->end());
    }
    (void)has_result(parse_range(word));
  }
  const auto program = parse(text);
  if (!has_result(program)) return;
  Machine machine = testing::make_test_machine(
      {{DType::bf16, 100}, {DType::f16, 100}, {DType::int8, 200}, {DType::int4, 400}}, 10, 3);
  machine.peaks.push_back({ComputeUnit::vector, DType::f64, testing::make_number(1)});
  machine.links.push_back({"wire", testing::make_number(2)});
  machine.numbers["launch_s"] = testing::make_number(1);
  machine.numbers["line_bytes"] = testing::make_number(128);
  machine.numbers["sector_bytes"] = testing::make_number(32);
  if (const auto e = explain(*program, machine, sizes, split_option); has_result(e)) {
    for (const Prediction& op : e->ops) check_prediction(op);
    check_prediction(e->total);
    if (e->fused) check_prediction(*e->fused);
    (void)has_result(check_claim(*e, claim));
  }
  (void)has_result(analyze_tile_alignment(*program, machine, sizes, {.columns = 4, .leading = {}, .line_bytes = {}}));
  (void)has_result(analyze_chains(*program, machine, sizes, {}));
}

}  // namespace
}  // namespace ridge

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ridge::explain_text({reinterpret_cast<const char*>(data), size});
  return 0;
}
