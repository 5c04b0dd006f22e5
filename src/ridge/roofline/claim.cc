#include "ridge/roofline/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "ridge/base/text.h"
#include "ridge/roofline/threshold.h"

namespace ridge {
namespace {

struct Claim {
  std::string left, relation, right;
  double number = NAN;  // of `right`, where it is one
  double rounding = 0;  // half a unit of its last digit that is not a closing zero
};

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

// 8760 stands for 8755 to 8765, 240.2 for 240.15 to 240.25, 1e9 for 0.5e9 to 1.5e9.
double rounding_of(const std::string& digits) {
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
    claim.left = trimmed(text.substr(0, at));
    claim.right = trimmed(text.substr(at + std::string(relation).size()));
    break;
  }
  if (claim.left.empty() || claim.right.empty())
    return usage_error(fmt::format("expected a claim like 'B > 240' or 'intensity = 2', found '{}'", text));
  double value = 0;
  const char* end = claim.right.data() + claim.right.size();
  const auto [rest, status] = std::from_chars(claim.right.data(), end, value);
  if (status == std::errc{} && rest == end && std::isfinite(value) && value > 0) {
    claim.number = value;
    claim.rounding = rounding_of(claim.right);
  }
  return claim;
}

// Equal as it was rounded, and never further off than half a hundredth.
bool near(double claimed, double truth, double rounding) {
  return std::abs(claimed - truth) <= std::max(1e-9 * truth, std::min(rounding, 0.005 * truth));
}

struct Slip {
  double factor;  // claim / truth
  std::string_view words;
};

constexpr double gib = 1.073741824, mib = 1.048576, tib = 1.099511627776;
constexpr Slip unit_slips[] = {
    {gib, "GB taken for GiB: 1 GiB is 1.074 GB"},
    {1 / gib, "GiB taken for GB: 1 GiB is 1.074 GB"},
    {mib, "MB taken for MiB: 1 MiB is 1.049 MB"},
    {1 / mib, "MiB taken for MB: 1 MiB is 1.049 MB"},
    {tib, "TB taken for TiB: 1 TiB is 1.100 TB"},
    {1 / tib, "TiB taken for TB: 1 TiB is 1.100 TB"},
    {8, "bits taken for bytes"},
    {0.125, "bytes taken for bits"},
};

std::string unit_slip(const Claim& claim, double truth) {
  for (const Slip& slip : unit_slips)
    if (near(claim.number, truth * slip.factor, claim.rounding)) return std::string(slip.words);
  return "";
}

// --- quantities

struct Quantity {
  std::string_view name, unit;
  std::optional<double> (*of)(const Prediction&);
};

template <class T> std::optional<double> as_double(const std::optional<T>& value) {
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

constexpr Quantity quantities[] = {
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

// What somebody who computed `name` otherwise would have found.
std::string quantity_slip(const Claim& claim, std::string_view name, double truth, const Prediction& p,
                          const Bindings& dims) {
  const auto is = [&](double value) { return near(claim.number, value, claim.rounding); };
  const bool rate = name == "intensity" || name == "ridge", counts_flops = rate || name == "flops";
  if (rate && is(1 / truth)) return "inverted: these are bytes per FLOP";
  if (counts_flops && is(truth / 2)) return "half of it: multiply-adds were counted, and each is 2 FLOPs";
  if (counts_flops && is(truth * 2)) return "twice as much: a FLOP was counted for two";
  if (rate && (is(2 / truth) || is(0.5 / truth))) return "inverted, and a factor of two is lost";
  if (name == "time_network" && is(truth / 2)) return "half of it: the link's rate was taken both ways, it is one way";
  if (name == "time_network" && is(truth * 2))
    return "twice as much: the bytes were sent both ways one after the other";
  if (name == "time_lower" && p.time_upper_s && is(*p.time_upper_s)) return "the sum of the times: they may overlap";
  if (name == "time_upper" && p.time_lower_s && is(*p.time_lower_s)) return "the longest of the times alone";
  if (p.bytes && p.flops) {
    const double read = p.work.bytes_in.real({dims.begin(), dims.end()});
    if (name == "bytes" && is(read)) return "what is read; what is written is missing";
    if (name == "intensity" && is(static_cast<double>(*p.flops) / read)) return "the bytes written are missing";
  }
  if (is(truth / 2)) return "half of it: a factor of two is lost";
  if (is(truth * 2)) return "twice as much: a factor of two too many";
  return unit_slip(claim, truth);
}

ClaimVerdict quantity_verdict(const Claim& claim, const Quantity& quantity, double truth, const Prediction& p,
                              const Bindings& dims) {
  ClaimVerdict verdict;
  verdict.truth = fmt::format("{} = {} {}", claim.left, significant(truth, 6), quantity.unit);
  const bool equal = near(claim.number, truth, claim.rounding);
  verdict.right = truth <= claim.number || equal;
  if (claim.relation == "=") verdict.right = equal;
  if (claim.relation == ">") verdict.right = truth > claim.number;
  if (claim.relation == ">=") verdict.right = truth >= claim.number || equal;
  if (claim.relation == "<") verdict.right = truth < claim.number;
  if (!verdict.right && claim.relation == "=") verdict.slip = quantity_slip(claim, quantity.name, truth, p, dims);
  return verdict;
}

// --- dimensions

// The first (of at_most: the last) whole number that the claim names.
std::int64_t whole_of(const Claim& claim) {
  const double n = claim.number;
  if (n > 9e18) return INT64_MAX;
  if (claim.relation == ">") return static_cast<std::int64_t>(std::floor(n)) + 1;
  if (claim.relation == "<") return static_cast<std::int64_t>(std::ceil(n)) - 1;
  return static_cast<std::int64_t>(claim.relation == "<=" ? std::floor(n) : std::ceil(n));
}

std::string truth_of(const Threshold& t) {
  const std::string meaning = fmt::format("where {} takes at least as long as {}", name(t.roofs[0]), name(t.roofs[1]));
  if (t.relation == Relation::never)
    return fmt::format("no {}: {} never takes as long as {}", t.dim, name(t.roofs[0]), name(t.roofs[1]));
  if (t.relation == Relation::always)
    return fmt::format("every {}: {} always takes at least as long as {}", t.dim, name(t.roofs[0]), name(t.roofs[1]));
  std::string out = fmt::format("{} {} {}", t.dim, name(t.relation), t.value ? std::to_string(*t.value) : t.exact);
  if (t.numerical) out += ", solved numerically";
  if (t.value_real && !t.exact.empty()) out += fmt::format(": {} = {}", t.exact, significant(*t.value_real, 6));
  if (t.approx && !t.assuming.empty()) out += fmt::format("; {} where {}", significant(*t.approx, 6), t.assuming);
  return out + ", " + meaning;
}

std::string threshold_slip(const Claim& claim, const Threshold& t) {
  const auto is = [&](double value) { return near(claim.number, value, claim.rounding); };
  const bool network = t.roofs[1] == Limiter::network;
  if (t.value && t.approx && is(*t.approx))
    return fmt::format("the limit where {}, not the value at these sizes", t.assuming);
  for (const std::optional<double>& truth : {t.value_real, t.approx}) {
    if (!truth) continue;
    if (is(*truth / 2) && is(t.ratio))
      return fmt::format("half of it: the ratio of the two rates alone, {}; the factor of two in {} is lost",
                         significant(t.ratio, 6), t.exact);
    if (is(*truth / 2))
      return network ? "half of it: a factor of two is lost, or the link's rate was taken both ways"
                     : "half of it: a factor of two is lost, such as multiply-adds counted for FLOPs";
    if (is(*truth * 2))
      return network ? "twice as much: the link's rate was halved, it is one way already"
                     : "twice as much: a factor of two too many, such as a FLOP counted for a multiply-add";
    if (is(1 / *truth)) return "inverted";
    if (const std::string unit = unit_slip(claim, *truth); !unit.empty()) return unit;
  }
  if (is(t.ratio))
    return fmt::format("the ratio of the two rates, {}, which is not the threshold", significant(t.ratio, 6));
  return "";
}

bool agrees(const Claim& claim, const Threshold& t) {
  const bool upwards = claim.relation.starts_with(">");
  if (t.relation == Relation::always) return claim.relation != "=" && upwards && whole_of(claim) <= 1;
  if (t.relation != (upwards ? Relation::at_least : Relation::at_most)) return false;
  if (t.value && whole_of(claim) == *t.value) return true;
  if (t.value_real) return near(claim.number, *t.value_real, claim.rounding);
  return t.approx && near(claim.number, *t.approx, claim.rounding);
}

// The dimensions of an operation that have no value, but this one.
std::vector<std::string> without_value(const Explanation& e, const Prediction& p, const std::string& but) {
  const Polynomial all = p.work.flops + p.work.bytes();
  std::vector<std::string> out;
  for (const std::string& dim : all.symbols())
    if (dim != but && !e.dims.contains(dim)) out.push_back(dim);
  return out;
}

bool is_open(const Threshold& t) {
  return !t.value && (t.relation == Relation::at_least || t.relation == Relation::at_most);
}

// `of`: the operation or sum that was named; none: all operations.
Result<ClaimVerdict> threshold_verdict(const Explanation& e, const Claim& claim, const std::string& dim,
                                       const Prediction* of) {
  if (claim.relation == "=")
    return usage_error(fmt::format("expected a relation like '{} > {}', found '='", claim.left, claim.right));
  ClaimVerdict verdict;
  std::vector<std::string> open;
  for (const Prediction& p : of ? std::span(of, 1) : std::span(e.ops))
    for (const Threshold& t : p.thresholds) {
      if (t.dim != dim) continue;
      const std::string whose = of || e.ops.size() < 2 ? "" : p.work.name;
      if (agrees(claim, t))
        return ClaimVerdict{.right = true, .claim = {}, .truth = truth_of(t), .of = whose, .slip = {}};
      if (is_open(t)) open = without_value(e, p, dim);
      const std::string slip = threshold_slip(claim, t);
      // The first threshold stands for the truth, unless a later one explains the claim.
      if (verdict.truth.empty() || (verdict.slip.empty() && !slip.empty())) {
        verdict.truth = truth_of(t);
        verdict.of = whose;
        verdict.slip = slip;
      }
    }
  if (verdict.truth.empty())
    return usage_error(fmt::format("nothing is known about a threshold of '{}'", claim.left),
                       "give the other dimensions values with -d");
  if (verdict.slip.empty()) verdict.depends = std::move(open);  // a slip is one at any size
  return verdict;
}

const Prediction* operation(const Explanation& e, const std::string& name) {
  for (const Prediction& p : e.ops)
    if (p.work.name == name) return &p;
  if (name == "total") return &e.total;
  if (name == "fused" && e.fused) return &*e.fused;
  return nullptr;
}

ClaimVerdict undecided(const Claim& claim, const std::vector<std::string>& dims) {
  return {.depends = dims, .claim = {}, .truth = fmt::format("{} has no number yet", claim.left), .slip = {}};
}

Result<ClaimVerdict> quantity_or_limiter(const Explanation& e, const Claim& claim, const std::string& what,
                                         const Prediction& p) {
  const std::vector<std::string> open = p.flops ? std::vector<std::string>() : without_value(e, p, "");
  if (what == "limiter") {
    if (!p.limiter && !open.empty()) return undecided(claim, open);
    if (!p.limiter) return usage_error("the limiter is not known: a dimension has no value, or the machine no peak");
    return ClaimVerdict{.right = claim.right == name(*p.limiter),
                        .claim = {},
                        .truth = fmt::format("{} = {}", claim.left, name(*p.limiter)),
                        .slip = {}};
  }
  if (std::isnan(claim.number))
    return usage_error(fmt::format("expected a number above 0 for {}, found '{}'", claim.left, claim.right));
  for (const Quantity& quantity : quantities) {
    if (quantity.name != what) continue;
    const auto truth = quantity.of(p);
    if (!truth && !open.empty()) return undecided(claim, open);
    if (!truth)
      return usage_error(fmt::format("{} has no value here", claim.left), "give every dimension a value with -d");
    return quantity_verdict(claim, quantity, *truth, p, e.dims);
  }
  return usage_error(fmt::format("unknown quantity '{}'", what));
}

Result<ClaimVerdict> judged(const Explanation& e, const Claim& claim) {
  const std::size_t dot = claim.left.find('.');
  const std::string what = dot == std::string::npos ? claim.left : claim.left.substr(dot + 1);
  const Prediction* p = e.ops.size() == 1 ? &e.ops[0] : &e.total;
  if (dot != std::string::npos) p = operation(e, claim.left.substr(0, dot));
  if (!p) return usage_error(fmt::format("the program has no operation '{}'", claim.left.substr(0, dot)));
  std::vector<std::string> words{"limiter"};
  for (const Quantity& quantity : quantities) words.emplace_back(quantity.name);
  if (std::find(words.begin(), words.end(), what) != words.end()) return quantity_or_limiter(e, claim, what, *p);
  if (std::find(e.dim_names.begin(), e.dim_names.end(), what) != e.dim_names.end()) {
    if (std::isnan(claim.number))
      return usage_error(fmt::format("expected a number above 0 for {}, found '{}'", claim.left, claim.right));
    return threshold_verdict(e, claim, what, dot == std::string::npos ? nullptr : p);
  }
  return usage_error(fmt::format("'{}' is neither a dimension ({}) nor one of {}", what, fmt::join(e.dim_names, ", "),
                                 fmt::join(words, ", ")));
}

}  // namespace

Result<ClaimVerdict> check_claim(const Explanation& explanation, const std::string& text) {
  const auto claim = parse_claim(text);
  if (!claim) return claim.error();
  auto verdict = judged(explanation, *claim);
  if (verdict) verdict->claim = fmt::format("{} {} {}", claim->left, claim->relation, claim->right);
  return verdict;
}

}  // namespace ridge
