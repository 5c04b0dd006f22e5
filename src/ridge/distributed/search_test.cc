#include "ridge/distributed/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ridge/roofline/testing/random_program.h"
#include "ridge/roofline/testing/toy_machine.h"

namespace ridge {
namespace {

Machine toy() {
  Machine machine = testing::toy_machine({{DType::bf16, 1e12}}, 1e12, 1e10);
  machine.links.push_back({.name = "ici", .bandwidth = testing::number(1e9), .topology = Topology::switched});
  machine.links.back().count = testing::number(4);
  return machine;
}

struct Case {
  Program program;
  Bindings sizes;
  Mesh mesh;
};

// Each statement a product or a pointwise sum of what there is.
Case drawn(int statements, std::mt19937& engine) {
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine); };
  std::string text;
  std::vector<std::pair<std::string, std::string>> there;  // name, dimensions
  const auto dims = [&] {
    std::string out;
    for (const char dim : std::string("ABC"))
      if (below(2)) out += dim;
    return out.empty() ? std::string("A") : out;
  };
  const auto bracketed = [](const std::string& names) {
    std::string out;
    for (const char dim : names) out += (out.empty() ? "[" : ", ") + std::string(1, dim);
    return out + "]";
  };
  for (int i = 0; i < 2; ++i) {
    there.emplace_back("x" + std::to_string(i), dims());
    text += there.back().first + ": bf16" + bracketed(there.back().second) + "\n";
  }
  for (int s = 0; s < statements; ++s) {
    const auto a = there[static_cast<std::size_t>(below(static_cast<int>(there.size())))];
    const auto b = there[static_cast<std::size_t>(below(static_cast<int>(there.size())))];
    std::string both, result;
    for (const char dim : std::string("ABC"))
      if (a.second.find(dim) != std::string::npos || b.second.find(dim) != std::string::npos) both += dim;
    const bool product = below(2) && a.first != b.first;
    for (const char dim : both) {  // a product sums what both have, at random
      const bool shared = a.second.find(dim) != std::string::npos && b.second.find(dim) != std::string::npos;
      if (!(product && shared && below(2))) result += dim;
    }
    if (result.empty()) result = both;
    const std::string name = "y" + std::to_string(s);
    text += name + (below(4) ? "" : ": bf16") + bracketed(result) + " = " + a.first + (product ? " * " : " + ") +
            b.first + "\n";
    there.emplace_back(name, result);
  }
  Case out{parse(text).value(), {}, {}};
  for (const std::string& dim : out.program.dim_names())
    out.sizes[dim] = std::vector<int>{3, 6, 64, 256}[static_cast<std::size_t>(below(4))];
  out.mesh.axes = {{'X', 2 + below(2)}};
  if (below(3) == 0) out.mesh.axes.push_back({'Y', 2});
  return out;
}

// How many shardings there are, about.
double shardings(const Case& c) {
  double out = 1;
  for (std::size_t s = 0; s < c.program.statements.size(); ++s) {
    const Statement& statement = c.program.statements[s];
    out *= static_cast<double>(every_cut(c.program, statement, c.mesh, c.sizes).size());
    const Tensor& result = c.program.tensors[static_cast<std::size_t>(statement.result())];
    if (s + 1 < c.program.statements.size())
      out *= static_cast<double>(every_layout(c.program, result, c.mesh, c.sizes).size());
  }
  return out;
}

// One to four statements, few enough shardings to look at each of them.
Case random_case(unsigned seed) {
  std::mt19937 engine(seed);
  for (;;) {
    Case out = drawn(1 + static_cast<int>(seed % 4), engine);
    const double all = shardings(out);
    if (all > 1 && all < 400) return out;
  }
}

