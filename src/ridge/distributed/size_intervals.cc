#include "ridge/distributed/size_intervals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "ridge/roofline/sending/level_work.h"

namespace ridge {
namespace {

constexpr std::int64_t max_interval_devices = 1 << 16;
constexpr std::int64_t min_ring_side = 4;  // Chips of each axis if rings of any size wrap around
constexpr std::size_t max_intervals = 16, max_coefficients = 4;

// Sizes with equal keys share one formula. The key has, for each transfer, its devices on all levels but the outermost,
// the index of the slowest level, and the number of links in use.
using FormulaKey = std::vector<std::vector<std::int64_t>>;
struct SizeClass {
  FormulaKey key;
  std::int64_t step = 1;
};

struct DeviceWork {
  Polynomial flops, bytes_sent;
};

Rational coefficient_ratio(const Polynomial& sent, const Polynomial& bytes) {
  if (sent.is_zero() || bytes.is_zero()) return 0;
  return sent.terms().begin()->second / bytes.terms().begin()->second;
}

std::int64_t round_bytes_per_s(double rate) { return std::max<std::int64_t>(1, std::llround(rate)); }

// Returns the number of links in use, or 0 if each other device has its own link, so that the number does not matter.
std::int64_t occupied_links(const LevelWork& level, const Network& network) {
  const std::int64_t used = std::llround(level.rate / network.rate);
  return network.topology == Topology::direct && used == level.group_size - 1 ? 0 : used;
}

// Compares times as exact fractions; rounding could start an interval one size late.
std::size_t slowest_level(const Transfer& t, const std::vector<LevelWork>& levels) {
  std::size_t out = 0;
  const auto time = [&](std::size_t i) {
    return coefficient_ratio(levels[i].bytes_sent, t.bytes) / Rational(round_bytes_per_s(levels[i].rate));
  };
  for (std::size_t i = 1; i < levels.size(); ++i)
    if (time(i) > time(out)) out = i;
  return out;
}

class SizedProgram {
 public:
  SizedProgram(const Program& program, Network network, std::string axes, const Bindings& fixed)
      : program_(program), network_(std::move(network)), axes_(std::move(axes)), fixed_(fixed) {
    network_.latency_s = network_.step_s = 0;  // the thresholds are for large transfers
    bool is_outer = true;
    for (const MeshAxis& axis : program.mesh)
      if (axes_.find(axis.name[0]) != std::string::npos)
        is_outer = false;
      else
        (is_outer ? outer_chips_ : inner_chips_) *= fixed.at(axis.name);
  }

  SizeClass size_class(std::int64_t size) const {
    SizeClass out{.key = {{side_of(size)}}, .step = step_at(size)};
    const std::int64_t n = (size + out.step - 1) / out.step * out.step;
    const Network network = network_at(n);
    for (const Work& work : work_at(n))
      for (const Transfer& t : work.transfers) {
        const std::vector<LevelWork> levels = count_level_work(t, network);
        std::vector<std::int64_t> key{static_cast<std::int64_t>(slowest_level(t, levels)), std::ssize(levels)};
        key.push_back(occupied_links(levels[0], network));
        const bool is_open = t.mesh_axes.find_first_of(axes_) != std::string::npos;
        for (std::size_t i = 0; i + (is_open ? 1 : 0) < levels.size(); ++i) key.push_back(levels[i].group_size);
        out.key.push_back(std::move(key));
      }
    return out;
  }

  // Returns the largest size that the links join.
  std::int64_t max_size() const {
    if (network_.first_link_chips == 0 || !network_.outer_levels.empty()) return max_interval_devices;
    return std::min(max_interval_devices, network_.first_link_chips / (outer_chips_ * inner_chips_));
  }

  // Returns the sizes of the open axes on n chips. On a torus, several axes are w x w x n/w^2 chips; further pods are
  // along the first axis.
  std::vector<std::int64_t> shape_of(std::int64_t n) const {
    const std::int64_t side = side_of(n), pod = side == 1 ? n : std::min(n, pod_size());
    std::vector<std::int64_t> out(axes_.size(), side);
    out.back() = pod;
    for (std::size_t i = 0; i + 1 < axes_.size(); ++i) out.back() /= side;
    out.front() *= n / pod;
    return out;
  }

