#include "ridge/distributed/sharding_search.h"
#include "ridge/base/contains.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "ridge/roofline/testing/random_program.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

Machine make_test_machine() {
  Machine machine = testing::make_test_machine({{DType::bf16, 1e12}}, 1e12, 1e10);
  machine.links.push_back({.name = "ici", .bandwidth = testing::make_number(1e9), .topology = Topology::switched});
  machine.links.back().count = testing::make_number(4);
  return machine;
}

struct Case {
  Program program;
  Bindings sizes;
  Mesh mesh;
};

// Draws a program whose statements are products or pointwise sums of available tensors.
Case draw_case(int statements, std::mt19937& engine) {
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine); };
  std::string text;
  std::vector<std::pair<std::string, std::string>> available;  // name, dimensions
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
    available.emplace_back("x" + std::to_string(i), dims());
    text += available.back().first + ": bf16" + bracketed(available.back().second) + "\n";
  }
  for (int s = 0; s < statements; ++s) {
    const auto a = available[below(static_cast<int>(available.size()))];
    const auto b = available[below(static_cast<int>(available.size()))];
    std::string both, result;
    for (const char dim : std::string("ABC"))
      if (a.second.find(dim) != std::string::npos || b.second.find(dim) != std::string::npos) both += dim;
    const bool product = below(2) && a.first != b.first;
    for (const char dim : both) {  // randomly contracts shared dimensions
      const bool shared = a.second.find(dim) != std::string::npos && b.second.find(dim) != std::string::npos;
      if (!(product && shared && below(2))) result += dim;
    }
    if (result.empty()) result = both;
    const std::string name = "y" + std::to_string(s);
    text += name + (below(4) ? "" : ": bf16") + bracketed(result) + " = " + a.first + (product ? " * " : " + ") +
            b.first + "\n";
    available.emplace_back(name, result);
  }
  Case out{parse(text).value(), {}, {}};
  for (const std::string& dim : out.program.dim_names()) out.sizes[dim] = std::vector<int>{3, 6, 64, 256}[below(4)];
  out.mesh.axes = {{'X', 2 + below(2)}};
  if (below(3) == 0) out.mesh.axes.push_back({'Y', 2});
  return out;
}

// Returns the approximate number of shardings.
double count_shardings(const Case& c) {
  double out = 1;
  for (std::size_t s = 0; s < c.program.statements.size(); ++s) {
    const Statement& statement = c.program.statements[s];
    out *= static_cast<double>(list_partitions(c.program, statement, c.mesh, c.sizes).size());
    const Tensor& result = c.program.tensors[statement.result()];
    if (s + 1 < c.program.statements.size())
      out *= static_cast<double>(list_layouts(c.program, result, c.mesh, c.sizes).size());
  }
  return out;
}

// Draws one to four statements with few enough shardings to enumerate.
Case random_case(unsigned seed) {
  std::mt19937 engine(seed);
  for (;;) {
    Case out = draw_case(1 + static_cast<int>(seed % 4), engine);
    const double all = count_shardings(out);
    if (all > 1 && all < 400) return out;
  }
}

