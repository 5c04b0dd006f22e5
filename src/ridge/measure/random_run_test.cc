// Random programs on this CPU, fused and with one kernel per statement, on one thread and on several, against a direct
// evaluation of the program. All values are small integers, so that every sum is exact in any order and results must be
// bit-identical. The evaluation uses no shapes, strides or groups.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "ridge/base/float16.h"
#include "ridge/pool/isa.h"
#include "ridge/roofline/testing/random_program.h"
#include "ridge/run/memory.h"
#include "ridge/run/run_step.h"

namespace ridge {
namespace {

using Point = std::array<std::int64_t, 5>;  // indices along A to E

std::size_t letter(const std::string& dim) { return static_cast<std::size_t>(dim[0] - 'A'); }

// Evaluates every element of every tensor in f64, by dimension names.
class NamedIndexEvaluator {
 public:
  NamedIndexEvaluator(const Program& program, const Bindings& dims) : program_(program) {
    for (const auto& [dim, extent] : dims) sizes_[letter(dim)] = extent;
    for (const Tensor& t : program.tensors) values.emplace_back(static_cast<std::size_t>(count(t.axes)));
  }

  void evaluate() {
    for (const Statement& s : program_.statements) {
      const Tensor& result = program_.tensors[s.result()];
      each(result.axes, {}, [&](const Point& at) {
        const auto* c = std::get_if<Contraction>(&s.op);
        values[s.result()][element_index(result, at)] =
            c ? product(*c, at)
              : node(std::get<Expression>(s.op).nodes, std::get<Expression>(s.op).nodes.size() - 1, at);
      });
    }
  }

  std::vector<std::vector<double>> values;

 private:
  std::int64_t count(const std::vector<Axis>& axes) const {
    std::int64_t n = 1;
    for (const Axis& a : axes) n *= extent(a);
    return n;
  }
  std::int64_t extent(const Axis& a) const { return a.is_named() ? sizes_[letter(a.dim)] : a.literal; }

  template <class Do> void each(const std::vector<Axis>& axes, Point at, Do&& act) const {
    for (std::int64_t i = 0, n = count(axes); i < n; ++i) {
      std::int64_t rest = i;
      for (const Axis& a : axes) {
        if (a.is_named()) at[letter(a.dim)] = rest % extent(a);
        rest /= extent(a);
      }
      act(at);
    }
  }

  std::size_t element_index(const Tensor& t, const Point& at) const {
    std::int64_t i = 0;
    for (const Axis& a : t.axes) i = i * extent(a) + (a.is_named() ? at[letter(a.dim)] : 0);
    return static_cast<std::size_t>(i);
  }
  double value(int tensor, const Point& at) const {
    const std::size_t t = tensor;
    return values[t][element_index(program_.tensors[t], at)];
  }

  double product(const Contraction& c, const Point& at) const {
    std::vector<Axis> summed;
    for (const std::string& dim : c.contracted) summed.push_back({.dim = dim});
    double sum = 0;
    each(summed, at, [&](const Point& p) { sum += value(c.left, p) * value(c.right, p); });
    return sum;
  }

  double node(const std::vector<Node>& nodes, std::size_t i, const Point& at) const {
    const Node& n = nodes[i];
    const auto argument = [&](std::size_t a, const Point& p) {
      return node(nodes, static_cast<std::size_t>(n.arguments[a]), p);
    };
    switch (n.kind) {
      case Node::Kind::tensor: return value(n.tensor, at);
      case Node::Kind::number: return n.number;
      case Node::Kind::index: return static_cast<double>(at[letter(n.over[0].dim)]);
      case Node::Kind::size: return static_cast<double>(extent(n.over[0]));
      case Node::Kind::along_dims: {
        double out = n.function == Function::sum ? 0 : INFINITY;
        if (n.function == Function::max) out = -INFINITY;
        each(n.over, at, [&](const Point& p) { out = reduce_pair(n.function, out, argument(0, p)); });
        return out;
      }
      case Node::Kind::call: break;
      default: ADD_FAILURE() << "no reference of this node"; return NAN;
    }
    const double a = argument(0, at), b = n.arguments.size() > 1 ? argument(1, at) : 0;
    switch (n.function) {
      case Function::add: return a + b;
      case Function::subtract: return a - b;
      case Function::multiply: return a * b;
      case Function::negate: return n.repeat % 2 ? -a : a;
      case Function::max: return std::max(a, b);
      case Function::min: return std::min(a, b);
      case Function::relu: return std::max(a, 0.0);
      case Function::abs: return std::fabs(a);
      case Function::less: return a < b;
      case Function::greater_equal: return a >= b;
      case Function::where: return a != 0 ? b : argument(2, at);
      default: ADD_FAILURE() << "no reference of " << function_info(n.function).name; return NAN;
    }
  }
  static double reduce_pair(Function f, double a, double b) {
    if (f == Function::sum) return a + b;
    return f == Function::max ? std::max(a, b) : std::min(a, b);
  }