  // Returns the size of the largest part that the first link joins.
  std::int64_t pod_size() const {
    if (network_.first_link_chips == 0 || network_.outer_levels.empty()) return max_interval_devices;
    return std::max<std::int64_t>(1, network_.first_link_chips / inner_chips_);
  }

  // Returns w: the chips of the shortest ring if all axes can be rings, or 2 if each can be a line.
  std::int64_t side_of(std::int64_t n) const {
    if (axes_.size() < 2 || network_.topology != Topology::ring || network_.links < 2) return 1;
    const std::int64_t ring = std::max(min_ring_side, network_.min_ring_chips);
    const auto fits = [&](std::int64_t side) {
      return std::min(n, pod_size()) >= static_cast<std::int64_t>(std::pow(side, axes_.size()));
    };
    if (fits(ring) && n * outer_chips_ * inner_chips_ >= network_.min_torus_chips) return ring;
    return fits(2) ? 2 : 1;
  }

  // Sets `link` and `rate` from the slowest level of the first transfer.
  void set_slowest_link(SizeInterval& out) const {
    const Network network = network_at(out.from);
    for (const Work& work : work_at(out.from))
      for (const Transfer& t : work.transfers) {
        const std::vector<LevelWork> levels = count_level_work(t, network);
        const LevelWork& level = levels[slowest_level(t, levels)];
        out.link = level.link;
        out.rate = level.rate;
        return;
      }
  }

  DeviceWork work_for_size(std::int64_t n, double rate) const {
    const Network network = network_at(n);
    DeviceWork out;
    for (const Work& work : work_at(n)) {
      // The largest part of a mask is no polynomial in 1/n; without it the count is an upper limit.
      if (work.contraction) out.flops += work.has_split_mask ? get_flops_without_masks(work) : work.flops;
      for (const Transfer& t : work.transfers) {
        const std::vector<LevelWork> levels = count_level_work(t, network);
        const LevelWork& level = levels[slowest_level(t, levels)];
        out.bytes_sent += level.bytes_sent * Rational(round_bytes_per_s(rate), round_bytes_per_s(level.rate));
      }
    }
    return out;
  }

 private:
  // Returns the step of the sizes around n that have this shape and fill whole nodes, pods and leaves.
  std::int64_t step_at(std::int64_t n) const {
    std::int64_t out = 1;
    for (std::size_t i = 1; i < axes_.size(); ++i) out *= side_of(n);
    std::int64_t reach = network_.first_link_chips;
    for (std::size_t i = 0; i < network_.outer_levels.size() && reach > 0; reach = network_.outer_levels[i++].chips)
      if (n * outer_chips_ * inner_chips_ > reach) out = std::lcm(out, reach / std::gcd(reach, inner_chips_));
    return out;
  }
  Bindings sizes_at(std::int64_t n) const {
    Bindings out = fixed_;
    const std::vector<std::int64_t> shape = shape_of(n);
    for (std::size_t i = 0; i < axes_.size(); ++i) out[std::string(1, axes_[i])] = shape[i];
    return out;
  }
  std::vector<Work> work_at(std::int64_t n) const { return count_work(program_, sizes_at(n)); }
  Network network_at(std::int64_t n) const {
    Network out = network_;
    const Bindings sizes = sizes_at(n);
    out.mesh.clear();
    for (const MeshAxis& axis : program_.mesh) out.mesh.emplace_back(axis.name[0], sizes.at(axis.name));
    return out;
  }