// Enumerates every sharding recursively and evaluates each one separately.
class ExhaustiveSearch {
 public:
  ExhaustiveSearch(const ShardingCosts& costs, double capacity) : costs_(costs), capacity_(capacity) {
    const Program& program = costs.program();
    cuts_.resize(program.statements.size());
    for (const Tensor& t : program.tensors) kept_.push_back({.mesh_axes = std::vector<std::string>(t.axes.size())});
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
    for (const StatementCost& cost : costs_.statement_costs(s)) {
      cuts_[s] = cost.partition;
      const int t = costs_.program().statements[s].result();
      bool again = false;
      for (std::size_t later = s + 1; later < cuts_.size(); ++later) again = again || reads(later, t);
      for (const Layout& left : candidate_result_layouts(
               costs_, t, result_layout(costs_.program(), costs_.program().statements[s], cost.partition), again)) {
        kept_[t] = left;
        statement(s + 1);
      }
    }
  }
  bool reads(std::size_t s, int t) const {
    const std::vector<int> all = statement_operands(costs_.program().statements[s]);
    return contains(all, t);
  }
  void input(int t) {
    const Program& program = costs_.program();
    if (t == static_cast<int>(program.tensors.size())) return evaluate_current();
    std::vector<std::size_t> readers;
    for (std::size_t s = 0; s < cuts_.size(); ++s)
      if (reads(s, t)) readers.push_back(s);
    if (program.tensors[t].role != TensorRole::input || readers.empty()) return input(t + 1);
    std::vector<Layout> ways = costs_.layouts_of(t);
    if (readers.size() == 1)
      ways = candidate_input_layouts(
          costs_, t, operand_layout(program, program.statements[readers[0]], t, cuts_[readers[0]]), capacity_ > 0);
    for (const Layout& way : ways) {
      kept_[t] = way;
      input(t + 1);
    }
  }
  void evaluate_current() {
    ++seen_;
    const Program& program = costs_.program();
    double time = 0;
    for (std::size_t s = 0; s < cuts_.size(); ++s) {
      const Statement& statement = program.statements[s];
      for (const StatementCost& cost : costs_.statement_costs(s))
        if (cost.partition == cuts_[s]) time += cost.compute_s + cost.network_s;
      std::vector<int> all = statement_operands(statement);
      if (all.size() == 2 && all[0] == all[1]) all.pop_back();
      for (const int t : all)
        time += costs_.redistribution_cost(t, kept_[t], operand_layout(program, statement, t, cuts_[s])).seconds;
      const int t = statement.result();
      time += costs_.redistribution_cost(t, result_layout(program, statement, cuts_[s]), kept_[t]).seconds;
    }
    if (capacity_ > 0 && evaluate_sharding(costs_, cuts_, kept_).peak_bytes > capacity_) return;
    times_.push_back(time);
  }

  const ShardingCosts& costs_;
  double capacity_;
  std::vector<Partition> cuts_;
  std::vector<Layout> kept_;
  std::vector<double> times_;
  std::size_t seen_ = 0;
};

void expect_same(const std::vector<Sharding>& found, const std::vector<double>& all, unsigned seed) {
  ASSERT_EQ(found.size(), all.size()) << "seed " << seed;
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_NEAR(found[i].total_seconds(), all[i], 1e-9 * all[i]) << "seed " << seed << ", place " << i;
}

TEST(ShardingSearch, equals_exhaustive_enumeration) {
  const Machine machine = make_test_machine();
  const Network network = make_network(machine).value();
  std::size_t seen = 0, tight = 0;
  for (unsigned seed = 0; seed < testing::program_count(1000); ++seed) {
    const Case c = random_case(seed);
    const ShardingCosts costs = ShardingCosts::compute_costs(c.program, machine, network, c.mesh, c.sizes).value();
    ExhaustiveSearch all(costs, 0);
    const auto found = best_shardings(costs, 0, 10);
    ASSERT_TRUE(found.ok());
    expect_same(*found, all.fastest(10), seed);
    seen += all.seen();
    // The memory limit excludes some of the fastest.
    const auto [least, most] = std::minmax_element(
        found->begin(), found->end(), [](const Sharding& x, const Sharding& y) { return x.peak_bytes < y.peak_bytes; });
    const double capacity = (least->peak_bytes + most->peak_bytes) / 2;
    ExhaustiveSearch fitting(costs, capacity);
    expect_same(best_shardings(costs, capacity, 10).value(), fitting.fastest(10), seed);
    tight += most->peak_bytes > capacity ? 1 : 0;
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen, 50U * testing::program_count(1000));
  EXPECT_GT(tight, testing::program_count(1000) / 10);
}

}  // namespace
}  // namespace ridge
