// Counts by dividing boxes of indices. A box in which the formula is true or false needs no further work. If all sums
// of unknown sign are multiples of one sum of indices, such as index(S) - index(T), the pairs on either side of each
// line are counted in closed form. Otherwise the box is divided: where a condition on one index changes, between the
// multiples of a divisor, or in the middle. Two lines meet in one point, so that a few boxes per halving remain; boxes
// of a periodic formula that differ by a multiple of the period are counted once.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "ridge/roofline/regions/numeric_formula.h"
#include "ridge/roofline/regions/region.h"

namespace ridge {
namespace {

constexpr std::int64_t max_work = 100'000;  // Limit of the sums that are evaluated, some milliseconds
constexpr std::int64_t max_extent = std::int64_t{1} << 40, max_devices = 1 << 12;

__int128 count_tuples(const Box& box, std::size_t begin, std::size_t end) {
  __int128 out = 1;
  for (std::size_t v = begin; v < end; ++v) out *= box[v].count();
  return out;
}

using ValueRuns = std::vector<std::pair<__int128, __int128>>;  // First and last value of each run, ascending

// Values of a sum of indices with coprime factors for which the formula holds.
struct LineSet {
  Coefficients factors = {};
  ValueRuns values;
};

// Divides by the common factor so that the first factor is positive; returns the multiple, or 0 if all factors are 0.
std::int64_t make_coprime(Coefficients& factors) {
  std::int64_t common = 0;
  for (const std::int64_t f : factors) common = std::gcd(common, f);
  if (common == 0) return 0;
  for (const std::int64_t f : factors) {
    if (f == 0) continue;
    if (f < 0) common = -common;
    break;
  }
  for (std::int64_t& f : factors) f /= common;
  return common;
}

NumericRange find_line_range(const Coefficients& factors, const Box& box) { return find_range({factors}, box); }

// Returns the number of tuples whose sum is at least `bound`, among the variables with a factor; nullopt for three.
std::optional<__int128> count_line(const Coefficients& factors, const Box& box, __int128 bound) {
  std::vector<std::size_t> used;
  for (std::size_t v = 0; v < max_variables; ++v)
    if (factors[v] != 0) used.push_back(v);
  if (used.size() == 1) return count_above(factors[used[0]], box[used[0]], bound);
  if (used.size() != 2) return std::nullopt;
  return count_above(factors[used[0]], box[used[0]], factors[used[1]], box[used[1]], bound);
}

class RegionCounter {
 public:
  RegionCounter(const NumericFormula& formula, std::size_t kept, std::size_t variables, std::int64_t& work_left)
      : formula_(formula),
        kept_(kept),
        variables_(variables),
        memorizes_(formula.has_quotients()),
        work_left_(work_left) {}

  // Counts all tuples in a box, or those of the kept variables that have some value of the others.
  std::optional<__int128> count_box(const Box& box) {
    if (kept_ == variables_) return count_all(box);
    if (is_full(box)) return count_tuples(box, 0, kept_);
    if (const auto edge = find_range_edge(box)) return count_halves(box, *edge);
    return count_projection(box, {box});
  }

 private:
  using Signs = std::vector<Truth>;

  std::optional<LineSet> find_line(const Box& box, const Signs& signs) const;
  static std::optional<__int128> count_lines(const LineSet& lines, const Box& box, std::size_t variables);
  std::optional<__int128> count_all(const Box& box);
  std::optional<__int128> count_one_if_any(const std::vector<Box>& boxes);
  std::optional<__int128> count_projection(const Box& kept, std::vector<Box> alternatives);
  std::optional<__int128> project_lines(const LineSet& lines, const Box& box) const;
  bool is_full(const Box& box);

  // Returns false once too much work has been done.
  bool take_step() {
    work_left_ -= formula_.count_sums();
    return work_left_ >= 0;
  }

  struct Split {
    std::size_t variable = max_variables;
    std::int64_t position = 0;  // First index of the second part
  };
  std::optional<Split> find_range_edge(const Box& box) const;
  std::optional<__int128> count_halves(const Box& box, const Split& split);
  std::optional<Split> find_breakpoint(const Box& box, const Signs& signs) const;
  Split choose_split(const Box& box, const Signs& signs, std::size_t end) const;
  std::optional<std::vector<std::int64_t>> make_key(const Box& box, const Signs& signs) const;

