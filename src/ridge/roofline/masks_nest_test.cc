// Compares the counts of masked programs with a reference that visits every element of every tensor. The reference
// determines which elements have a value that their indices tell (0, -inf), which are read, and which operations
// remain. regions/find_masks.cc derives the same for all indices at once.
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
using KnownValue = std::optional<double>;  // nullopt if tensors decide

class MaskReference {
 public:
  MaskReference(const Program& program, Bindings sizes) : program_(program), sizes_(std::move(sizes)) {}

  struct StatementCounts {
    std::int64_t flops = 0, bytes = 0;
  };
  std::vector<StatementCounts> count() {
    std::vector<StatementCounts> out(program_.statements.size());
    for (const Statement& statement : program_.statements) find_known(statement);
    for (std::size_t s = out.size(); s-- > 0;) {  // Readers of a result follow its statement
      flops_ = 0;
      read_.clear();
      std::visit([&](const auto& op) { walk(op); }, program_.statements[s].op);
      out[s] = {flops_, count_bytes(program_.statements[s])};
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
    return found == known_.end() ? std::nullopt : found->second;
  }
  bool needed(const Element& e) const {
    return program_.tensors[e.first].role == TensorRole::output || needed_.contains(e);
  }

  // Reads an input's element, or all elements of any other tensor.
  void read(int tensor, const Index& at) {
    needed_.insert(element(tensor, at));
    read_.insert(element(tensor, at));
  }
  std::int64_t count_bytes(const Statement& statement) const {
    const auto size = [&](int tensor) {
      std::int64_t out = dtype_bits(program_.tensors[tensor].dtype) / 8;
      for (const Axis& axis : program_.tensors[tensor].axes) out *= extent(axis);
      return out;
    };
    std::int64_t out = size(statement.result());
    const std::vector<int> operands = statement_operands(statement);
    for (const int t : std::set<int>(operands.begin(), operands.end())) {
      const Tensor& tensor = program_.tensors[t];
      const auto is_own = [&](const Element& e) { return e.first == t; };
      out += tensor.role != TensorRole::input
                 ? size(t)
                 : std::count_if(read_.begin(), read_.end(), is_own) * dtype_bits(tensor.dtype) / 8;
    }
    return out;
  }

  // A sum of products is 0 if each of them has a factor of 0.
  void find_known(const Contraction& op) {
    std::set<Element> unknown;
    std::set<std::string> all = dims_of(op.left);
    all.merge(dims_of(op.right));
    nest(all, {}, [&](const Index& at) {
      const bool zero = known(element(op.left, at)) == 0 || known(element(op.right, at)) == 0;
      if (!zero) unknown.insert(element(op.result, at));
    });
    nest(dims_of(op.result), {}, [&](const Index& at) {
      if (!unknown.contains(element(op.result, at))) known_[element(op.result, at)] = 0;
    });
  }

  void find_known(const Statement& statement) {
    const auto* op = std::get_if<Expression>(&statement.op);
    if (op == nullptr) return find_known(std::get<Contraction>(statement.op));
    nest(dims_of(op->result), {}, [&](const Index& at) {
      if (const KnownValue value = value_of(*op, op->nodes.size() - 1, at)) known_[element(op->result, at)] = value;
    });
  }

  const Node& node(const Expression& op, std::size_t i) const { return op.nodes[i]; }
  std::size_t argument(const Node& n, std::size_t i) const { return static_cast<std::size_t>(n.arguments[i]); }
  bool is_of_indices(const Expression& op, std::size_t i) const {
    const Node& n = node(op, i);
    if (n.kind == Node::Kind::tensor) return false;
    return std::all_of(n.arguments.begin(), n.arguments.end(),
                       [&](int a) { return is_of_indices(op, static_cast<std::size_t>(a)); });
  }

  // Infinities and zeros decide sums and products with unknown numbers.
  static KnownValue apply(const Node& n, const std::vector<KnownValue>& x) {
    if (std::all_of(x.begin(), x.end(), [](const KnownValue& v) { return v.has_value(); })) {
      double y = *x[0];
      const auto reference = function_info(n.function).reference;
      for (int i = 0; i < n.repeat; ++i) y = reference(y, x.size() > 1 ? *x[1] : 0, x.size() > 2 ? *x[2] : 0);
      return std::isnan(y) ? std::nullopt : KnownValue(y);
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!x[i] || x.size() != 2) continue;
      const double known = *x[i];
      if (n.function == Function::add && std::isinf(known)) return known;
      if (n.function == Function::subtract && std::isinf(known)) return i == 0 ? known : -known;
      if (n.function == Function::multiply && known == 0) return 0;
      if (n.function == Function::divide && ((i == 0 && known == 0) || (i == 1 && std::isinf(known)))) return 0;
      if (n.function == Function::max && known == HUGE_VAL) return known;
      if (n.function == Function::min && known == -HUGE_VAL) return known;
    }
    return std::nullopt;
  }