// Every sharding, by recursion over statements and tensors, each judged by itself.
class Enumeration {
 public:
  Enumeration(const Costs& costs, double capacity) : costs_(costs), capacity_(capacity) {
    const Program& program = costs.program();
    cuts_.resize(program.statements.size());
    for (const Tensor& t : program.tensors) kept_.push_back({.cut = std::vector<std::string>(t.axes.size())});
  }
  std::vector<double> fastest(std::size_t count) {
    statement(0);
    std::sort(times_.begin(), times_.end());
    const auto as_long = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::min(a, b); };
    times_.erase(std::unique(times_.begin(), times_.end(), as_long), times_.end());
    if (times_.size() > count) times_.resize(count);
    return times_;
  }
  std::size_t seen() const { return seen_; }

 private:
  void statement(std::size_t s) {
    if (s == cuts_.size()) return input(0);
    for (const StatementCost& cost : costs_.statement(s)) {
      cuts_[s] = cost.cuts;
      const int t = costs_.program().statements[s].result();
      bool again = false;
      for (std::size_t later = s + 1; later < cuts_.size(); ++later) again = again || reads(later, t);
      for (const Layout& left :
           ways_to_leave(costs_, t, result_under(costs_.program(), costs_.program().statements[s], cost.cuts), again)) {
        kept_[static_cast<std::size_t>(t)] = left;
        statement(s + 1);
      }
    }
  }
  bool reads(std::size_t s, int t) const {
    const std::vector<int> all = operands(costs_.program().statements[s]);
    return std::find(all.begin(), all.end(), t) != all.end();
  }
  void input(int t) {
    const Program& program = costs_.program();
    if (t == static_cast<int>(program.tensors.size())) return judge();
    std::vector<std::size_t> readers;
    for (std::size_t s = 0; s < cuts_.size(); ++s)
      if (reads(s, t)) readers.push_back(s);
    if (program.tensors[static_cast<std::size_t>(t)].role != Role::input || readers.empty()) return input(t + 1);
    std::vector<Layout> ways = costs_.layouts(t);
    if (readers.size() == 1)
      ways = ways_to_keep(costs_, t, operand_under(program, program.statements[readers[0]], t, cuts_[readers[0]]),
                          capacity_ > 0);
    for (const Layout& way : ways) {
      kept_[static_cast<std::size_t>(t)] = way;
      input(t + 1);
    }
  }
  void judge() {
    ++seen_;
    const Program& program = costs_.program();
    double time = 0;
    for (std::size_t s = 0; s < cuts_.size(); ++s) {
      const Statement& statement = program.statements[s];
      for (const StatementCost& cost : costs_.statement(s))
        if (cost.cuts == cuts_[s]) time += cost.compute_s + cost.network_s;
      std::vector<int> all = operands(statement);
      if (all.size() == 2 && all[0] == all[1]) all.pop_back();
      for (const int t : all)
        time +=
            costs_.move(t, kept_[static_cast<std::size_t>(t)], operand_under(program, statement, t, cuts_[s])).seconds;
      const int t = statement.result();
      time += costs_.move(t, result_under(program, statement, cuts_[s]), kept_[static_cast<std::size_t>(t)]).seconds;
    }
    if (capacity_ > 0 && assessed(costs_, cuts_, kept_).bytes > capacity_) return;
    times_.push_back(time);
  }

  const Costs& costs_;
  double capacity_;
  std::vector<Cuts> cuts_;
  std::vector<Layout> kept_;
  std::vector<double> times_;
  std::size_t seen_ = 0;
};

void expect_same(const std::vector<Sharding>& found, const std::vector<double>& all, unsigned seed) {
  ASSERT_EQ(found.size(), all.size()) << "seed " << seed;
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_NEAR(found[i].seconds(), all[i], 1e-9 * all[i]) << "seed " << seed << ", place " << i;
}

TEST(Search, equals_full_enumeration) {
  const Machine machine = toy();
  const Network network = network_of(machine).value();
  std::size_t seen = 0, tight = 0;
  for (unsigned seed = 0; seed < testing::programs(1000); ++seed) {
    const Case c = random_case(seed);
    const Costs costs = Costs::of(c.program, machine, network, c.mesh, c.sizes).value();
    Enumeration all(costs, 0);
    const auto found = best_shardings(costs, 0, 10);
    ASSERT_TRUE(found.ok());
    expect_same(*found, all.fastest(10), seed);
    seen += all.seen();
    // So little memory that some of the fastest do not fit.
    const auto [least, most] = std::minmax_element(
        found->begin(), found->end(), [](const Sharding& x, const Sharding& y) { return x.bytes < y.bytes; });
    const double capacity = (least->bytes + most->bytes) / 2;
    Enumeration fitting(costs, capacity);
    expect_same(best_shardings(costs, capacity, 10).value(), fitting.fastest(10), seed);
    tight += most->bytes > capacity ? 1 : 0;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen, 50U * testing::programs(1000));
  EXPECT_GT(tight, testing::programs(1000) / 10);
}

}  // namespace
}  // namespace ridge