  const NumericFormula& formula_;
  std::size_t kept_, variables_;
  bool memorizes_;
  std::int64_t& work_left_;
  std::map<std::vector<std::int64_t>, __int128> known_;
};

// Returns nullopt unless all open sums are multiples of one sum.
std::optional<LineSet> RegionCounter::find_line(const Box& box, const Signs& signs) const {
  struct Bound {
    std::size_t sum;
    std::int64_t factor;
    __int128 rest;
  };
  LineSet out;
  std::vector<Bound> bounds;
  for (const std::size_t i : formula_.list_open_sums(signs)) {
    auto linear = find_linear_sum(formula_.sum(i), box);
    if (!linear) return std::nullopt;
    const std::int64_t factor = make_coprime(linear->factors);
    if (!bounds.empty() && linear->factors != out.factors) return std::nullopt;
    out.factors = linear->factors;
    bounds.push_back({i, factor, linear->rest});
  }
  const NumericRange range = find_line_range(out.factors, box);
  std::vector<__int128> starts{range.low};
  for (const Bound& b : bounds) {
    const __int128 start = b.factor > 0 ? -divide_down(b.rest, b.factor) : divide_down(b.rest, -b.factor) + 1;
    if (start > range.low && start <= range.high) starts.push_back(start);
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    Signs decided = signs;
    for (const Bound& b : bounds) decided[b.sum] = b.factor * starts[i] + b.rest >= 0 ? Truth::yes : Truth::no;
    if (formula_.evaluate(decided) != Truth::yes) continue;
    const __int128 last = i + 1 < starts.size() ? starts[i + 1] - 1 : range.high;
    if (!out.values.empty() && out.values.back().second + 1 == starts[i])
      out.values.back().second = last;
    else
      out.values.emplace_back(starts[i], last);
  }
  return out;
}

// Counts the tuples of the first `variables` variables.
std::optional<__int128> RegionCounter::count_lines(const LineSet& lines, const Box& box, std::size_t variables) {
  __int128 sum = 0, others = 1;
  for (const auto& [low, high] : lines.values) {
    const auto above = count_line(lines.factors, box, low), beyond = count_line(lines.factors, box, high + 1);
    if (!above || !beyond) return std::nullopt;
    sum += *above - *beyond;
  }
  for (std::size_t v = 0; v < variables; ++v)
    if (lines.factors[v] == 0) others *= box[v].count();
  return sum * others;
}

// Finds where a condition on one index changes.
std::optional<RegionCounter::Split> RegionCounter::find_breakpoint(const Box& box, const Signs& signs) const {
  for (const std::size_t i : formula_.list_open_sums(signs)) {
    auto linear = find_linear_sum(formula_.sum(i), box);
    if (!linear) continue;
    const std::int64_t factor = make_coprime(linear->factors);
    const auto is_used = [](std::int64_t f) { return f != 0; };
    if (std::count_if(linear->factors.begin(), linear->factors.end(), is_used) != 1) continue;
    const auto used = std::find_if(linear->factors.begin(), linear->factors.end(), is_used);
    const auto start = factor > 0 ? -divide_down(linear->rest, factor) : divide_down(linear->rest, -factor) + 1;
    return Split{static_cast<std::size_t>(used - linear->factors.begin()), static_cast<std::int64_t>(start)};
  }
  return std::nullopt;
}

// Returns the multiple of `step` in (low, high] that is closest to the middle, or the middle if there is none.
std::int64_t middle_multiple(IndexRange range, std::int64_t step) {
  const std::int64_t middle = range.low + range.count() / 2;
  const std::int64_t below = middle / step * step, above = below + step;
  if (below <= range.low && above > range.high) return middle;
  if (below <= range.low) return above;
  return above > range.high || middle - below <= above - middle ? below : above;
}

void list_divisors(const NumericSum& sum, std::array<std::int64_t, max_variables>& periods) {
  for (const NumericSum::Quotient& q : sum.quotients) {
    const NumericSum& dividend = q.dividend.front();
    for (std::size_t v = 0; v < max_variables; ++v)
      if (dividend.factors[v] != 0 && periods[v] < max_extent)
        periods[v] = std::lcm(periods[v], q.divisor / std::gcd(q.divisor, dividend.factors[v]));
    list_divisors(dividend, periods);
  }
}

// Divides the longest variable below `end` that an open sum contains: between multiples of its period if it is longer.
RegionCounter::Split RegionCounter::choose_split(const Box& box, const Signs& signs, std::size_t end) const {
  if (const auto found = find_breakpoint(box, signs); found && found->variable < end) return *found;
  std::array<std::int64_t, max_variables> periods;
  periods.fill(1);
  std::array<bool, max_variables> used = {};
  const std::function<void(const NumericSum&)> mark = [&](const NumericSum& sum) {
    for (std::size_t v = 0; v < max_variables; ++v) used[v] = used[v] || sum.factors[v] != 0;
    for (const NumericSum::Sequence& s : sum.sequences) used[s.variable] = true;
    for (const NumericSum::Quotient& q : sum.quotients) mark(q.dividend.front());
  };
  const std::vector<std::size_t> open = formula_.list_open_sums(signs);
  for (const std::size_t i : open) {
    mark(formula_.sum(i));
    list_divisors(formula_.sum(i), periods);
  }
  Split out;
  for (std::size_t v = 0; v < end; ++v)
    if (used[v] && box[v].count() > 1 && (out.variable == max_variables || box[v].count() > box[out.variable].count()))
      out.variable = v;
  if (out.variable == max_variables) return out;
  const IndexRange& range = box[out.variable];
  for (const std::size_t i : open)  // Between sequences
    for (const NumericSum::Sequence& s : formula_.sum(i).sequences) {
      if (s.variable != out.variable) continue;
      const auto first = std::upper_bound(s.ends.begin(), s.ends.end(), range.low),
                 last = std::upper_bound(s.ends.begin(), s.ends.end(), range.high);
      if (first != last) return {out.variable, *(first + (last - first) / 2)};
    }
  std::int64_t step = std::max<std::int64_t>(1, periods[out.variable]);
  if (step >= range.count()) step = 1;
  while (step * 2 < range.count()) step *= 2;
  out.position = middle_multiple(range, step);
  return out;
}

// Appends what distinguishes a sum in a box from the same sum in another box of that size; adds the sum's constant part
// to `base`. Returns false if a sequence varies.
bool add_to_key(const NumericSum& sum, const Box& box, __int128& base, std::vector<std::int64_t>& key) {
  base += sum.rest;
  for (std::size_t v = 0; v < max_variables; ++v)
    if (sum.factors[v] != 0) base += static_cast<__int128>(sum.factors[v]) * box[v].low;
  if (!sum.sequences.empty()) return false;
  for (const NumericSum::Quotient& q : sum.quotients) {
    __int128 inner = 0;
    if (!add_to_key(q.dividend.front(), box, inner, key)) return false;
    const __int128 whole = divide_down(inner, q.divisor);
    key.push_back(static_cast<std::int64_t>(inner - whole * q.divisor));
    base += q.coefficient * whole;
  }
  return true;
}

std::optional<std::vector<std::int64_t>> RegionCounter::make_key(const Box& box, const Signs& signs) const {
  std::vector<std::int64_t> key;
  for (std::size_t v = 0; v < variables_; ++v) key.push_back(box[v].count());
  for (const Truth sign : signs) key.push_back(static_cast<std::int64_t>(sign));
  for (const std::size_t i : formula_.list_open_sums(signs)) {
    __int128 base = 0;
    if (!add_to_key(formula_.sum(i), box, base, key)) return std::nullopt;
    key.push_back(static_cast<std::int64_t>(base));
  }
  return key;
}

std::optional<__int128> RegionCounter::count_all(const Box& box) {
  if (!take_step()) return std::nullopt;
  Signs signs;
  const Truth truth = formula_.evaluate(box, signs);
  if (truth != Truth::open) return truth == Truth::yes ? count_tuples(box, 0, variables_) : 0;
  if (const auto lines = find_line(box, signs))
    if (const auto found = count_lines(*lines, box, variables_)) return found;
  const auto key = memorizes_ ? make_key(box, signs) : std::nullopt;
  if (key)
    if (const auto found = known_.find(*key); found != known_.end()) return found->second;
  const Split split = choose_split(box, signs, variables_);
  Box first = box, second = box;
  first[split.variable].high = split.position - 1;
  second[split.variable].low = split.position;
  const auto a = count_all(first);
  const auto b = a ? count_all(second) : std::nullopt;
  if (!b) return std::nullopt;
  if (key) known_.emplace(*key, *a + *b);
  return *a + *b;
}

// The part of a sum of indices that a projection omits: a variable times its factor.
struct OmittedTerm {
  std::int64_t step = 0;  // Absolute value of the factor; 0 if no omitted variable has one
  __int128 low = 0, high = 0;
};

// Returns the term of the variables `begin` … `end` - 1, or nullopt if several of them have a factor.
std::optional<OmittedTerm> find_omitted_term(const Coefficients& factors, const Box& box, std::size_t begin,
                                             std::size_t end) {
  OmittedTerm out;
  for (std::size_t v = begin; v < end; ++v) {
    const std::int64_t f = factors[v];
    if (f == 0) continue;
    if (out.step != 0) return std::nullopt;
    out = {.step = std::abs(f),
           .low = static_cast<__int128>(f) * (f > 0 ? box[v].low : box[v].high),
           .high = static_cast<__int128>(f) * (f > 0 ? box[v].high : box[v].low)};
  }
  return out;
}

// For some x in its range, a*k + b*x is in a run of values: a*k is in that run less b*x, for the smallest to the
// largest b*x, if the run has at least b values. Returns the runs of k, or nullopt if a run is too short.
std::optional<ValueRuns> project_runs(const ValueRuns& values, const NumericRange& all, const OmittedTerm& omitted,
                                      std::int64_t factor) {
  ValueRuns out;
  for (const auto& [first, last] : values) {
    if (last - first + 1 < omitted.step && first != all.low && last != all.high) return std::nullopt;
    __int128 begin = (first == all.low ? first - omitted.step : first) - omitted.high,
             end = (last == all.high ? last + omitted.step : last) - omitted.low;
    if (factor < 0) std::swap(begin = -begin, end = -end);
    const std::int64_t c = std::abs(factor);
    out.emplace_back(-divide_down(-begin, c), divide_down(end, c));
  }
  return out;
}

// Returns the same values in ascending runs with gaps between them; a run whose last value precedes its first is empty.
ValueRuns merge_runs(ValueRuns runs) {
  std::sort(runs.begin(), runs.end());
  ValueRuns out;
  for (const auto& [first, last] : runs) {
    if (first > last) continue;
    if (!out.empty() && first <= out.back().second + 1)
      out.back().second = std::max(out.back().second, last);
    else
      out.emplace_back(first, last);
  }
  return out;
}

std::optional<__int128> RegionCounter::project_lines(const LineSet& lines, const Box& box) const {
  if (lines.values.empty()) return 0;
  const auto omitted = find_omitted_term(lines.factors, box, kept_, variables_);
  if (!omitted) return std::nullopt;
  LineSet kept;
  std::copy_n(lines.factors.begin(), kept_, kept.factors.begin());
  const std::int64_t factor = make_coprime(kept.factors);
  if (factor == 0) {
    for (const auto& [first, last] : lines.values)
      if (last - first + 1 >= omitted->step && last >= omitted->low && first <= omitted->high)
        return count_tuples(box, 0, kept_);
    return std::nullopt;
  }
  auto runs = project_runs(lines.values, find_line_range(lines.factors, box), *omitted, factor);
  if (!runs) return std::nullopt;
  kept.values = merge_runs(*std::move(runs));
  return count_lines(kept, box, kept_);
}

// Returns 1 if one of the boxes has a tuple, otherwise 0.
std::optional<__int128> RegionCounter::count_one_if_any(const std::vector<Box>& boxes) {
  for (const Box& each : boxes) {
    const auto found = count_all(each);
    if (!found || *found > 0) return found ? std::optional<__int128>(1) : std::nullopt;
  }
  return 0;
}

// Counts the tuples of a box of kept variables that have values of the others in one of the alternatives.
std::optional<__int128> RegionCounter::count_projection(const Box& kept, std::vector<Box> alternatives) {
  std::vector<Box> open;
  std::vector<Signs> all_signs;
  for (Box& each : alternatives) {
    if (!take_step()) return std::nullopt;
    std::copy_n(kept.begin(), kept_, each.begin());
    Signs signs;
    const Truth truth = formula_.evaluate(each, signs);
    if (truth == Truth::yes) return count_tuples(kept, 0, kept_);
    if (truth == Truth::no) continue;
    open.push_back(each);
    all_signs.push_back(std::move(signs));
  }
  if (open.empty()) return 0;
  if (count_tuples(kept, 0, kept_) == 1) return count_one_if_any(open);
  if (open.size() == 1)
    if (const auto lines = find_line(open[0], all_signs[0]))
      if (const auto found = project_lines(*lines, open[0])) return found;
  const bool one_open = open.size() == 1;
  const auto breakpoint = one_open ? find_breakpoint(open[0], all_signs[0]) : std::nullopt;
  Split split = breakpoint ? *breakpoint : choose_split(open[0], all_signs[0], kept_);
  if (split.variable == max_variables) split = choose_split(open[0], all_signs[0], variables_);
  if (split.variable >= kept_) {
    Box second = open[0];
    second[split.variable].low = split.position;
    open[0][split.variable].high = split.position - 1;
    open.push_back(second);
    return count_projection(kept, std::move(open));
  }
  Box first = kept, second = kept;
  first[split.variable].high = split.position - 1;
  second[split.variable].low = split.position;
  const auto a = count_projection(first, open);
  const auto b = a ? count_projection(second, std::move(open)) : std::nullopt;
  return b ? std::optional(*a + *b) : std::nullopt;
}

void replace_variable(NumericSum& sum, std::size_t from, std::size_t by) {
  sum.factors[by] += sum.factors[from];
  sum.factors[from] = 0;
  for (NumericSum::Sequence& s : sum.sequences)
    if (s.variable == from) s.variable = by;
  for (NumericSum::Quotient& q : sum.quotients) replace_variable(q.dividend.front(), from, by);
}

// True if every tuple has an easily found value of the others: the same index as a kept variable, the first, the last.
bool RegionCounter::is_full(const Box& box) {
  if (variables_ != kept_ + 1) return false;
  const std::size_t other = kept_;
  for (const std::int64_t index : {box[other].low, box[other].high}) {
    Box fixed = box;
    fixed[other] = {index, index};
    RegionCounter at_index(formula_, kept_, variables_, work_left_);
    at_index.kept_ = variables_;
    if (const auto found = at_index.count_all(fixed); found && *found == count_tuples(box, 0, kept_)) return true;
  }
  for (std::size_t v = 0; v < kept_; ++v) {
    if (box[v].low < box[other].low || box[v].high > box[other].high) continue;
    NumericFormula same = formula_;
    same.for_each_sum([&](NumericSum& sum) { replace_variable(sum, other, v); });
    RegionCounter diagonal(same, kept_, kept_, work_left_);
    if (const auto found = diagonal.count_all(box); found && *found == count_tuples(box, 0, kept_)) return true;
  }
  return false;
}

// Returns where a kept variable enters or leaves the range of the omitted one, a device's shard: inside, the same index
// is often a value, outside the first or the last one.
std::optional<RegionCounter::Split> RegionCounter::find_range_edge(const Box& box) const {
  if (variables_ != kept_ + 1) return std::nullopt;
  for (std::size_t v = 0; v < kept_; ++v)
    for (const std::int64_t position : {box[kept_].low, box[kept_].high + 1})
      if (position > box[v].low && position <= box[v].high) return Split{v, position};
  return std::nullopt;
}

std::optional<__int128> RegionCounter::count_halves(const Box& box, const Split& split) {
  Box first = box, second = box;
  first[split.variable].high = split.position - 1;
  second[split.variable].low = split.position;
  const auto a = count_box(first), b = a ? count_box(second) : std::nullopt;
  return b ? std::optional(*a + *b) : std::nullopt;
}

// Sizes, variables and devices of a region.
struct NumericRegion {
  NumericFormula formula;
  std::vector<std::string> dims;  // Dimension of each variable
  std::size_t kept = 0;
  std::vector<std::int64_t> extents;
};

std::optional<NumericRegion> make_numeric(const CountedRegion& counted, const Bindings& sizes) {
  std::vector<std::string> variables = counted.dims, dims = counted.dims;
  for (const auto& [variable, dim] : counted.region.bound()) {
    variables.push_back(variable);
    dims.push_back(dim);
  }
  std::map<std::string, std::vector<std::int64_t>> ends;
  for (std::size_t v = 0; v < variables.size(); ++v)
    if (const auto lengths = counted.sequences.find(dims[v]); lengths != counted.sequences.end())
      std::partial_sum(lengths->second.begin(), lengths->second.end(), std::back_inserter(ends[variables[v]]));
  std::vector<std::int64_t> extents;
  for (const std::string& dim : dims) {
    const auto size = sizes.find(dim);
    if (size == sizes.end() || size->second > max_extent) return std::nullopt;
    extents.push_back(size->second);
  }
  auto formula = NumericFormula::compile(counted.region.formula(), variables, ends, sizes);
  if (!formula) return std::nullopt;
  return NumericRegion{*std::move(formula), std::move(dims), counted.dims.size(), std::move(extents)};
}

// Numbers of devices along the mesh axes of a region, by letter.
std::map<char, std::int64_t> list_devices(const CountedRegion& counted, const Bindings& sizes) {
  std::map<char, std::int64_t> out;
  for (const auto& each : counted.mesh)
    for (const char letter : each.second)
      if (const auto size = sizes.find(std::string(1, letter)); size != sizes.end()) out[letter] = size->second;
  return out;
}

// Returns the box of one device, or nullopt if its shard is empty.
std::optional<Box> find_device_box(const NumericRegion& region, const CountedRegion& counted,
                                   const std::map<char, std::int64_t>& devices,
                                   const std::map<char, std::int64_t>& position) {
  Box out = {};
  for (std::size_t v = 0; v < region.dims.size(); ++v) {
    std::int64_t shards = 1, shard = 0;
    if (const auto mesh = counted.mesh.find(region.dims[v]); mesh != counted.mesh.end())
      for (const char letter : mesh->second)
        if (const auto count = devices.find(letter); count != devices.end()) {
          shards *= count->second;
          shard = shard * count->second + position.at(letter);
        }
    const std::int64_t each = (region.extents[v] - 1) / shards + 1;
    out[v] = {shard * each, std::min(region.extents[v], (shard + 1) * each) - 1};
    if (out[v].low > out[v].high) return std::nullopt;
  }
  return out;
}

struct DeviceCounts {
  __int128 largest = 0, sum = 0;
};

std::optional<DeviceCounts> count_on_devices(const CountedRegion& counted, const Bindings& sizes,
                                             std::int64_t& work_left) {
  const auto region = make_numeric(counted, sizes);
  if (!region) return std::nullopt;
  const std::map<char, std::int64_t> devices = list_devices(counted, sizes);
  std::int64_t all = 1;
  for (const auto& each : devices)
    if (__builtin_mul_overflow(all, each.second, &all)) return std::nullopt;
  if (all > max_devices) return std::nullopt;
  DeviceCounts out;
  for (std::int64_t device = 0; device < all; ++device) {
    std::map<char, std::int64_t> position;
    std::int64_t rest = device;
    for (const auto& [letter, count] : devices) {
      position[letter] = rest % count;
      rest /= count;
    }
    const auto box = find_device_box(*region, counted, devices, position);
    if (!box) continue;
    const auto count = RegionCounter(region->formula, region->kept, region->dims.size(), work_left).count_box(*box);
    if (!count) return std::nullopt;
    out.largest = std::max(out.largest, *count);
    out.sum += *count;
  }
  return out;
}

std::optional<std::int64_t> to_int64(__int128 count) {
  return count > INT64_MAX ? std::nullopt : std::optional(static_cast<std::int64_t>(count));
}

}  // namespace

std::optional<std::int64_t> count_region(const CountedRegion& region, const Bindings& sizes) {
  std::int64_t work_left = max_work;
  return count_region(region, sizes, work_left);
}

std::optional<std::int64_t> count_region(const CountedRegion& region, const Bindings& sizes, std::int64_t& work_left) {
  const auto counts = count_on_devices(region, sizes, work_left);
  return counts ? to_int64(counts->largest) : std::nullopt;
}

std::optional<std::int64_t> count_on_all_devices(const CountedRegion& region, const Bindings& sizes) {
  std::int64_t work_left = max_work;
  const auto counts = count_on_devices(region, sizes, work_left);
  return counts ? to_int64(counts->sum) : std::nullopt;
}

}  // namespace ridge