  KnownValue value_of(const Expression& op, std::size_t i, const Index& at) const {
    const Node& n = node(op, i);
    switch (n.kind) {
      case Node::Kind::tensor: return known(element(n.tensor, at));
      case Node::Kind::number: return n.number;
      case Node::Kind::size: return static_cast<double>(extent(n.over[0]));
      case Node::Kind::index: return static_cast<double>(at.at(n.over[0].dim));
      case Node::Kind::along_dims:
        if (n.function == Function::softmax && value_of(op, argument(n, 0), at) == -HUGE_VAL) return 0;
        return std::nullopt;
      default: break;
    }
    if (n.function == Function::where) {
      const KnownValue chosen = value_of(op, argument(n, 0), at);
      if (!chosen) return std::nullopt;
      return value_of(op, argument(n, *chosen != 0 ? 1 : 2), at);
    }
    std::vector<KnownValue> arguments;
    for (std::size_t a = 0; a < n.arguments.size(); ++a) arguments.push_back(value_of(op, argument(n, a), at));
    return apply(n, arguments);
  }

  void walk(const Contraction& op) {
    std::set<std::string> all = dims_of(op.left), kept = dims_of(op.result);
    all.merge(dims_of(op.right));
    const bool sums = std::any_of(all.begin(), all.end(), [&](const std::string& d) { return !kept.contains(d); });
    nest(all, {}, [&](const Index& at) {
      const bool zero = known(element(op.left, at)) == 0 || known(element(op.right, at)) == 0;
      if (!needed(element(op.result, at)) || zero) return;
      read(op.left, at);
      read(op.right, at);
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
    if (n.kind == Node::Kind::tensor) read(n.tensor, at);
    if (n.kind == Node::Kind::along_dims) return along(op, i, at);
    if (n.kind != Node::Kind::call) return;
    const KnownValue value = value_of(op, i, at);
    if (value == 0 && !is_of_indices(op, i)) return;
    if (space(op, i).empty()) return;  // Only numbers
    flops_ += n.repeat;
    for (std::size_t a = 0; a < n.arguments.size(); ++a) {
      if (value && !is_of_indices(op, argument(n, a))) continue;  // Its value changes nothing
      if (n.function == Function::where && a > 0) {
        const auto chosen = value_of(op, argument(n, 0), at);
        if (chosen && (*chosen != 0) != (a == 1)) continue;  // Not chosen, so not read
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
    const bool is_sum = n.function == Function::sum || n.function == Function::mean;
    nest(over, row, [&](const Index& place) {
      const KnownValue value = value_of(op, inner, place);
      if ((n.function == Function::softmax || n.function == Function::max) && value == -HUGE_VAL) return;
      if (is_sum && value == 0) return;
      flops_ += function_info(n.function).flops;
      compute(op, inner, place);
    });
  }

  const Program& program_;
  Bindings sizes_;
  std::map<Element, KnownValue> known_;
  std::set<Element> needed_, read_;
  std::set<std::pair<std::size_t, std::vector<std::int64_t>>> computed_;
  std::int64_t flops_ = 0;
};

// --- random programs with a mask

// Returns a sum of indices, or what follows from it.
std::string index_term(testing::RandomProgram& random, const std::vector<std::string>& dims) {
  const std::string i =
      fmt::format("index({})", dims[static_cast<std::size_t>(random.below(static_cast<int>(dims.size())))]);
  switch (random.below(9)) {
    case 0: return fmt::format("{} * {}", 2 + random.below(2), i);
    case 1: return fmt::format("floor({} / {})", i, 2 + random.below(3));
    case 2: return fmt::format("abs({} - index({}))", i, dims.front());
    case 3: return fmt::format("({} - index({}))", i, dims.back());
    case 4: return fmt::format("{} / 2", i);
    case 5: return fmt::format("({} - {} * floor({} / {}))", i, 3, i, 3);
    default: return i;
  }
}

std::string comparison(testing::RandomProgram& random, const std::vector<std::string>& dims) {
  static const char* signs[] = {"<=", "<", ">=", ">", "=="};
  const std::string first = index_term(random, dims), sign = signs[random.below(5)];
  std::string second = std::to_string(random.below(6));
  if (random.below(4) > 0) second = index_term(random, dims);
  if (random.below(5) == 0) second += fmt::format(" + size({}) - {}", dims.front(), 1 + random.below(5));
  if (random.below(3) == 0) second += fmt::format(" {} {}", random.below(2) ? "+" : "-", 1 + random.below(3));
  return fmt::format("({} {} {})", first, sign, second);
}

std::string condition(testing::RandomProgram& random, const std::vector<std::string>& dims, int depth) {
  if (depth == 0 || random.below(3) == 0)
    return random.below(4) == 0 ? "(index(T) <= index(S))" : comparison(random, dims);
  const std::string a = condition(random, dims, depth - 1), b = condition(random, dims, depth - 1);
  switch (random.below(7)) {
    case 0: return fmt::format("min({}, {})", a, b);
    case 1: return fmt::format("max({}, {})", a, b);
    case 2: return fmt::format("(1 - {})", a);
    case 3: return fmt::format("where({}, {}, {})", a, b, comparison(random, dims));
    case 4: return fmt::format("({} + {} > 0)", a, b);
    case 5: return fmt::format("({} == {})", a, b);
    default: return fmt::format("({} * {})", a, b);
  }
}

// Returns a program with one condition, which occurs in one or two statements.
std::string masked_program(testing::RandomProgram& random) {
  const bool has_heads = random.below(2) == 1;
  const std::string h = has_heads ? ", H" : "";
  std::vector<std::string> dims{"S", "T"};
  if (has_heads && random.below(2)) dims.emplace_back("H");
  const std::string mask = condition(random, dims, random.below(5));
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
                                "{3} / (1 + sum(where({0}, {1}, 0) over {2}))",
                                "softmax({1} + where({0}, 0, -inf) over {2})",
                                "softmax(where(1 - {0}, -inf, {1}) / 4 over {2})",
                                "{1} * {0}",
                                "-relu(where({0}, {1}, 0)) + 0",
                                "where({0}, {1}, 0) ** 2",
                                "abs({1} * {0}) * b",
                                "max({1} * {0}, 0)",
                                "exp(where({0}, {1}, -inf) - max(where({0}, {1}, -inf) over {2}))"};
  const int kind = random.below(static_cast<int>(std::size(outer)));
  text += fmt::format("p{}[S{}, T] = ", random.below(6) == 0 ? ": f32" : "", h) +
          fmt::format(fmt::runtime(outer[kind]), mask, value, over, x) + "\n";
  const int last = random.below(6);
  if (last != 1) text += fmt::format("o: bf16[S{}, F] = p * v\n", h);
  if (last == 1) text += fmt::format("r: bf16[S{}] = sum(p over T)\n", h);
  if (last == 2) text += fmt::format("r: bf16[S{0}, T] = where({1}, p, 0)\n", h, mask);
  if (last == 3) text += fmt::format("r: bf16[S{}, T] = cos(s)\n", h);
  if (last == 4) text += fmt::format("d[S{0}, T] = q * k\nz[S{0}] = p * d\nr: bf16[S{0}, T] = p * (d - z)\n", h);
  if (last == 5) text += fmt::format("d[S{0}, T] = p * b\nr: bf16[T{0}, E] = d * q\n", h);
  return text;
}

TEST(Count, agrees_with_a_loop_over_every_element_of_masked_programs) {
  const Machine machine = testing::make_test_machine({{DType::bf16, 64}}, 16, 8);
  int masked = 0, not_understood = 0;
  const unsigned programs = testing::program_count(600);
  for (unsigned seed = 0; seed < programs; ++seed) {
    testing::RandomProgram random(seed);
    const std::string text = masked_program(random);
    const auto program = parse(text);
    ASSERT_TRUE(program.ok()) << text << program.error().to_string();
    Bindings sizes;
    for (const std::string& dim : program->dim_names()) sizes[dim] = 1 + random.below(7);
    const auto e = explain(*program, machine, sizes, {}, Thresholds::skipped);
    ASSERT_TRUE(e.ok()) << text << e.error().to_string();
    masked += !e->masks.empty();
    not_understood += !e->not_counted.empty();
    if (!e->not_counted.empty()) continue;
    const auto walked = MaskReference(*program, sizes).count();
    for (std::size_t s = 0; s < walked.size(); ++s) {
      const std::string place = fmt::format("{}statement {}, seed {}, {}", text, s, seed, sizes);
      ASSERT_EQ(e->ops[s].flops, Count{walked[s].flops}) << place;
      ASSERT_EQ(e->ops[s].bytes, Count{walked[s].bytes}) << place;
    }
  }
  EXPECT_GT(masked, static_cast<int>(programs / 2));
  EXPECT_LT(not_understood, static_cast<int>(programs / 20));
}

}  // namespace
}  // namespace ridge
