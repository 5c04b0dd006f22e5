#include "ridge/roofline/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "ridge/base/cores.h"
#include "ridge/roofline/balance.h"

namespace ridge {
namespace {

constexpr double beyond = 0x1p63;

using Names = std::vector<std::string>;  // of the sizes of a point: those of the ranges, then those that hang on them

// A polynomial as a list of products: whole coefficients over one denominator, sizes as indices.
class FlatCount {
 public:
  FlatCount(const Polynomial& polynomial, const Names& names) {
    for (const auto& term : polynomial.terms()) denominator_ = std::lcm(denominator_, term.second.den());
    for (const auto& [monomial, coefficient] : polynomial.terms()) {
      Term term{coefficient.num() * (denominator_ / coefficient.den()), {}};
      for (const auto& [symbol, power] : monomial) {
        const auto name = std::find(names.begin(), names.end(), symbol);
        for (int i = 0; i < power; ++i) term.factors.push_back(static_cast<int>(name - names.begin()));
      }
      terms_.push_back(std::move(term));
    }
  }

  bool zero() const { return terms_.empty(); }
  std::int64_t denominator() const { return denominator_; }

  // The value times the denominator; none: it leaves 2^63. Whole arithmetic wraps, and what a double says of the size
  // tells whether it did.
  std::optional<std::int64_t> scaled(const std::int64_t* sizes) const {
    std::uint64_t exact = 0;
    double rough = 0, largest = 0;
    for (const Term& term : terms_) {
      std::uint64_t product = static_cast<std::uint64_t>(term.coefficient);
      double size = static_cast<double>(term.coefficient);
      for (const int factor : term.factors) {
        product *= static_cast<std::uint64_t>(sizes[factor]);
        size *= static_cast<double>(sizes[factor]);
      }
      exact += product;
      rough += size;
      largest = std::max(largest, std::abs(size));
    }
    if (std::max(largest, std::abs(rough)) >= beyond * (1 - 1e-12)) return std::nullopt;
    return static_cast<std::int64_t>(exact);
  }

