#include "ridge/distributed/stretches.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "ridge/roofline/sizes/levels.h"

namespace ridge {
namespace {

constexpr std::int64_t most_devices = 1 << 16;
constexpr std::size_t most_stretches = 16, most_coefficients = 4;

// What decides the formula: of each transfer its devices on all levels but the outermost, which level is slowest, and
// how many links it takes.
using Key = std::vector<std::vector<std::int64_t>>;
struct Shape {
  Key key;
  std::int64_t step = 1;
};

struct Counted {
  Polynomial flops, sent;
};

Rational part_of(const Polynomial& sent, const Polynomial& bytes) {
  if (sent.zero() || bytes.zero()) return 0;
  return sent.terms().begin()->second / bytes.terms().begin()->second;
}

std::int64_t whole(double rate) { return std::max<std::int64_t>(1, std::llround(rate)); }

// A link to each of the others brings every part at once, however many there are, until links are short.
std::int64_t links_of(const LevelWork& level, const Network& network) {
  const std::int64_t used = std::llround(level.rate / network.rate);
  return network.topology == Topology::direct && used == level.members - 1 ? 0 : used;
}

// Times as exact fractions, so that no formula is taken a size too late.
std::size_t slowest(const Transfer& t, const std::vector<LevelWork>& levels) {
  std::size_t out = 0;
  const auto time = [&](std::size_t i) { return part_of(levels[i].sent, t.bytes) / Rational(whole(levels[i].rate)); };
  for (std::size_t i = 1; i < levels.size(); ++i)
    if (time(i) > time(out)) out = i;
  return out;
}

class Open {
 public:
  Open(const Program& program, Network network, std::string axes, const Bindings& fixed)
      : program_(program), network_(std::move(network)), axes_(std::move(axes)), fixed_(fixed) {
    network_.latency_s = 0;  // bounds of large sizes
  }

  Shape shape(std::int64_t n) const {
    const Network network = network_at(n);
    Shape out;
    for (const Work& work : works(n))
      for (const Transfer& t : work.transfers) {
        const std::vector<LevelWork> levels = levels_of(t, network);
        std::vector<std::int64_t> key{static_cast<std::int64_t>(slowest(t, levels)), std::ssize(levels)};
        key.push_back(links_of(levels[0], network));
        const bool open = t.over.find_first_of(axes_) != std::string::npos;
        std::int64_t inside = 1;
        for (std::size_t i = 0; i + (open ? 1 : 0) < levels.size(); ++i) {
          key.push_back(levels[i].members);
          inside *= levels[i].members;
        }
        out.key.push_back(std::move(key));
        if (open) out.step = std::lcm(out.step, inside / std::gcd(inside, t.devices / n));
      }
    return out;
  }

  // `link` and `rate` are those of the slowest level of the first transfer.
  void name_link(Stretch& out) const {
    const Network network = network_at(out.from);
    for (const Work& work : works(out.from))
      for (const Transfer& t : work.transfers) {
        const std::vector<LevelWork> levels = levels_of(t, network);
        const LevelWork& level = levels[slowest(t, levels)];
        out.link = level.link;
        out.rate = level.rate;
        return;
      }
  }

  Counted counted(std::int64_t n, double rate) const {
    const Network network = network_at(n);
    Counted out;
    for (const Work& work : works(n)) {
      if (work.contraction) out.flops += work.flops;
      for (const Transfer& t : work.transfers) {
        const std::vector<LevelWork> levels = levels_of(t, network);
        const LevelWork& level = levels[slowest(t, levels)];
        out.sent += level.sent * Rational(whole(rate), whole(level.rate));
      }
    }
    return out;
  }

 private:
  Bindings at(std::int64_t n) const {
    Bindings out = fixed_;
    for (std::size_t i = 0; i < axes_.size(); ++i) out[std::string(1, axes_[i])] = i == 0 ? n : 1;
    return out;
  }
  std::vector<Work> works(std::int64_t n) const { return count(program_, at(n)); }
  Network network_at(std::int64_t n) const {
    Network out = network_;
    const Bindings sizes = at(n);
    out.mesh.clear();
    for (const MeshAxis& axis : program_.mesh) out.mesh.emplace_back(axis.name[0], sizes.at(axis.name));
    return out;
  }

