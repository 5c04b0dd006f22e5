// Compares the counts of masked programs with a reference that visits every element of every tensor. The reference
// determines which elements are 0 or -inf outside the condition, which are read, and which operations remain. masks.cc
// derives the same from complete masks.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/random_program.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

using Index = std::map<std::string, std::int64_t>;
enum class KnownValue { nothing, zero, infinite };  // infinite means -inf

class MaskReference {
 public:
  MaskReference(const Program& program, Bindings sizes) : program_(program), sizes_(std::move(sizes)) {}

  // Returns the FLOPs of each statement.
  std::vector<std::int64_t> flops() {
    std::vector<std::int64_t> out(program_.statements.size());
    for (const Statement& statement : program_.statements) find_known(statement);
    for (std::size_t s = out.size(); s-- > 0;) {  // Readers of a result follow its statement
      flops_ = 0;
      std::visit([&](const auto& op) { walk(op); }, program_.statements[s].op);
      out[s] = flops_;
    }
    return out;
  }

 private:
  using Element = std::pair<int, std::vector<std::int64_t>>;  // Element of a tensor

  std::int64_t extent(const Axis& axis) const { return axis.is_named() ? sizes_.at(axis.dim) : axis.literal; }
  Element element(int tensor, const Index& at) const {
    std::vector<std::int64_t> indices;
    for (const Axis& axis : program_.tensors[tensor].axes) indices.push_back(axis.is_named() ? at.at(axis.dim) : 0);
    return {tensor, indices};
  }
  std::set<std::string> dims_of(int tensor) const {
    std::set<std::string> out;
    for (const Axis& axis : program_.tensors[tensor].axes)
      if (axis.is_named()) out.insert(axis.dim);
    return out;
  }
  void nest(const std::set<std::string>& dims, Index at, const std::function<void(const Index&)>& body) const {
    std::vector<std::string> names(dims.begin(), dims.end());
    const std::function<void(std::size_t)> loop = [&](std::size_t depth) {
      if (depth == names.size()) return body(at);
      for (std::int64_t i = 0; i < sizes_.at(names[depth]); ++i) {
        at[names[depth]] = i;
        loop(depth + 1);
      }
    };
    loop(0);
  }

  KnownValue known(const Element& e) const {
    const auto found = known_.find(e);
    return found == known_.end() ? KnownValue::nothing : found->second;
  }
  bool needed(const Element& e) const {
    return program_.tensors[e.first].role == TensorRole::output || needed_.contains(e);
  }

  void find_known(const Statement& statement) {
    const auto* op = std::get_if<Expression>(&statement.op);
    if (op == nullptr) return;
    nest(dims_of(op->result), {}, [&](const Index& at) {
      if (const KnownValue value = value_of(*op, op->nodes.size() - 1, at); value != KnownValue::nothing)
        known_[element(op->result, at)] = value;
    });
  }

  const Node& node(const Expression& op, std::size_t i) const { return op.nodes[i]; }
  std::size_t argument(const Node& n, std::size_t i) const { return static_cast<std::size_t>(n.arguments[i]); }

  // Returns the value of an expression of indices and numbers, or nullopt if a tensor occurs in it.
  std::optional<double> number(const Expression& op, std::size_t i, const Index& at) const {
    const Node& n = node(op, i);
    if (n.kind == Node::Kind::number) return n.number;
    if (n.kind == Node::Kind::size) return static_cast<double>(extent(n.over[0]));
    if (n.kind == Node::Kind::index) return static_cast<double>(at.at(n.over[0].dim));
    if (n.kind != Node::Kind::call) return std::nullopt;
    std::vector<double> x;
    for (std::size_t a = 0; a < n.arguments.size(); ++a) {
      const auto value = number(op, argument(n, a), at);
      if (!value) return std::nullopt;
      x.push_back(*value);
    }
    switch (n.function) {
      case Function::add: return x[0] + x[1];
      case Function::subtract: return x[0] - x[1];
      case Function::multiply: return x[0] * x[1];
      case Function::negate: return -x[0];
      case Function::less: return x[0] < x[1];
      case Function::less_equal: return x[0] <= x[1];
      case Function::greater: return x[0] > x[1];
      case Function::greater_equal: return x[0] >= x[1];
      default: return std::nullopt;
    }
  }