 private:
  struct Term {
    std::int64_t coefficient;
    std::vector<int> factors;
  };
  std::vector<Term> terms_;
  std::int64_t denominator_ = 1;
};

struct FlatOp {
  FlatCount flops, bytes, sent;
  double peak = 0;  // 0: the machine has none
};

struct Part {  // a size that must fall into equal parts
  int name = 0;
  std::int64_t parts = 1;
  std::uint16_t reason = 0;  // of its being unknown where it does not
};

// Places of SweepLine::reasons; behind them those of derived sizes, in their order, then those of parts.
enum : std::uint16_t { nothing_unknown, beyond_range, no_peak, first_derived };

struct FlatProgram {
  Names names;
  std::vector<FlatCount> derived;  // the sizes behind those of the ranges, each in what stands before it
  std::vector<Part> parts;
  std::vector<FlatOp> ops;
  FlatCount bytes;  // of all, rounded up once
  double bandwidth = 0, link = 1;
  std::vector<std::string> reasons;
};

struct FlatRoof {
  Limiter name = Limiter::compute;
  std::int64_t count = 0, scale = 1;  // count/scale FLOPs or bytes
  double rate = 1;
  double time() const { return static_cast<double>(count) / static_cast<double>(scale) / rate; }
};

// As explain() does: what doubles cannot tell apart is decided in whole numbers.
bool takes_as_long(const FlatRoof& a, const FlatRoof& b) {
  const double x = a.time(), y = b.time();
  if (std::abs(x - y) > 1e-9 * y) return x > y;
  std::int64_t above = 0, below = 0;
  if (__builtin_mul_overflow(a.count, b.scale, &above) || __builtin_mul_overflow(b.count, a.scale, &below))
    return x >= y;
  return compute_bound(Line{0, above}, Line{0, below}, 1, {a.rate, b.rate});
}

// Times of the operations so far, and which roof has which share of them.
struct Times {
  double lower = 0, upper = 0;
  std::array<double, 3> by = {};  // compute, memory, network
  void add(std::span<const FlatRoof> roofs) {
    const FlatRoof* top = &roofs.front();
    for (const FlatRoof& roof : roofs) {
      if (!takes_as_long(*top, roof)) top = &roof;
      upper += roof.time();
    }
    lower += top->time();
    by[static_cast<std::size_t>(top->name)] += top->time();
  }
  Limiter limiter() const { return static_cast<Limiter>(std::max_element(by.begin(), by.end()) - by.begin()); }
};

// Writes the sizes that hang on others; the reason if one is none, or something does not fall into equal parts.
std::uint16_t complete(const FlatProgram& program, std::int64_t* sizes) {
  const std::size_t first = program.names.size() - program.derived.size();
  for (std::size_t i = 0; i < program.derived.size(); ++i) {
    const auto size = program.derived[i].scaled(sizes);
    if (!size) return beyond_range;
    if (*size < 1) return static_cast<std::uint16_t>(first_derived + i);
    sizes[first + i] = *size;
  }
  for (const Part& part : program.parts)
    if (sizes[part.name] % part.parts != 0) return part.reason;
  return nothing_unknown;
}

// `sizes` begins with those of the ranges and has room for the others.
SweepPoint evaluate(const FlatProgram& program, std::int64_t* sizes) {
  SweepPoint point;
  point.reason = complete(program, sizes);
  if (point.reason != nothing_unknown) return point;
  point.reason = beyond_range;
  const auto all = program.bytes.scaled(sizes);
  if (!all) return point;
  std::int64_t flops = 0;
  Times times;
  bool timed = true;
  for (const FlatOp& op : program.ops) {
    const auto f = op.flops.scaled(sizes), b = op.bytes.scaled(sizes), s = op.sent.scaled(sizes);
    if (!f || !b || !s) return point;
    if (__builtin_add_overflow(flops, *f / op.flops.denominator(), &flops)) return point;
    timed = timed && op.peak > 0;
    if (!timed) continue;
    const std::array roofs{FlatRoof{Limiter::compute, *f, op.flops.denominator(), op.peak},
                           FlatRoof{Limiter::memory, *b, op.bytes.denominator(), program.bandwidth},
                           FlatRoof{Limiter::network, *s, op.sent.denominator(), program.link}};
    times.add(std::span(roofs).first(op.sent.zero() ? 2 : 3));
  }
  point.flops = flops;
  point.bytes = *all / program.bytes.denominator() + (*all % program.bytes.denominator() != 0);
  point.reason = timed ? nothing_unknown : no_peak;
  if (!timed) return point;
  point.time_lower_s = times.lower;
  point.time_upper_s = times.upper;
  point.limiter = times.limiter();
  return point;
}

// Sizes in the order in which they can be computed: those of the ranges, then what hangs on them. The others keep the
// values that `first` gives them.
class Sizes {
 public:
  Sizes(const Program& program, const std::vector<Range>& ranges, const Bindings& first) : first_(first) {
    for (const Range& range : ranges) names_.push_back(range.dim);
    const std::set<std::string> moving = moving_sizes(program);
    for (bool again = true; again;) {
      again = false;
      for (const Dimension& dim : program.dims) {
        if (!moving.contains(dim.name) || named(dim.name)) continue;
        const auto symbols = dim.value->symbols();
        const auto there = [&](const std::string& s) { return named(s) || !moving.contains(s); };
        const bool known = std::all_of(symbols.begin(), symbols.end(),
                                       [&](const std::string& s) { return named(s) || first_.contains(s); });
        if (!known || !std::all_of(symbols.begin(), symbols.end(), there)) continue;
        derived_.push_back(flat(*dim.value));
        names_.push_back(dim.name);
        again = true;
      }
    }
  }

  const Names& names() const { return names_; }
  const std::vector<FlatCount>& derived() const { return derived_; }

  FlatCount flat(Polynomial count) const {
    for (const std::string& symbol : count.symbols())
      if (!named(symbol)) count = count.substitute(symbol, Polynomial(first_.at(symbol)));
    return FlatCount(count, names_);
  }
  // Of a program's counts. Errors: a dimension without a value, 2^63.
  Result<FlatCount> compiled(const Polynomial& count) const {
    for (const std::string& symbol : count.symbols())
      if (!named(symbol) && !first_.contains(symbol))
        return usage_error(fmt::format("dimension '{}' has no value", symbol),
                           fmt::format("give it one or several: -d {0}=256, -d {0}=1..4096:*2", symbol));
    if (count.exact()) return flat(count);
    return input_error(fmt::format("expected a count below 2^63, found {}", count.text()), "use smaller sizes");
  }
  int place(const std::string& name) const {
    return static_cast<int>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }
  bool named(const std::string& name) const { return place(name) < static_cast<int>(names_.size()); }