  const Program& program_;
  Network network_;
  std::string axes_;
  const Bindings& fixed_;
};

// c0 + c1/n + … through the values at `points`, exactly; solved by elimination.
std::vector<Rational> coefficients(const std::vector<std::int64_t>& points, const std::vector<Rational>& values) {
  const std::size_t k = points.size();
  std::vector<std::vector<Rational>> rows;
  for (std::size_t i = 0; i < k; ++i) {
    std::vector<Rational> row{1};
    for (std::size_t j = 1; j < k; ++j) row.push_back(row.back() * Rational(1, points[i]));
    row.push_back(values[i]);
    rows.push_back(std::move(row));
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

Rational value_at(const std::vector<Rational>& row, std::int64_t n) {
  Rational out = 0, power = 1;
  for (const Rational& each : row) {
    out = out + each * power;
    power = power * Rational(1, n);
  }
  return out;
}

Rational coefficient(const Polynomial& p, const Monomial& monomial) {
  const auto found = p.terms().find(monomial);
  return found == p.terms().end() ? Rational(0) : found->second;
}

// The polynomial in 1/n, of as few coefficients as will do, times n^(most_coefficients - 1). None: it is none.
std::optional<Polynomial> in_n(const std::vector<std::int64_t>& points, const std::vector<Polynomial>& values,
                               const std::string& symbol) {
  std::set<Monomial> all;
  for (const Polynomial& value : values)
    for (const auto& term : value.terms()) all.insert(term.first);
  Polynomial out;
  for (const Monomial& monomial : all) {
    std::vector<Rational> here;
    for (const Polynomial& value : values) here.push_back(coefficient(value, monomial));
    std::optional<std::vector<Rational>> row;
    for (std::size_t k = 1; k <= std::min(most_coefficients, points.size()) && !row; ++k) {
      const auto some = static_cast<std::ptrdiff_t>(k);
      row = coefficients({points.begin(), points.begin() + some}, {here.begin(), here.begin() + some});
      for (std::size_t i = 0; row && i < points.size(); ++i)
        if (!value_at(*row, points[i]).exact() || value_at(*row, points[i]) != here[i]) row.reset();
    }
    if (!row) return std::nullopt;
    for (std::size_t k = 0; k < row->size(); ++k) {
      std::vector<std::string> symbols(most_coefficients - 1 - k, symbol);
      for (const auto& [name, power] : monomial) symbols.insert(symbols.end(), static_cast<std::size_t>(power), name);
      out += Polynomial::product((*row)[k], std::move(symbols));
    }
  }
  return out;
}

// The first sizes of a stretch, some far ones, the last.
std::vector<std::int64_t> points_of(const Stretch& s) {
  const std::int64_t last = s.to == 0 ? most_devices / s.step * s.step : s.to, count = (last - s.from) / s.step + 1;
  std::set<std::int64_t> places;
  for (const std::int64_t place : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4},
                                   std::int64_t{5}, std::int64_t{8}, std::int64_t{13}, count / 2, count - 1})
    if (place < count) places.insert(place);
  std::vector<std::int64_t> out;
  for (const std::int64_t place : places) out.push_back(s.from + place * s.step);
  return out;
}

// Fills in the formulas; whether there are any.
bool solve(Stretch& s, const Open& open, const std::string& axes) {
  open.name_link(s);
  const std::vector<std::int64_t> points = points_of(s);
  std::vector<Polynomial> flops, sent;
  for (const std::int64_t n : points) {
    Counted counted = open.counted(n, s.rate);
    flops.push_back(std::move(counted.flops));
    sent.push_back(std::move(counted.sent));
  }
  const auto computed = in_n(points, flops, axes), moved = in_n(points, sent, axes);
  if (!computed || !moved) return false;
  s.flops = *computed;
  s.sent = *moved;
  return true;
}

// What is sent both ways round a ring hangs on parity: then the even sizes.
bool solve_even(Stretch& s, const Open& open, const std::string& axes) {
  s.step *= 2;
  s.from += s.from % s.step == 0 ? 0 : s.step - s.from % s.step;
  if (s.to > 0) s.to = s.to / s.step * s.step;
  return (s.to == 0 || s.to >= s.from) && solve(s, open, axes);
}

// The last size with the same key as `from`: keys stand in one row.
std::int64_t last_alike(const Open& open, std::int64_t from, const Key& key) {
  std::int64_t in = from, out = most_devices + 1;
  while (out - in > 1) {
    const std::int64_t middle = in + (out - in) / 2;
    (open.shape(middle).key == key ? in : out) = middle;
  }
  return in;
}

std::optional<Error> refused(const Program& program, const Network& network, const std::string& axes,
                             const Bindings& fixed) {
  if (network.reach == 0 || network.beyond.empty()) return std::nullopt;
  std::int64_t inner = 1;
  std::size_t seen = 0;
  for (auto axis = program.mesh.rbegin(); axis != program.mesh.rend(); ++axis) {
    if (axes.find(axis->name[0]) != std::string::npos) {
      ++seen;
    } else if (seen == 0) {
      inner *= fixed.at(axis->name);
    } else if (seen < axes.size()) {
      return input_error(fmt::format("mesh axis {} stands between those of {}, so that their chips do not lie side by "
                                     "side in a node",
                                     axis->name, axes),
                         fmt::format("declare it before or behind them, or give {} a size with -d", axes.substr(0, 1)));
    }
  }
  if (inner < network.reach ? network.reach % inner == 0 : inner % network.reach == 0) return std::nullopt;
  return input_error(fmt::format("{} chips of the axes behind {} do not divide {}'s reach of {} chips, so that what is "
                                 "sent has no closed form in {}",
                                 inner, axes, network.link, network.reach, axes),
                     fmt::format("give it a size: -d {}=8", axes.substr(0, 1)));
}

}  // namespace

Result<std::vector<Stretch>> stretches(const Program& program, Network network, const std::string& axes,
                                       const Bindings& fixed) {
  if (auto wrong = refused(program, network, axes, fixed)) return *std::move(wrong);
  const Open open(program, std::move(network), axes, fixed);
  const auto none = [&] {
    return input_error(fmt::format("what is sent has no closed form in {}", axes),
                       fmt::format("give it a size: -d {}=8", axes.substr(0, 1)));
  };
  std::vector<Stretch> out;
  for (std::int64_t n = 2; n <= most_devices;) {
    const Shape shape = open.shape(n);
    const std::int64_t last = last_alike(open, n, shape.key), step = shape.step;
    Stretch s{(n + step - 1) / step * step, last == most_devices ? 0 : last / step * step, step};
    n = last + 1;
    if (s.to > 0 && s.to < s.from) continue;
    if (!solve(s, open, axes) && !solve_even(s, open, axes)) return none();
    out.push_back(std::move(s));
    if (out.size() > most_stretches) return none();
  }
  return out;
}

std::string sizes_text(const Stretch& s, const std::string& axes) {
  if (s.to == s.from) return fmt::format("{} = {}", axes, s.from);
  if (s.step == 1)
    return s.to == 0 ? fmt::format("{} >= {}", axes, s.from) : fmt::format("{} = {} to {}", axes, s.from, s.to);
  if (s.to == 0) return fmt::format("{} = {}, {}, …", axes, s.from, s.from + s.step);
  if (s.to == s.from + s.step) return fmt::format("{} = {}, {}", axes, s.from, s.to);
  if (s.to == s.from + 2 * s.step) return fmt::format("{} = {}, {}, {}", axes, s.from, s.from + s.step, s.to);
  return fmt::format("{} = {}, {}, … {}", axes, s.from, s.from + s.step, s.to);
}

}  // namespace ridge