  KnownValue value_of(const Expression& op, std::size_t i, const Index& at) const {
    const Node& n = node(op, i);
    if (n.kind == Node::Kind::tensor) return known(element(n.tensor, at));
    if (n.kind == Node::Kind::number) {
      if (n.number == 0) return KnownValue::zero;
      return n.number == -HUGE_VAL ? KnownValue::infinite : KnownValue::nothing;
    }
    if (n.kind == Node::Kind::along_dims)
      return n.function == Function::softmax && value_of(op, argument(n, 0), at) == KnownValue::infinite
                 ? KnownValue::zero
                 : KnownValue::nothing;
    if (n.kind != Node::Kind::call) return KnownValue::nothing;
    if (n.function == Function::where) {
      const auto chosen = number(op, argument(n, 0), at);
      if (!chosen) return KnownValue::nothing;
      return value_of(op, argument(n, *chosen != 0 ? 1 : 2), at);
    }
    if (n.function == Function::negate && node(op, argument(n, 0)).kind == Node::Kind::number)
      return node(op, argument(n, 0)).number == HUGE_VAL ? KnownValue::infinite : KnownValue::nothing;
    if (n.function != Function::multiply) return KnownValue::nothing;
    const bool zero =
        value_of(op, argument(n, 0), at) == KnownValue::zero || value_of(op, argument(n, 1), at) == KnownValue::zero;
    return zero ? KnownValue::zero : KnownValue::nothing;
  }

  void walk(const Contraction& op) {
    std::set<std::string> all = dims_of(op.left), kept = dims_of(op.result);
    all.merge(dims_of(op.right));
    const bool sums = std::any_of(all.begin(), all.end(), [&](const std::string& d) { return !kept.contains(d); });
    nest(all, {}, [&](const Index& at) {
      const Element left = element(op.left, at), right = element(op.right, at);
      needed_.insert(left);  // Products read both operands completely
      needed_.insert(right);
      if (!needed(element(op.result, at)) || known(left) == KnownValue::zero || known(right) == KnownValue::zero)
        return;
      flops_ += sums ? 2 : 1;
    });
  }

  void walk(const Expression& op) {
    computed_.clear();
    nest(dims_of(op.result), {}, [&](const Index& at) {
      if (needed(element(op.result, at))) compute(op, op.nodes.size() - 1, at);
    });
  }

  // Returns the index values of the dimensions of node i's value.
  std::vector<std::int64_t> own(const Expression& op, std::size_t i, const Index& at) const {
    std::vector<std::int64_t> out;
    for (const std::string& dim : space(op, i)) out.push_back(at.at(dim));
    return out;
  }
  std::set<std::string> space(const Expression& op, std::size_t i) const {
    const Node& n = node(op, i);
    std::set<std::string> out;
    if (n.kind == Node::Kind::tensor) out = dims_of(n.tensor);
    if (n.kind == Node::Kind::index) out.insert(n.over[0].dim);
    for (const int a : n.arguments) out.merge(space(op, static_cast<std::size_t>(a)));
    if (n.kind == Node::Kind::along_dims && is_reducing_function(n.function))
      for (const Axis& axis : n.over) out.erase(axis.dim);
    return out;
  }

  void compute(const Expression& op, std::size_t i, const Index& at) {
    const Node& n = node(op, i);
    if (n.kind == Node::Kind::tensor) needed_.insert(element(n.tensor, at));
    if (n.kind == Node::Kind::along_dims) return along(op, i, at);
    if (n.kind != Node::Kind::call || value_of(op, i, at) == KnownValue::zero) return;
    if (space(op, i).empty()) return;  // Only numbers
    flops_ += n.repeat;
    for (std::size_t a = 0; a < n.arguments.size(); ++a) {
      if (n.function == Function::where && a > 0) {
        const auto chosen = number(op, argument(n, 0), at);
        if (chosen && a == 1 && *chosen == 0) continue;  // Not chosen, so not read
      }
      compute(op, argument(n, a), at);
    }
  }

  // Counts a function along dimensions once per row, however often the row is read.
  void along(const Expression& op, std::size_t i, const Index& at) {
    const Node& n = node(op, i);
    const std::size_t inner = argument(n, 0);
    Index row = at;
    std::set<std::string> over;
    for (const Axis& axis : n.over) over.insert(axis.dim);
    for (const std::string& dim : over) row[dim] = 0;
    if (!computed_.insert({i, own(op, inner, row)}).second) return;
    const int each = n.function == Function::softmax ? 5 : 1;
    nest(over, row, [&](const Index& place) {
      const KnownValue value = value_of(op, inner, place);
      if (n.function == Function::softmax && value == KnownValue::infinite) return;
      if (n.function == Function::sum && value == KnownValue::zero) return;
      flops_ += each;
      compute(op, inner, place);
    });
  }

