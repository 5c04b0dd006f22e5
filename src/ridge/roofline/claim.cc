#include "ridge/roofline/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/roofline/threshold.h"

namespace ridge {
namespace {

struct Claim {
  std::string left, relation, right;
  double number = NAN;  // Value of `right`, if it is a number
  double rounding = 0;  // Half a unit of the last digit that is not a trailing zero
};

// Returns the rounding error: 8760 means 8755 to 8765, 240.2 means 240.15 to 240.25, 1e9 means 0.5e9 to 1.5e9.
double rounding_error(const std::string& digits) {
  const std::size_t e = digits.find_first_of("eE");
  const std::string mantissa = digits.substr(0, e);
  int power = 0;
  if (e != std::string::npos)
    std::from_chars(digits.data() + e + 1 + (digits[e + 1] == '+'), digits.data() + digits.size(), power);
  const std::size_t point = mantissa.find('.');
  if (point != std::string::npos) return 0.5 * std::pow(10, power - static_cast<int>(mantissa.size() - point - 1));
  const std::size_t last = mantissa.find_last_not_of('0');
  const std::size_t zeros = last == std::string::npos ? 0 : mantissa.size() - last - 1;
  return 0.5 * std::pow(10, power + static_cast<int>(zeros));
}

Result<Claim> parse_claim(const std::string& text) {
  Claim claim;
  for (const char* relation : {">=", "<=", "==", ">", "<", "="}) {
    const std::size_t at = text.find(relation);
    if (at == std::string::npos) continue;
    claim.relation = relation == std::string("==") ? "=" : relation;
    claim.left = trim_blanks(text.substr(0, at));
    claim.right = trim_blanks(text.substr(at + std::string(relation).size()));
    break;
  }
  if (claim.left.empty() || claim.right.empty())
    return usage_error(fmt::format("expected a claim like 'B > 240' or 'intensity = 2', found '{}'", text));
  double value = 0;
  const char* end = claim.right.data() + claim.right.size();
  const auto [rest, status] = std::from_chars(claim.right.data(), end, value);
  if (status == std::errc{} && rest == end && std::isfinite(value) && value > 0) {
    claim.number = value;
    claim.rounding = rounding_error(claim.right);
  }
  return claim;
}

// True if the numbers are equal within the claim's rounding, which counts up to 0.5 % of the truth.
bool is_close(double claimed, double truth, double rounding) {
  return std::abs(claimed - truth) <= std::max(1e-9 * truth, std::min(rounding, 0.005 * truth));
}

struct UnitMistake {
  double factor;  // Claim / truth
  std::string_view description;
};

constexpr double gib = 1.073741824, mib = 1.048576, tib = 1.099511627776;
constexpr UnitMistake unit_mistakes[] = {
    {gib, "GB taken for GiB: 1 GiB is 1.074 GB"},
    {1 / gib, "GiB taken for GB: 1 GiB is 1.074 GB"},
    {mib, "MB taken for MiB: 1 MiB is 1.049 MB"},
    {1 / mib, "MiB taken for MB: 1 MiB is 1.049 MB"},
    {tib, "TB taken for TiB: 1 TiB is 1.100 TB"},
    {1 / tib, "TiB taken for TB: 1 TiB is 1.100 TB"},
    {8, "bits taken for bytes"},
    {0.125, "bytes taken for bits"},
};

std::string find_unit_mistake(const Claim& claim, double truth) {
  for (const UnitMistake& mistake : unit_mistakes)
    if (is_close(claim.number, truth * mistake.factor, claim.rounding)) return std::string(mistake.description);
  return "";
}

// --- quantities

struct ClaimQuantity {
  std::string_view name, unit;
  std::optional<double> (*get)(const Prediction&);
};

template <class T> std::optional<double> as_double(const std::optional<T>& value) {
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

constexpr ClaimQuantity quantities[] = {
    {"flops", "FLOP", [](const Prediction& p) { return as_double(p.flops); }},
    {"bytes", "B", [](const Prediction& p) { return as_double(p.bytes); }},
    {"intensity", "FLOP/B", [](const Prediction& p) { return p.intensity; }},
    {"ridge", "FLOP/B", [](const Prediction& p) { return p.ridge; }},
    {"time_math", "s", [](const Prediction& p) { return p.time_math_s; }},
    {"time_memory", "s", [](const Prediction& p) { return p.time_memory_s; }},
    {"time_network", "s", [](const Prediction& p) { return p.time_network_s; }},
    {"time_lower", "s", [](const Prediction& p) { return p.time_lower_s; }},
    {"time_upper", "s", [](const Prediction& p) { return p.time_upper_s; }},
};

// Returns the mistake that leads to the claimed value of `name`, or an empty string.
std::string find_quantity_mistake(const Claim& claim, std::string_view name, double truth, const Prediction& p,
                                  const Bindings& dims) {
  const auto is = [&](double value) { return is_close(claim.number, value, claim.rounding); };
  const bool rate = name == "intensity" || name == "ridge", counts_flops = rate || name == "flops";
  if (rate && is(1 / truth)) return "inverted: these are bytes per FLOP";
  if (counts_flops && is(truth / 2)) return "half of it: multiply-adds were counted, and each is 2 FLOPs";
  if (counts_flops && is(truth * 2)) return "twice the value: every FLOP was counted twice";
  if (rate && (is(2 / truth) || is(0.5 / truth))) return "inverted, and a factor of two is lost";
  if (name == "time_network" && is(truth / 2)) return "half of it: the link's rate was taken both ways, it is one way";
  if (name == "time_network" && is(truth * 2))
    return "twice the value: the bytes were sent in both directions in sequence";
  if (name == "time_lower" && p.time_upper_s && is(*p.time_upper_s)) return "the sum of the times, which may overlap";
  if (name == "time_upper" && p.time_lower_s && is(*p.time_lower_s)) return "only the longest of the times";
  if (p.bytes && p.flops) {
    const double read = p.work.bytes_in.evaluate_double({dims.begin(), dims.end()});
    if (name == "bytes" && is(read)) return "only the bytes read; the bytes written are missing";
    if (name == "intensity" && is(static_cast<double>(*p.flops) / read)) return "the bytes written are missing";
  }
  if (is(truth / 2)) return "half of it: a factor of two is lost";
  if (is(truth * 2)) return "twice the value: there is a factor of two too many";
  return find_unit_mistake(claim, truth);
}

ClaimCheck check_quantity(const Claim& claim, const ClaimQuantity& quantity, double truth, const Prediction& p,
                          const Bindings& dims) {
  ClaimCheck check;
  check.truth = fmt::format("{} = {} {}", claim.left, format_significant(truth, 6), quantity.unit);
  const bool equal = is_close(claim.number, truth, claim.rounding);
  check.right = truth <= claim.number || equal;
  if (claim.relation == "=") check.right = equal;
  if (claim.relation == ">") check.right = truth > claim.number;
  if (claim.relation == ">=") check.right = truth >= claim.number || equal;
  if (claim.relation == "<") check.right = truth < claim.number;
  if (!check.right && claim.relation == "=")
    check.mistake = find_quantity_mistake(claim, quantity.name, truth, p, dims);
  return check;
}

// --- dimensions

// Returns the first whole number that satisfies the claim; for an upper bound, the last.
std::int64_t claimed_integer(const Claim& claim) {
  const double n = claim.number;
  if (n > 9e18) return INT64_MAX;
  if (claim.relation == ">") return static_cast<std::int64_t>(std::floor(n)) + 1;
  if (claim.relation == "<") return static_cast<std::int64_t>(std::ceil(n)) - 1;
  return static_cast<std::int64_t>(claim.relation == "<=" ? std::floor(n) : std::ceil(n));
}

// Returns "; the network takes longest at these sizes" if a third roof is the operation's limiter.
std::string third_roof_note(const Threshold& t, const Prediction& p) {
  if (t.decides_limiter || !p.limiter || contains(t.roofs, *p.limiter)) return {};
  std::string_view longest = name(*p.limiter);
  if (p.limiter == Limiter::network) longest = "the network";
  if (p.limiter == Limiter::overhead) longest = "a launch";
  return fmt::format("; {} takes longest at these sizes", longest);
}

std::string format_threshold(const Threshold& t) {
  const std::string meaning = fmt::format("where {} takes at least as long as {}", name(t.roofs[0]), name(t.roofs[1]));
  if (t.relation == Relation::never)
    return fmt::format("no {}: {} never takes as long as {}", t.dim, name(t.roofs[0]), name(t.roofs[1]));
  if (t.relation == Relation::always)
    return fmt::format("every {}: {} always takes at least as long as {}", t.dim, name(t.roofs[0]), name(t.roofs[1]));
  std::string out = fmt::format("{} {} {}", t.dim, name(t.relation), t.value ? std::to_string(*t.value) : t.exact);
  if (t.numerical) out += ", solved numerically";
  if (t.value_real && !t.exact.empty()) out += fmt::format(": {} = {}", t.exact, format_significant(*t.value_real, 6));
  if (t.approx && !t.assuming.empty())
    out += fmt::format("; {} where {}", format_significant(*t.approx, 6), t.assuming);
  return out + ", " + meaning;
}

std::string find_threshold_mistake(const Claim& claim, const Threshold& t) {
  const auto is = [&](double value) { return is_close(claim.number, value, claim.rounding); };
  const bool network = t.roofs[1] == Limiter::network;
  if (t.value && t.approx && is(*t.approx))
    return fmt::format("the limit where {}, not the value at these sizes", t.assuming);
  for (const std::optional<double>& truth : {t.value_real, t.approx}) {
    if (!truth) continue;
    if (is(*truth / 2) && is(t.ratio))
      return fmt::format("half of it: the ratio of the two rates alone, {}; the factor of two in {} is lost",
                         format_significant(t.ratio, 6), t.exact);
    if (is(*truth / 2))
      return network ? "half of it: a factor of two is lost, or the link's rate was taken both ways"
                     : "half of it: a factor of two is lost, such as multiply-adds counted as FLOPs";
    if (is(*truth * 2))
      return network ? "twice the value: the link's rate was halved, but it is already one way"
                     : "twice the value: a factor of two too many, such as a FLOP counted as a multiply-add";
    if (is(1 / *truth)) return "inverted";
    if (const std::string unit = find_unit_mistake(claim, *truth); !unit.empty()) return unit;
  }
  if (is(t.ratio))
    return fmt::format("the ratio of the two rates, {}, which is not the threshold", format_significant(t.ratio, 6));
  return "";
}

bool matches_threshold(const Claim& claim, const Threshold& t) {
  const bool upwards = claim.relation.starts_with(">");
  if (t.relation == Relation::always) return claim.relation != "=" && upwards && claimed_integer(claim) <= 1;
  if (t.relation != (upwards ? Relation::at_least : Relation::at_most)) return false;
  if (t.value && claimed_integer(claim) == *t.value) return true;
  if (t.value_real) return is_close(claim.number, *t.value_real, claim.rounding);
  return t.approx && is_close(claim.number, *t.approx, claim.rounding);
}

// Returns the dimensions of an operation, other than `but`, that have no value.
std::vector<std::string> dims_without_value(const Explanation& e, const Prediction& p, const std::string& but) {
  const Polynomial all = p.work.flops + p.work.bytes();
  std::vector<std::string> out;
  for (const std::string& dim : all.symbols())
    if (dim != but && !e.dims.contains(dim)) out.push_back(dim);
  return out;
}

bool is_unsolved(const Threshold& t) {
  return !t.value && (t.relation == Relation::at_least || t.relation == Relation::at_most);
}

// Checks against the named operation or sum; nullptr: against all operations.
Result<ClaimCheck> check_threshold(const Explanation& e, const Claim& claim, const std::string& dim,
                                   const Prediction* named_operation) {
  if (claim.relation == "=")
    return usage_error(fmt::format("expected a relation like '{} > {}', found '='", claim.left, claim.right));
  ClaimCheck check;
  std::vector<std::string> open_dims;
  for (const Prediction& p : named_operation ? std::span(named_operation, 1) : std::span(e.ops))
    for (const Threshold& t : p.thresholds) {
      if (t.dim != dim) continue;
      const std::string operation_name = named_operation || e.ops.size() < 2 ? "" : p.work.name;
      if (matches_threshold(claim, t))
        return ClaimCheck{.right = true,
                          .claim = {},
                          .truth = format_threshold(t) + third_roof_note(t, p),
                          .operation = operation_name,
                          .mistake = {}};
      if (is_unsolved(t)) open_dims = dims_without_value(e, p, dim);
      const std::string mistake = find_threshold_mistake(claim, t);
      // Report the first threshold, unless a later one explains the claim.
      if (check.truth.empty() || (check.mistake.empty() && !mistake.empty())) {
        check.truth = format_threshold(t) + third_roof_note(t, p);
        check.operation = operation_name;
        check.mistake = mistake;
      }
    }
  if (check.truth.empty())
    return usage_error(fmt::format("no threshold of '{}' is known", claim.left),
                       "give the other dimensions values with -d");
  if (check.mistake.empty()) check.deciding_dims = std::move(open_dims);  // A mistake is wrong at any size
  return check;
}

const Prediction* find_operation(const Explanation& e, const std::string& name) {
  for (const Prediction& p : e.ops)
    if (p.work.name == name) return &p;
  if (name == "total") return &e.total;
  if (name == "fused" && e.fused) return &*e.fused;
  return nullptr;
}

ClaimCheck make_undecided(const Claim& claim, const std::vector<std::string>& dims) {
  return {.deciding_dims = dims, .claim = {}, .truth = fmt::format("{} has no value yet", claim.left), .mistake = {}};
}

Result<ClaimCheck> check_quantity_or_limiter(const Explanation& e, const Claim& claim, const std::string& what,
                                             const Prediction& p) {
  const std::vector<std::string> open_dims = p.flops ? std::vector<std::string>() : dims_without_value(e, p, "");
  if (what == "limiter") {
    if (!p.limiter && !open_dims.empty()) return make_undecided(claim, open_dims);
    if (!p.limiter) return usage_error("the limiter is unknown: a dimension has no value, or the machine has no peak");
    return ClaimCheck{.right = claim.right == name(*p.limiter),
                      .claim = {},
                      .truth = fmt::format("{} = {}", claim.left, name(*p.limiter)),
                      .mistake = {}};
  }
  if (std::isnan(claim.number))
    return usage_error(fmt::format("expected a number above 0 for {}, found '{}'", claim.left, claim.right));
  for (const ClaimQuantity& quantity : quantities) {
    if (quantity.name != what) continue;
    const auto truth = quantity.get(p);
    if (!truth && !open_dims.empty()) return make_undecided(claim, open_dims);
    if (!truth)
      return usage_error(fmt::format("{} has no value here", claim.left), "give every dimension a value with -d");
    return check_quantity(claim, quantity, *truth, p, e.dims);
  }
  return usage_error(fmt::format("unknown quantity '{}'", what));
}

Result<ClaimCheck> check_parsed_claim(const Explanation& e, const Claim& claim) {
  const std::size_t dot = claim.left.find('.');
  const std::string what = dot == std::string::npos ? claim.left : claim.left.substr(dot + 1);
  const Prediction* p = e.ops.size() == 1 ? &e.ops[0] : &e.total;
  if (dot != std::string::npos) p = find_operation(e, claim.left.substr(0, dot));
  if (!p) return usage_error(fmt::format("the program has no operation '{}'", claim.left.substr(0, dot)));
  std::vector<std::string> quantity_names{"limiter"};
  for (const ClaimQuantity& quantity : quantities) quantity_names.emplace_back(quantity.name);
  if (contains(quantity_names, what)) return check_quantity_or_limiter(e, claim, what, *p);
  if (contains(e.dim_names, what)) {
    if (std::isnan(claim.number))
      return usage_error(fmt::format("expected a number above 0 for {}, found '{}'", claim.left, claim.right));
    return check_threshold(e, claim, what, dot == std::string::npos ? nullptr : p);
  }
  return usage_error(fmt::format("'{}' is neither a dimension ({}) nor one of {}", what, fmt::join(e.dim_names, ", "),
                                 fmt::join(quantity_names, ", ")));
}

}  // namespace

Result<ClaimCheck> check_claim(const Explanation& explanation, const std::string& text) {
  RIDGE_TRY(claim, parse_claim(text));
  auto check = check_parsed_claim(explanation, claim);
  if (check) check->claim = fmt::format("{} {} {}", claim.left, claim.relation, claim.right);
  return check;
}

}  // namespace ridge