  const Program& program_;
  std::array<std::int64_t, 5> sizes_{};
};

// Random statements over up to five dimensions that read earlier results. `bound` is a tensor's largest magnitude:
// larger operands are clamped to 2 so that it stays below 2^22, and results beyond a dtype's range are stored in f32.
class RandomStatements {
 public:
  explicit RandomStatements(unsigned seed) : random_(seed) {
    constexpr std::int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33};
    for (const char* dim : {"A", "B", "C", "D", "E"}) dims[dim] = sizes[random_.below(12)];
    if (random_.below(2)) dims["B"] = dims["A"];  // different layouts may have the same extents
    for (int i = 0, n = 2 + random_.below(3); i < n; ++i) input();
    if (random_.below(3) == 0) parts();
    const std::size_t inputs = made_.size();
    for (int i = 0, n = 1 + random_.below(5); i < n || made_.size() == inputs; ++i) statement();
  }

  std::string text;
  Bindings dims;

 private:
  static constexpr std::int64_t max_elements = 700;

  struct Made {
    std::string name;
    std::vector<std::string> axes;
    double bound;
  };

  std::int64_t extent(const std::vector<std::string>& axes) const {
    std::int64_t n = 1;
    for (const std::string& dim : axes) n *= dims.at(dim);
    return n;
  }
  std::vector<std::string> shuffled(const std::set<std::string>& some) {
    std::vector<std::string> out(some.begin(), some.end());
    for (std::size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[random_.below(static_cast<int>(i))]);
    return out;
  }
  static std::string listed(const std::vector<std::string>& axes) {
    return axes.empty() ? "[1]" : fmt::format("[{}]", fmt::join(axes, ", "));
  }
  const Made& random_tensor() { return made_[random_.below(static_cast<int>(made_.size()))]; }

  void input() {
    std::set<std::string> some;
    for (int i = 0, n = 1 + random_.below(3); i < n || some.empty(); ++i) {
      const std::string dim(1, static_cast<char>('A' + random_.below(5)));
      if (some.empty() || extent({some.begin(), some.end()}) * dims.at(dim) <= max_elements) some.insert(dim);
    }
    constexpr const char* dtypes[] = {"f32", "f32", "bf16", "f16"};
    made_.push_back({fmt::format("x{}", made_.size()), shuffled(some), 2});
    text += fmt::format("{}: {}{}\n", made_.back().name, dtypes[random_.below(4)], listed(made_.back().axes));
  }

  void parts() {
    text += "w: f32[2*A, C]\nw1[A, C] = w[0:A]\nw2[A, C] = w[A:2*A]\n";
    made_.push_back({"w1", {"A", "C"}, 2});
    made_.push_back({"w2", {"A", "C"}, 2});
  }

  void statement() {
    const int kind = random_.below(8);
    if (kind < 3) return product();
    Made out{fmt::format("t{}", made_.size()), {}, 0};
    std::set<std::string> axes;
    const std::string body = kind == 3 ? along(axes, out.bound) : expression(2, axes, out.bound);
    out.axes = shuffled(axes);
    write(out, body);
  }

