#include "ridge/cli/spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "ridge/base/text.h"
#include "ridge/program/bindings.h"
#include "ridge/program/ranges.h"
#include "ridge/roofline/split.h"

namespace ridge::cli {
namespace {

// A number is a rate, whatever else is a link's name.
std::optional<LinkChoice> link_spelled(const std::string& text) {
  if (text.empty()) return std::nullopt;
  double rate = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, rate);
  if (status == std::errc{} && rest == end && rate >= 1e-30 && rate <= 1e30) return LinkChoice(ByteRate{rate});
  return LinkChoice(text);
}

// "D=1,2,4" as a split each.
Result<std::vector<Split>> splits_spelled(const std::string& text) {
  std::vector<Split> out;
  if (text.empty()) return out;
  const auto range = parse_range(text);
  if (!range) return usage_error(fmt::format("expected NAME=CHIPS after --split, found '{}'", text), "--split D=1,2,4");
  for (const std::int64_t chips : range->values) {
    const auto split = parse_split(fmt::format("{}={}", range->dim, chips));
    if (!split) return split.error();
    out.push_back(*split);
  }
  return out;
}

// "B=256", "D=1..64:*2": a name, '=' and no blank. A path with a folder, or a program's text, is none.
bool is_size(const std::string& word) {
  const std::size_t equals = word.find('=');
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '\''; };
  if (equals == std::string::npos || equals == 0 || std::isdigit(static_cast<unsigned char>(word[0]))) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), letter) &&
         word.find_first_of(" \t\n", equals) == std::string::npos;
}

}  // namespace

Result<Words> sorted(const std::vector<std::string>& words, std::string_view verb) {
  Words out;
  bool found = false;
  for (const std::string& word : words) {
    if (is_size(word)) {
      out.dims.push_back(word);
      continue;
    }
    if (found)
      return usage_error(fmt::format("unexpected argument '{}' after {}", word, verb),
                         "a program with spaces stands in quotes");
    found = true;
    out.program = word;
  }
  return out;
}

Status sort_words(Spelled& spelled, std::string_view verb) {
  auto words = sorted(spelled.words, verb);
  if (!words) return words.error();
  spelled.program = std::move(words->program);
  spelled.dims.insert(spelled.dims.end(), words->dims.begin(), words->dims.end());
  return Done{};
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> out;
  std::istringstream all(list);
  for (std::string name; std::getline(all, name, ',');) out.push_back(name);
  if (list.empty() || list.back() == ',') out.emplace_back();
  return out;
}

Result<DType> dtype_named(const std::string& spelling) {
  if (const auto dtype = dtype_from(spelling)) return *dtype;
  std::vector<std::string> names;
  for (const DTypeInfo& each : dtypes) names.emplace_back(each.name);
  const std::string near = nearest(spelling, names);
  return usage_error(fmt::format("unknown dtype '{}'; expected one of {}", spelling, fmt::join(names, ", ")),
                     near.empty() ? "" : fmt::format("did you mean {}?", near));
}

Result<Request> understood(const Spelled& spelled) {
  auto dims = parse_assignments(spelled.dims);
  if (!dims) return dims.error();
  Request request{.program = spelled.program, .on = spelled.on, .dims = *std::move(dims)};
  if (!spelled.dtype.empty()) {
    const auto dtype = dtype_named(spelled.dtype);
    if (!dtype) return dtype.error();
    request.dtype = *dtype;
  }
  request.link = link_spelled(spelled.link);
  request.memory = link_spelled(spelled.memory);
  request.fuse = spelled.fuse;
  request.why = spelled.why;
  request.sustained = spelled.sustained;
  request.layers = spelled.layers;
  if (spelled.plan) request.planned = spelled.library == "cublaslt" ? KernelsOf::cublaslt : KernelsOf::ridge;
  for (const std::string& list : spelled.fused) request.fused.push_back(names_in(list));
  if (!spelled.weights.empty()) {
    const auto weights = dtype_named(spelled.weights);
    if (!weights) return weights.error();
    request.weights = *weights;
  }
  if (spelled.split.empty()) return request;
  const auto split = parse_splits(spelled.split);
  if (!split) return split.error();
  request.split = *split;
  return request;
}

Result<BareWork> bare_work(const Spelled& spelled) {
  if (spelled.plan) return usage_error("expected --plan with a PROGRAM, found --flops and --bytes");
  if (!spelled.flops || !spelled.bytes || !spelled.program.empty())
    return usage_error("expected --flops and --bytes together and no PROGRAM",
                       "ridge explain --flops 1e12 --bytes 1e9 --on h100");
  const auto dtype = dtype_named(spelled.dtype.empty() ? "bf16" : spelled.dtype);
  if (!dtype) return dtype.error();
  return BareWork{Flops{*spelled.flops},        Bytes{*spelled.bytes}, spelled.on, *dtype,
                  link_spelled(spelled.memory), spelled.sustained};
}

Spelled other_than(Spelled spelled, const std::string& other) {
  const std::vector<std::string> names = catalog_names();
  const bool machine = where(other) != Where::elsewhere || other.ends_with(".toml") ||
                       std::find(names.begin(), names.end(), other) != names.end();
  (machine ? spelled.on : spelled.program) = other;
  return spelled;
}

Result<SweepRequest> understood(const SpelledSweep& spelled) {
  SweepRequest request{.program = spelled.program, .on = {}, .dtypes = {}};
  for (const std::string& text : spelled.dims) {
    auto range = parse_range(text);
    if (!range) return range.error();
    request.ranges.push_back(*std::move(range));
  }
  request.on.assign(spelled.on.begin(), spelled.on.end());
  request.link = link_spelled(spelled.link);
  auto splits = splits_spelled(spelled.split);
  if (!splits) return splits.error();
  request.splits = *std::move(splits);
  for (const std::string& spelling : spelled.dtypes) {
    const auto dtype = dtype_named(spelling);
    if (!dtype) return dtype.error();
    request.dtypes.push_back(*dtype);
  }
  return request;
}

Result<FunctionCosts> function_costs(const std::vector<std::string>& texts) {
  FunctionCosts out;
  for (const std::string& text : texts) {
    const auto cost = parse_assignments({text});
    if (!cost)
      return usage_error(fmt::format("expected FUNCTION=FLOPS after --cost, found '{}'", text), "--cost cos=20");
    out[cost->begin()->first] = static_cast<double>(cost->begin()->second);
  }
  return out;
}

}  // namespace ridge::cli