  const Program& program_;
  Network network_;
  std::string axes_;
  const Bindings& fixed_;
  std::int64_t outer_chips_ = 1, inner_chips_ = 1;  // Chips of the fixed axes before the open ones, and of the others
};

// Returns the coefficients of c0 + c1/n + … that interpolate `values` at `points` exactly, by Gaussian elimination.
std::vector<Rational> solve_coefficients(const std::vector<std::int64_t>& points, const std::vector<Rational>& values) {
  const std::size_t k = points.size();
  std::vector<std::vector<Rational>> rows;
  for (std::size_t i = 0; i < k; ++i) {
    std::vector<Rational> coefficients{1};
    for (std::size_t j = 1; j < k; ++j) coefficients.push_back(coefficients.back() * Rational(1, points[i]));
    coefficients.push_back(values[i]);
    rows.push_back(std::move(coefficients));
  }
  for (std::size_t p = 0; p < k; ++p)
    for (std::size_t i = 0; i < k; ++i) {
      if (i == p) continue;
      const Rational by = rows[i][p] / rows[p][p];
      for (std::size_t j = p; j <= k; ++j) rows[i][j] = rows[i][j] - by * rows[p][j];
    }
  std::vector<Rational> out;
  for (std::size_t i = 0; i < k; ++i) out.push_back(rows[i][k] / rows[i][i]);
  return out;
}

Rational eval_in_inverse_powers(const std::vector<Rational>& coefficients, std::int64_t n) {
  Rational out = 0, power = 1;
  for (const Rational& each : coefficients) {
    out = out + each * power;
    power = power * Rational(1, n);
  }
  return out;
}

Rational coefficient_of(const Polynomial& p, const Monomial& monomial) {
  const auto found = p.terms().find(monomial);
  return found == p.terms().end() ? Rational(0) : found->second;
}

// Returns the shortest polynomial in 1/n through the values, times n^(max_coefficients - 1); nullopt if none fits.
std::optional<Polynomial> fit_in_inverse_powers(const std::vector<std::int64_t>& points,
                                                const std::vector<Polynomial>& values, const std::string& symbol) {
  std::set<Monomial> all;
  for (const Polynomial& value : values)
    for (const auto& term : value.terms()) all.insert(term.first);
  Polynomial out;
  for (const Monomial& monomial : all) {
    std::vector<Rational> monomial_values;
    for (const Polynomial& value : values) monomial_values.push_back(coefficient_of(value, monomial));
    std::optional<std::vector<Rational>> coefficients;
    for (std::size_t k = 1; k <= std::min(max_coefficients, points.size()) && !coefficients; ++k) {
      const auto prefix = static_cast<std::ptrdiff_t>(k);
      coefficients = solve_coefficients({points.begin(), points.begin() + prefix},
                                        {monomial_values.begin(), monomial_values.begin() + prefix});
      for (std::size_t i = 0; coefficients && i < points.size(); ++i)
        if (!eval_in_inverse_powers(*coefficients, points[i]).is_exact() ||
            eval_in_inverse_powers(*coefficients, points[i]) != monomial_values[i])
          coefficients.reset();
    }
    if (!coefficients) return std::nullopt;
    for (std::size_t k = 0; k < coefficients->size(); ++k) {
      std::vector<std::string> symbols(max_coefficients - 1 - k, symbol);
      for (const auto& [name, power] : monomial) symbols.insert(symbols.end(), static_cast<std::size_t>(power), name);
      out += Polynomial::make_term((*coefficients)[k], std::move(symbols));
    }
  }
  return out;
}

// Returns the first sizes of an interval, some larger ones and the last.
std::vector<std::int64_t> sample_sizes(const SizeInterval& s) {
  const std::int64_t last = s.to == 0 ? max_interval_devices / s.step * s.step : s.to,
                     count = (last - s.from) / s.step + 1;
  std::set<std::int64_t> indices;
  for (const std::int64_t index : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4},
                                   std::int64_t{5}, std::int64_t{8}, std::int64_t{13}, count / 2, count - 1})
    if (index < count) indices.insert(index);
  std::vector<std::int64_t> out;
  for (const std::int64_t index : indices) out.push_back(s.from + index * s.step);
  return out;
}

// Sets the formulas of the interval; false if there are none.
bool solve_interval(SizeInterval& s, const SizedProgram& sized, const std::string& axes) {
  sized.set_slowest_link(s);
  const std::vector<std::int64_t> points = sample_sizes(s);
  std::vector<Polynomial> flops, sent;
  for (const std::int64_t n : points) {
    DeviceWork counts = sized.work_for_size(n, s.rate);
    flops.push_back(std::move(counts.flops));
    sent.push_back(std::move(counts.bytes_sent));
  }
  const auto flops_fit = fit_in_inverse_powers(points, flops, axes),
             sent_fit = fit_in_inverse_powers(points, sent, axes);
  if (!flops_fit || !sent_fit) return false;
  s.flops = *flops_fit;
  s.bytes_sent = *sent_fit;
  return true;
}

// Solves for even sizes only: on a ring that sends both ways, the bytes depend on parity.
bool solve_even_sizes(SizeInterval& s, const SizedProgram& sized, const std::string& axes) {
  s.step *= 2;
  s.from += s.from % s.step == 0 ? 0 : s.step - s.from % s.step;
  if (s.to > 0) s.to = s.to / s.step * s.step;
  return (s.to == 0 || s.to >= s.from) && solve_interval(s, sized, axes);
}