  void product() {
    const Made a = random_tensor(), b = random_tensor();
    std::set<std::string> kept, all(a.axes.begin(), a.axes.end());
    all.insert(b.axes.begin(), b.axes.end());
    double summed = 1;
    for (const std::string& dim : all) {
      const bool shared =
          std::count(a.axes.begin(), a.axes.end(), dim) && std::count(b.axes.begin(), b.axes.end(), dim);
      if (shared && random_.below(3))
        summed *= static_cast<double>(dims.at(dim));
      else
        kept.insert(dim);
    }
    write({fmt::format("t{}", made_.size()), shuffled(kept), a.bound * b.bound * summed},
          fmt::format("{} * {}", a.name, b.name));
  }

  // Returns an operand, clamped if it is large.
  std::string operand(std::set<std::string>& axes, double& bound) {
    const Made& m = random_tensor();
    axes.insert(m.axes.begin(), m.axes.end());
    bound = std::min(m.bound, 64.0);
    return m.bound > 64 ? fmt::format("max(min({}, 2), -2)", m.name) : m.name;
  }

  std::string along(std::set<std::string>& axes, double& bound) {
    double each = 0;
    const std::string inner = expression(1, axes, each);
    bound = each;
    if (axes.empty()) return inner;
    std::set<std::string> over;
    for (const std::string& dim : axes)
      if (random_.below(2)) over.insert(dim);
    if (over.empty()) over.insert(*axes.begin());
    for (const std::string& dim : over) axes.erase(dim);
    const auto list = shuffled(over);
    constexpr const char* functions[] = {"sum", "max", "min"};
    const int which = random_.below(3);
    bound = which == 0 ? each * static_cast<double>(extent(list)) : each;
    return fmt::format("{}({} over {})", functions[which], inner, fmt::join(list, ", "));
  }

  std::string expression(int depth, std::set<std::string>& axes, double& bound) {
    if (depth == 0) return operand(axes, bound);
    double a = 0, b = 0, c = 0;
    const std::string x = expression(depth - 1, axes, a);
    bound = a;
    switch (random_.below(11)) {
      case 0: return fmt::format("relu({})", x);
      case 1: return fmt::format("-{}", x);
      case 2: bound = a + 3; return fmt::format("({} - 3)", x);
      case 3: {
        if (axes.empty()) return x;
        const auto dim = axes.begin();
        bound = a + static_cast<double>(dims.at(*dim));
        return fmt::format("({} + {}({}))", x, random_.below(2) ? "index" : "size", *dim);
      }
      case 4: {  // the row's own reduction, broadcast again
        std::set<std::string> inner;
        const std::string row = along(inner, b);
        for (const std::string& dim : inner) axes.insert(dim);
        bound = a + b;
        return fmt::format("({} - {})", x, row);
      }
      default: break;
    }
    const std::string y = expression(depth - 1, axes, b);
    bound = a + b;
    switch (random_.below(6)) {
      case 0: return fmt::format("({} + {})", x, y);
      case 1: return fmt::format("({} - {})", x, y);
      case 2: bound = a * b; return fmt::format("({} * {})", x, y);
      case 3: return fmt::format("max({}, {})", x, y);
      case 4: return fmt::format("abs(min({}, {}))", x, y);
      default: {
        const std::string z = expression(depth - 1, axes, c);
        bound = std::max(b, c);
        return fmt::format("where({} {} {}, {}, {})", x, random_.below(2) ? "<" : ">=", y, y, z);
      }
    }
  }

  void write(Made out, const std::string& body) {
    if (extent(out.axes) > max_elements || out.bound > 1 << 22 || made_.size() > 12) return;
    std::string dtype = out.bound <= 256 && random_.below(4) == 0 ? ": bf16" : "";
    if (dtype.empty() && (out.bound > 256 || random_.below(3) == 0)) dtype = ": f32";
    text += fmt::format("{}{}{} = {}\n", out.name, dtype, listed(out.axes), body);
    made_.push_back(std::move(out));
  }