 private:
  // What hangs on a range, directly or through others.
  std::set<std::string> moving_sizes(const Program& program) const {
    std::set<std::string> moving;
    for (bool again = true; again;) {
      again = false;
      for (const Dimension& dim : program.dims) {
        if (!dim.value || named(dim.name) || moving.contains(dim.name)) continue;
        const auto symbols = dim.value->symbols();
        const bool moves = std::any_of(symbols.begin(), symbols.end(),
                                       [&](const std::string& s) { return named(s) || moving.contains(s); });
        if (!moves) continue;
        moving.insert(dim.name);
        again = true;
      }
    }
    return moving;
  }

  const Bindings& first_;
  Names names_;
  std::vector<FlatCount> derived_;
};

// What must fall into equal parts: the split dimension, and what is sharded.
void add_parts(FlatProgram& flat, const Program& program, const Sizes& sizes, const Bindings& mesh,
               const std::optional<Split>& cut) {
  const auto add = [&](const std::string& dim, std::int64_t parts, const std::string& whose) {
    const int name = sizes.place(dim);
    const auto same = [&](const Part& part) { return part.name == name && part.parts == parts; };
    if (!sizes.named(dim) || std::any_of(flat.parts.begin(), flat.parts.end(), same)) return;
    flat.parts.push_back({name, parts, static_cast<std::uint16_t>(flat.reasons.size())});
    flat.reasons.push_back(fmt::format("{} is no multiple of the {} {}", dim, parts, whose));
  };
  if (cut) add(cut->dim, cut->chips, "chips");
  for (const Tensor& tensor : program.tensors)
    for (const Axis& axis : tensor.axes) {
      std::int64_t parts = 1;
      for (const char letter : axis.mesh) parts *= mesh.at(std::string(1, letter));
      if (parts > 1) add(axis.dim, parts, "devices of " + axis.dim + "_" + axis.mesh);
    }
}

// Why a point may be unknown, but for parts.
std::vector<std::string> reasons(const Program& program, const Sizes& sizes, const Explanation& e) {
  std::vector<std::string> out{"", "a count leaves 2^63", e.total.missing + " is not on record"};
  const std::size_t first = sizes.names().size() - sizes.derived().size();
  for (std::size_t i = first; i < sizes.names().size(); ++i)
    for (const Dimension& dim : program.dims)
      if (dim.name == sizes.names()[i])
        out.push_back(fmt::format("{} = {} is below 1", dim.name, dim.value->text(e.dim_names)));
  return out;
}

Result<FlatProgram> compile(const Sizes& sizes, const Explanation& e) {
  std::vector<FlatOp> ops;
  for (const Prediction& p : e.ops) {
    auto flops = sizes.compiled(p.work.flops), bytes = sizes.compiled(p.work.bytes()),
         sent = sizes.compiled(p.work.bytes_sent);
    for (const auto* each : {&flops, &bytes, &sent})
      if (!*each) return each->error();
    ops.push_back({*std::move(flops), *std::move(bytes), *std::move(sent), p.peak ? p.peak->rate.value : 0});
  }
  auto bytes = sizes.compiled(e.total.work.bytes());
  if (!bytes) return bytes.error();
  return FlatProgram{.names = sizes.names(),
                     .derived = sizes.derived(),
                     .parts = {},
                     .ops = std::move(ops),
                     .bytes = *std::move(bytes),
                     .bandwidth = *e.total.bandwidth,
                     .link = e.total.link.value_or(1),
                     .reasons = {}};
}

// A part of the points; every part begins where the last range begins.
void fill(const FlatProgram& program, const std::vector<Range>& ranges, std::size_t first,
          std::span<SweepPoint> points) {
  const std::size_t n = ranges.size(), fastest = ranges.empty() ? 1 : ranges.back().values.size();
  std::vector<std::int64_t> sizes(program.names.size());
  std::vector<std::size_t> at(n);
  std::size_t rest = first;
  for (std::size_t i = n; i-- > 0; rest /= ranges[i].values.size()) {
    at[i] = rest % ranges[i].values.size();
    sizes[i] = ranges[i].values[at[i]];
  }
  for (std::size_t k = 0; k < points.size(); ++k) {
    points[k] = evaluate(program, sizes.data());
    if (k > 0 && (first + k) % fastest != 0)
      points[k].crossed =
          points[k].time_lower_s >= 0 && points[k - 1].time_lower_s >= 0 && points[k].limiter != points[k - 1].limiter;
    for (std::size_t i = n; i-- > 0;) {
      at[i] = at[i] + 1 == ranges[i].values.size() ? 0 : at[i] + 1;
      sizes[i] = ranges[i].values[at[i]];
      if (at[i] != 0) break;
    }
  }
}

}  // namespace

std::int64_t Sweep::value(std::size_t point, std::size_t range) const {
  for (std::size_t i = ranges.size() - 1; i > range; --i) point /= ranges[i].values.size();
  return ranges[range].values[point % ranges[range].values.size()];
}

Result<std::size_t> combinations(const std::vector<Range>& ranges) {
  std::size_t count = 1;
  std::set<std::string> seen;
  for (const Range& range : ranges) {
    if (!seen.insert(range.dim).second)
      return usage_error(fmt::format("dimension '{}' is given twice", range.dim), "give each dimension once");
    count *= range.values.size();
    if (count > max_sweep_points)
      return usage_error(fmt::format("expected at most {} points, found more", max_sweep_points),
                         "take larger steps, or fewer dimensions at a time");
  }
  return count;
}

namespace {

// The sizes of mesh axes among the ranges; everything else is swept.
Result<Bindings> mesh_sizes(const Program& program, const std::vector<Range>& ranges) {
  Bindings out;
  for (const Range& range : ranges)
    for (const MeshAxis& axis : program.mesh) {
      if (axis.name != range.dim) continue;
      if (range.values.size() > 1)
        return usage_error(
            fmt::format("expected one size of the mesh axis {}, found {}", axis.name, range.values.size()),
            "--split N=1,2,4 sweeps over chips, of a program that is not sharded");
      out[axis.name] = range.values.front();
    }
  return out;
}

Result<FlatProgram> compiled(const Program& program, const Machine& machine, const std::vector<Range>& ranges,
                             const std::optional<Split>& cut) {
  const auto mesh = mesh_sizes(program, ranges);
  if (!mesh) return mesh.error();
  Program open = program, names;
  names.dims = program.dims;
  names.mesh = program.mesh;
  Bindings first;
  for (const Range& range : ranges) first[range.dim] = range.values.front();
  for (Dimension& dim : names.dims) dim.value.reset();
  if (const auto known = names.bind(first); !known) return known.error();
  for (Dimension& dim : open.dims)
    if (first.contains(dim.name)) dim.value.reset();
  const auto fixed = open.bind(*mesh);  // what hangs on no range
  if (!fixed) return fixed.error();
  for (Dimension& dim : open.dims) dim.value.reset();
  const auto explanation = explain(open, machine, *mesh, cut);  // in formulas
  if (!explanation) return explanation.error();
  const Sizes sizes(program, ranges, *fixed);
  auto flat = compile(sizes, *explanation);
  if (!flat) return flat.error();
  flat->reasons = reasons(program, sizes, *explanation);
  add_parts(*flat, program, sizes, *fixed, cut);
  return flat;
}

}  // namespace

Result<SweepLine> sweep_line(const Program& program, const Machine& machine, const std::vector<Range>& ranges,
                             const std::optional<Split>& cut, const std::function<void(double)>& done) {
  const auto count = combinations(ranges);
  if (!count) return count.error();
  const auto flat = compiled(program, machine, ranges, cut);
  if (!flat) return flat.error();
  SweepLine line{.machine = machine.name,
                 .dtype = {},
                 .split = cut,
                 .points = std::vector<SweepPoint>(*count),
                 .reasons = flat->reasons};
  // Blocks are whole runs of the last range, about 2^15 points, taken by whichever thread is free.
  const std::size_t fastest = ranges.empty() ? 1 : ranges.back().values.size();
  const std::size_t block = std::max<std::size_t>(1, 32768 / fastest) * fastest;
  std::atomic<std::size_t> next = 0;
  const auto work = [&](bool tells) {
    for (std::size_t from = next.fetch_add(block); from < *count; from = next.fetch_add(block)) {
      fill(*flat, ranges, from, std::span(line.points).subspan(from, std::min(block, *count - from)));
      if (tells && done) done(static_cast<double>(std::min(*count, from + block)) / static_cast<double>(*count));
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < usable_cores() && *count > block; ++i) others.emplace_back(work, false);
    work(true);
  }
  return line;
}

}  // namespace ridge