// Returns the last size with the same key as `from`; equal keys are contiguous.
std::int64_t last_size_with_key(const SizedProgram& sized, std::int64_t from, const FormulaKey& key) {
  std::int64_t in = from, out = sized.max_size() + 1;
  while (out - in > 1) {
    const std::int64_t middle = in + (out - in) / 2;
    (sized.size_class(middle).key == key ? in : out) = middle;
  }
  return in;
}

Status validate_axes(const Program& program, const Network& network, const std::string& axes, const Bindings& fixed) {
  if (network.first_link_chips == 0 || network.outer_levels.empty()) return Done{};
  std::int64_t inner = 1;
  std::size_t seen = 0;
  for (auto axis = program.mesh.rbegin(); axis != program.mesh.rend(); ++axis) {
    if (axes.find(axis->name[0]) != std::string::npos) {
      ++seen;
    } else if (seen == 0) {
      inner *= fixed.at(axis->name);
    } else if (seen < axes.size()) {
      return input_error(fmt::format("mesh axis {} is between those of {}, so their chips are not contiguous in a node",
                                     axis->name, axes),
                         fmt::format("declare it before or after them, or give {} a size with -d", axes.substr(0, 1)));
    }
  }
  if (inner < network.first_link_chips ? network.first_link_chips % inner == 0 : inner % network.first_link_chips == 0)
    return Done{};
  return input_error(fmt::format("{} chips of the axes after {} do not divide {}'s reach of {} chips, so the bytes "
                                 "sent have no closed form in {}",
                                 inner, axes, network.link, network.first_link_chips, axes),
                     fmt::format("give it a size: -d {}=8", axes.substr(0, 1)));
}

}  // namespace

Result<std::vector<SizeInterval>> find_size_intervals(const Program& program, Network network, const std::string& axes,
                                                      const Bindings& fixed) {
  RIDGE_TRY_STATUS(validate_axes(program, network, axes, fixed));
  const SizedProgram sized(program, std::move(network), axes, fixed);
  const auto none = [&] {
    return input_error(fmt::format("the bytes sent have no closed form in {}", axes),
                       fmt::format("give it a size: -d {}=8", axes.substr(0, 1)));
  };
  std::vector<SizeInterval> out;
  for (std::int64_t n = 2; n <= sized.max_size();) {
    const SizeClass current = sized.size_class(n);
    const std::int64_t last = last_size_with_key(sized, n, current.key), step = current.step;
    SizeInterval s{(n + step - 1) / step * step, last == max_interval_devices ? 0 : last / step * step, step};
    n = last + 1;
    if (s.to > 0 && s.to < s.from) continue;
    if (const auto shape = sized.shape_of(s.from); sized.side_of(s.from) > 1 && s.from <= sized.pod_size())
      s.shape.assign(shape.begin(), shape.end() - 1);
    if (!solve_interval(s, sized, axes) && !solve_even_sizes(s, sized, axes)) return none();
    out.push_back(std::move(s));
    if (out.size() > max_intervals) return none();
  }
  return out;
}

static std::string format_range(const SizeInterval& s, const std::string& axes) {
  if (s.to == s.from) return fmt::format("{} = {}", axes, s.from);
  if (s.step == 1)
    return s.to == 0 ? fmt::format("{} >= {}", axes, s.from) : fmt::format("{} = {} to {}", axes, s.from, s.to);
  if (s.to == 0) return fmt::format("{} = {}, {}, …", axes, s.from, s.from + s.step);
  if (s.to == s.from + s.step) return fmt::format("{} = {}, {}", axes, s.from, s.to);
  if (s.to == s.from + 2 * s.step) return fmt::format("{} = {}, {}, {}", axes, s.from, s.from + s.step, s.to);
  return fmt::format("{} = {}, {}, … {}", axes, s.from, s.from + s.step, s.to);
}

std::string format_sizes(const SizeInterval& s, const std::string& axes) {
  std::string out = format_range(s, axes);
  std::int64_t divisor = 1;
  for (std::size_t i = 0; i < s.shape.size(); ++i, divisor *= s.shape[i - 1])
    out += fmt::format("{}{}", i == 0 ? " as " : " x ", s.shape[i]);
  return s.shape.empty() ? out : out + fmt::format(" x {}/{}", axes, divisor);
}

}  // namespace ridge