  testing::RandomProgram random_;
  std::vector<Made> made_;
};

void store(const Array& to, std::int64_t i, double value) {
  const auto x = static_cast<float>(value);
  const Bf16 brain = to_bf16(x);
  const F16 half = to_f16(x);
  if (to.dtype == DType::f32) std::memcpy(to.data + 4 * i, &x, 4);
  if (to.dtype == DType::bf16) std::memcpy(to.data + 2 * i, &brain, 2);
  if (to.dtype == DType::f16) std::memcpy(to.data + 2 * i, &half, 2);
}

struct RunResult {
  std::vector<ArrayStorage> storage;
  std::size_t groups = 0;
};

RunResult run_fused_or_not(const Program& program, const Bindings& dims, const NamedIndexEvaluator& given, bool fuse,
                           int threads) {
  const Plan p = make_plan(program, dims, {.fuse = fuse}).value();
  RunResult out;
  for (std::size_t i = 0; i < p.buffers.size(); ++i) {
    out.storage.push_back(ArrayStorage::make(p.buffers[i].dtype, p.buffers[i].elements).value());
    const Array& array = out.storage.back().array();
    poison_array(array, 1);
    for (std::int64_t e = 0; e < array.elements; ++e) {
      if (p.buffers[i].holds_indices) reinterpret_cast<float*>(array.data)[e] = static_cast<float>(e);
      if (i < program.tensors.size() && program.tensors[i].role == TensorRole::input)
        store(array, e, given.values[i][e]);
    }
  }
  for (const PlanStep& step : p.steps) {
    std::vector<void*> data;
    for (const int b : step.buffers) data.push_back(b < 0 ? nullptr : out.storage[b].array().data);
    run_step(step, data, threads);
  }
  out.groups = p.fusion.groups.size();
  return out;
}

// Describes the first wrong element of a stored tensor; empty if all are right.
std::string first_mismatch(const Program& program, const RunResult& result, const NamedIndexEvaluator& expected) {
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    const Array& array = result.storage[t].array();
    for (std::int64_t i = 0; i < array.elements; ++i) {
      const double got = read_element(array, i), expected_value = expected.values[t][i];
      if (got != expected_value)
        return fmt::format("{}, element {}, is {}, expected {}", program.tensors[t].name, i, got, expected_value);
    }
  }
  return "";
}

TEST(RandomPrograms, AreBitIdenticalFusedAndUnfused) {
  const pool::Isa before = pool::active_isa();
  const auto isas = pool::available_isas();
  int fused_more = 0, refused = 0;
  const unsigned programs = testing::program_count(1500);
  for (unsigned seed = 0; seed < programs; ++seed) {
    const RandomStatements s(seed);
    const auto program = parse(s.text);
    ASSERT_TRUE(program.ok()) << s.text << program.error().to_string();
    Bindings dims;
    for (const std::string& dim : program->dim_names()) dims[dim] = s.dims.at(dim);
    if (!make_plan(*program, dims)) {
      ++refused;
      continue;
    }
    NamedIndexEvaluator literal(*program, dims);
    testing::RandomProgram random(seed);
    for (std::size_t t = 0; t < program->tensors.size(); ++t)
      if (program->tensors[t].role == TensorRole::input)
        for (double& x : literal.values[t]) x = random.below(5) - 2;
    literal.evaluate();
    ASSERT_TRUE(pool::set_active_isa(isas[seed % isas.size()]));
    const RunResult unfused = run_fused_or_not(*program, dims, literal, false, 1),
                    fused = run_fused_or_not(*program, dims, literal, true, 1 + seed % 3);
    const std::string about = fmt::format("seed {} on {}, {}\n{}", seed, isa_name(pool::active_isa()), dims, s.text);
    ASSERT_EQ(first_mismatch(*program, unfused, literal), "") << "unfused, " << about;
    ASSERT_EQ(first_mismatch(*program, fused, literal), "") << "fused, " << about;
    fused_more += fused.groups < unfused.groups;
  }
  pool::set_active_isa(before);
  EXPECT_GT(fused_more, static_cast<int>(programs / 5));
  EXPECT_LT(refused, static_cast<int>(programs / 20));
}

}  // namespace
}  // namespace ridge