  const Program& program_;
  Bindings sizes_;
  std::map<Element, KnownValue> known_;
  std::set<Element> needed_;
  std::set<std::pair<std::size_t, std::vector<std::int64_t>>> computed_;
  std::int64_t flops_ = 0;
};

// --- random programs with a mask

std::string condition(testing::RandomProgram& random) {
  const auto compare = [&](const std::string& first, const std::string& second) {
    static const char* signs[] = {"<=", "<", ">=", ">"};
    const int offset = random.below(7) - 3;
    std::string shifted = second;
    if (offset != 0) shifted += fmt::format(" {} {}", offset < 0 ? "-" : "+", std::abs(offset));
    return fmt::format("{} {} {}", first, signs[random.below(4)], shifted);
  };
  switch (random.below(5)) {
    case 0: return "index(T) <= index(S)";
    case 1: return compare("index(T)", "index(S)");
    case 2: return compare("index(S) - index(T)", std::to_string(random.below(6)));
    case 3: return fmt::format("(index(T) <= index(S)) * (index(S) - index(T) < {})", 1 + random.below(5));
    default: return compare("index(S) - index(T)", fmt::format("size({})", random.below(2) ? "T" : "S"));
  }
}

// Returns a program with one condition, which occurs in one or two statements.
std::string masked_program(testing::RandomProgram& random) {
  const std::string h = random.below(2) ? ", H" : "", mask = condition(random);
  std::string text = fmt::format("q: bf16[S{0}, E]   k: bf16[T{0}, E]   v: bf16[T{0}, F]   b: bf16[T]\n", h);
  text += fmt::format("s[S{}, T] = q * k\n", h);
  std::string x = "s";
  if (random.below(3) == 0) {
    text += fmt::format("a[S{}, T] = s * rsqrt(size(E)) + b\n", h);
    x = "a";
  }
  static const char* inner[] = {"{}", "{} * 0.5", "exp({})", "{} + b", "gelu({} * 2) - b"};
  const std::string value = fmt::format(fmt::runtime(inner[random.below(static_cast<int>(std::size(inner)))]), x);
  const std::string over = random.below(4) == 0 ? "S" : "T";
  static const char* outer[] = {"softmax(where({0}, {1}, -inf) over {2})",
                                "where({0}, {1}, 0)",
                                "softmax(where({0}, {1}, 0) over {2})",
                                "where({0}, {1}, 1)",
                                "where({0}, {1}, 0) + {3}",
                                "where({0}, {1}, 0) * cos({3})",
                                "where({0}, {1}, -inf)",
                                "2 * where({0}, {1}, 0)",
                                "{3} / (1 + sum(where({0}, {1}, 0) over {2}))"};
  const int kind = random.below(static_cast<int>(std::size(outer)));
  text += fmt::format("p{}[S{}, T] = ", random.below(6) == 0 ? ": f32" : "", h) +
          fmt::format(fmt::runtime(outer[kind]), mask, value, over, x) + "\n";
  const int last = random.below(4);
  if (last != 1) text += fmt::format("o: bf16[S{}, F] = p * v\n", h);
  if (last == 1) text += fmt::format("r: bf16[S{}] = sum(p over T)\n", h);
  if (last == 2) text += fmt::format("r: bf16[S{0}, T] = where({1}, p, 0)\n", h, mask);
  if (last == 3) text += fmt::format("r: bf16[S{}, T] = cos(s)\n", h);
  return text;
}

TEST(Count, agrees_with_a_loop_over_every_element_of_masked_programs) {
  const Machine machine = testing::make_test_machine({{DType::bf16, 64}}, 16, 8);
  int masked = 0;
  const unsigned programs = testing::program_count(600);
  for (unsigned seed = 0; seed < programs; ++seed) {
    testing::RandomProgram random(seed);
    const std::string text = masked_program(random);
    const auto program = parse(text);
    ASSERT_TRUE(program.ok()) << text << program.error().to_string();
    Bindings sizes;
    for (const std::string& dim : program->dim_names()) sizes[dim] = 1 + random.below(6);
    const auto e = explain(*program, machine, sizes, {}, Thresholds::skipped);
    ASSERT_TRUE(e.ok()) << text << e.error().to_string();
    masked += !e->masks.empty();
    const std::vector<std::int64_t> walked = MaskReference(*program, sizes).flops();
    for (std::size_t s = 0; s < walked.size(); ++s)
      ASSERT_EQ(e->ops[s].flops, Count{walked[s]})
          << text << "statement " << s << ", seed " << seed << ", " << fmt::format("{}", sizes);
  }
  EXPECT_GT(masked, static_cast<int>(programs / 2));
}

}  // namespace
}  // namespace ridge
