#include "ridge/plan/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ridge/base/check.h"
#include "ridge/base/function.h"
#include "ridge/ops/attention/model.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

using Dims = std::vector<std::string>;
using Band = std::pair<std::int64_t, std::int64_t>;  // key - row lies in low … high

constexpr std::int64_t far = ops::AttentionProblem::far;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Band all_keys = {-far, far};

bool has_dim(const Dims& dims, const std::string& dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}
Band both(const Band& a, const Band& b) { return {std::max(a.first, b.first), std::min(a.second, b.second)}; }

// What a node between the two products is.
struct Value {
  enum class Kind {
    unknown,
    constant,   // number
    index,      // of `dim`, plus number
    condition,  // 1 where key - row lies in the band, else 0
    mask,       // 0 there, else -inf
    scores,     // s * number, or tanh(s * within) * number, there, else -inf
    largest,    // of such scores along the keys
    distance,   // such scores less their largest
    weights,    // e to that
    total,      // the sum of those along the keys
    inverse,    // 1 over that
    softmax,    // weights over their total
  } kind = Kind::unknown;
  double number = 0, within = 0;  // within: 0 where there is no tanh
  std::string dim = {};
  Band band = all_keys;
};

bool same_scores(const Value& a, const Value& b) {
  return a.number == b.number && a.within == b.within && a.band == b.band;
}

class Reading {  // of the nodes between the two products
 public:
  Reading(const std::vector<Shape>& shapes, int scores, std::string keys)
      : shapes_(shapes), scores_(scores), keys_(std::move(keys)) {}

  // Of the last node.
  Value read(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) values_.push_back(value_of(node));
    return values_.back();
  }
  const std::string& rows() const { return rows_; }  // the dimension that masks compare with; empty: there is no mask

 private:
  using Kind = Value::Kind;

  const Value& argument(const Node& node, std::size_t i) const {
    return values_[static_cast<std::size_t>(node.arguments[i])];
  }
  double extent(const std::string& dim) const {
    std::int64_t longest = 1;
    for (const Shape& shape : shapes_) longest = std::max(longest, along(shape, dim).extent);
    return static_cast<double>(longest);
  }

  Value value_of(const Node& node) {
    switch (node.kind) {
      case Node::Kind::tensor:
        if (node.tensor == scores_) return {.kind = Kind::scores, .number = 1};
        return {};
      case Node::Kind::number: return {.kind = Kind::constant, .number = node.number};
      case Node::Kind::index: return {.kind = Kind::index, .dim = node.over[0].dim};
      case Node::Kind::size: return {.kind = Kind::constant, .number = extent(node.over[0].dim)};
      case Node::Kind::along: return along_keys(node);
      case Node::Kind::call: return node.repeat == 1 ? call(node) : Value{};
    }
    return {};
  }

  Value along_keys(const Node& node) const {
    if (node.over.size() != 1 || node.over[0].dim != keys_) return {};
    Value x = argument(node, 0);
    if (node.function == Function::softmax && x.kind == Kind::scores)
      x.kind = Kind::softmax;
    else if (node.function == Function::max && x.kind == Kind::scores)
      x.kind = Kind::largest;
    else if (node.function == Function::sum && x.kind == Kind::weights)
      x.kind = Kind::total;
    else
      return {};
    return x;
  }

  Value call(const Node& node) {
    const auto arity = node.arguments.size();
    if (std::all_of(node.arguments.begin(), node.arguments.end(),
                    [&](int i) { return values_[static_cast<std::size_t>(i)].kind == Kind::constant; }))
      return folded(node);
    if (arity == 1) return unary(node.function, argument(node, 0));
    if (arity == 2) return binary(node.function, argument(node, 0), argument(node, 1));
    if (arity == 3 && node.function == Function::where)
      return chosen(argument(node, 0), argument(node, 1), argument(node, 2));
    return {};
  }
  Value folded(const Node& node) const {
    double in[3] = {0, 0, 0};
    for (std::size_t i = 0; i < node.arguments.size() && i < 3; ++i) in[i] = argument(node, i).number;
    const auto& of = row(node.function);
    if (of.value == nullptr) return {};
    return {.kind = Kind::constant, .number = of.value(in[0], in[1], in[2])};
  }
  static Value unary(Function f, Value x) {
    if (f == Function::exp && x.kind == Kind::distance) {
      x.kind = Kind::weights;
      return x;
    }
    if (f == Function::tanh && x.kind == Kind::scores && x.within == 0 && x.band == all_keys) {
      x.within = x.number;
      x.number = 1;
      return x;
    }
    return {};
  }

  Value binary(Function f, const Value& a, const Value& b) {
    switch (f) {
      case Function::multiply: return product(a, b);
      case Function::divide: return quotient(a, b);
      case Function::add: return sum(a, b);
      case Function::subtract: return difference(a, b);
      case Function::less: return compared(a, b, 1);
      case Function::less_equal: return compared(a, b, 0);
      case Function::greater: return compared(b, a, 1);
      case Function::greater_equal: return compared(b, a, 0);
      default: return {};  // every other function makes no attention of these
    }
  }
  static Value product(const Value& a, const Value& b) {
    if (a.kind == Kind::constant && b.kind != Kind::constant) return product(b, a);
    Value out = a;
    if (a.kind == Kind::scores && b.kind == Kind::constant) {
      out.number *= b.number;
      return b.number > 0 ? out : Value{};  // times a number below 0 the mask would be +inf
    }
    if (a.kind == Kind::condition && b.kind == Kind::condition) {
      out.band = both(a.band, b.band);
      return out;
    }
    if (a.kind == Kind::inverse && b.kind == Kind::weights) return product(b, a);
    if (a.kind == Kind::weights && b.kind == Kind::inverse && same_scores(a, b)) {
      out.kind = Kind::softmax;
      return out;
    }
    return {};
  }
  static Value quotient(const Value& a, const Value& b) {
    if (b.kind == Kind::constant) return product(a, {.kind = Kind::constant, .number = 1 / b.number});
    Value out = b;
    if (a.kind == Kind::constant && a.number == 1 && b.kind == Kind::total) {
      out.kind = Kind::inverse;
      return out;
    }
    if (a.kind == Kind::weights && b.kind == Kind::total && same_scores(a, b)) {
      out.kind = Kind::softmax;
      return out;
    }
    return {};
  }
  static Value sum(const Value& a, const Value& b) {
    if (a.kind == Kind::mask && b.kind == Kind::scores) return sum(b, a);
    Value out = a;
    if ((a.kind == Kind::scores || a.kind == Kind::mask) && b.kind == Kind::mask) {
      out.band = both(a.band, b.band);
      return out;
    }
    if (a.kind == Kind::constant && b.kind == Kind::index) return sum(b, a);
    if (a.kind == Kind::index && b.kind == Kind::constant) {
      out.number += b.number;
      return out;
    }
    return {};
  }
  static Value difference(const Value& a, const Value& b) {
    Value out = a;
    if (a.kind == Kind::scores && b.kind == Kind::largest && same_scores(a, b)) {
      out.kind = Kind::distance;
      return out;
    }
    if (b.kind == Kind::constant) return sum(a, {.kind = Kind::constant, .number = -b.number});
    return {};
  }

  // a + less <= b of a key and a row, in either order, whose difference is a whole number.
  Value compared(const Value& a, const Value& b, int less) {
    if (a.kind != Kind::index || b.kind != Kind::index) return {};
    const bool key_first = a.dim == keys_;
    const std::string& other = key_first ? b.dim : a.dim;
    if ((a.dim == keys_) == (b.dim == keys_) || (!rows_.empty() && rows_ != other)) return {};
    const double apart = b.number - a.number - less;  // a's index <= b's index + apart
    if (apart != std::floor(apart) || std::abs(apart) >= static_cast<double>(far)) return {};
    rows_ = other;
    Value out{.kind = Kind::condition};
    (key_first ? out.band.second : out.band.first) =
        key_first ? static_cast<std::int64_t>(apart) : -static_cast<std::int64_t>(apart);
    return out;
  }
  static Value chosen(const Value& where, const Value& a, const Value& b) {
    const auto is = [](const Value& x, double number) { return x.kind == Kind::constant && x.number == number; };
    if (where.kind != Kind::condition || !is(b, -infinity)) return {};
    Value out = a;
    if (is(a, 0)) out = {.kind = Kind::mask};
    if (out.kind != Kind::mask && out.kind != Kind::scores) return {};
    out.band = both(out.band, where.band);
    return out;
  }

  const std::vector<Shape>& shapes_;
  int scores_;
  std::string keys_, rows_;
  std::vector<Value> values_;
};

// The dimensions of both products by their parts.
struct Parts {
  Dims batch, rows, width, out;  // rows: of q and not of k, the one that is walked and those that are further heads
  std::string keys;
};

class Finding {
 public:
  Finding(const Program& program, const std::vector<Shape>& shapes, const std::vector<int>& statements, Target target)
      : program_(program), shapes_(shapes), statements_(statements), target_(target) {}

  FoundAttention find() {
    const auto is_product = [&](int s) {
      const auto* c = std::get_if<Contraction>(&program_.statements[static_cast<std::size_t>(s)].op);
      return c != nullptr && sums(*c);
    };
    const auto& first = contraction(*std::find_if(statements_.begin(), statements_.end(), is_product));
    const auto& last = contraction(statements_.back());
    if (auto why = split(first, last)) return {.fault = *why};
    if (auto why = read_scores(first.result)) return {.fault = *why};
    if (auto why = lay_out()) return {.fault = *why};
    const auto why = target_ == Target::cuda ? ops::cuda::refuse(out_.problem) : ops::refuse(out_.problem);
    if (why) return {.fault = "attention: " + *why};
    return out_;
  }

 private:
  const Contraction& contraction(int s) const {
    return std::get<Contraction>(program_.statements[static_cast<std::size_t>(s)].op);
  }
  const Shape& shape_of(int tensor) const { return shapes_[static_cast<std::size_t>(tensor)]; }
  const std::string& name_of(int tensor) const { return program_.tensors[static_cast<std::size_t>(tensor)].name; }
  DType dtype(int tensor) const { return program_.tensors[static_cast<std::size_t>(tensor)].dtype; }
  static Dims dims_of(const Shape& shape) {
    Dims out;
    for (const SizedAxis& axis : shape)
      if (axis.extent > 1) out.push_back(axis.dim);
    return out;
  }
  static bool contains_same(const Dims& dims, std::initializer_list<const Dims*> groups) {
    Dims all;
    for (const Dims* group : groups) all.insert(all.end(), group->begin(), group->end());
    Dims mine = dims;
    std::sort(all.begin(), all.end());
    std::sort(mine.begin(), mine.end());
    return all == mine;
  }

  // Which operand is q, k and v, and which dimension is what.
  std::optional<std::string> split(const Contraction& first, const Contraction& last) {
    weights_ = written(last.left) ? last.left : last.right;
    out_.v = weights_ == last.left ? last.right : last.left;
    out_.o = last.result;
    const Dims weights = dims_of(shape_of(weights_)), values = dims_of(shape_of(out_.v)),
               result = dims_of(shape_of(out_.o));
    Dims summed;
    for (const std::string& dim : weights)
      if (has_dim(values, dim) && !has_dim(result, dim)) summed.push_back(dim);
    if (summed.size() != 1) return fmt::format("{} is summed over one dimension of keys alone", name_of(out_.o));
    parts_.keys = summed[0];
    out_.k = has(shape_of(first.left), parts_.keys) ? first.left : first.right;
    out_.q = out_.k == first.left ? first.right : first.left;
    const Dims q = dims_of(shape_of(out_.q)), k = dims_of(shape_of(out_.k)), s = dims_of(shape_of(first.result));
    if (has_dim(q, parts_.keys)) return fmt::format("{} has no dimension {}", name_of(out_.q), parts_.keys);
    for (const std::string& dim : q) {
      const bool in_k = has_dim(k, dim), in_s = has_dim(s, dim);
      if (in_k && in_s) parts_.batch.push_back(dim);
      if (!in_k && in_s) parts_.rows.push_back(dim);
      if (in_k && !in_s) parts_.width.push_back(dim);
    }
    for (const std::string& dim : values)
      if (dim != parts_.keys && !has_dim(parts_.batch, dim)) parts_.out.push_back(dim);
    const Dims keys{parts_.keys};
    if (!contains_same(k, {&parts_.batch, &keys, &parts_.width}) ||
        !contains_same(q, {&parts_.batch, &parts_.rows, &parts_.width}) ||
        !contains_same(s, {&parts_.batch, &parts_.rows, &keys}) ||
        !contains_same(weights, {&parts_.batch, &parts_.rows, &keys}) ||
        !contains_same(values, {&parts_.batch, &keys, &parts_.out}) ||
        !contains_same(result, {&parts_.batch, &parts_.rows, &parts_.out}))
      return fmt::format("{} and {} are no products of the same heads", name_of(first.result), name_of(out_.o));
    for (const int tensor : {out_.q, out_.k, out_.v, out_.o})
      if (dtype(tensor) != dtype(out_.q))
        return fmt::format("{} is {}, {} is {}", name_of(out_.q), name(dtype(out_.q)), name_of(tensor),
                           name(dtype(tensor)));
    return std::nullopt;
  }
  bool written(int tensor) const {
    return std::any_of(statements_.begin(), statements_.end() - 1,
                       [&](int s) { return program_.statements[static_cast<std::size_t>(s)].result() == tensor; });
  }

  std::optional<std::string> read_scores(int scores) {
    const std::vector<int> between(statements_.begin(), statements_.end() - 1);
    const Pointwise all = joined(program_, between, {weights_});
    if (all.results.size() != 1) return fmt::format("{} is no softmax", name_of(weights_));
    std::vector<Node> nodes(all.nodes.begin(),
                            all.nodes.begin() + static_cast<std::ptrdiff_t>(all.results[0].node) + 1);
    Reading reading(shapes_, scores, parts_.keys);
    const Value value = reading.read(nodes);
    if (value.kind != Value::Kind::softmax)
      return fmt::format("{} is not the softmax over {} of {} times a number, masked by a comparison of two indices",
                         name_of(weights_), parts_.keys, name_of(scores));
    out_.problem.scale = value.within == 0 ? value.number : value.within * value.number;
    out_.problem.cap = value.within == 0 ? 0 : value.number;
    out_.problem.low = value.band.first;
    out_.problem.high = value.band.second;
    masked_ = reading.rows();
    return std::nullopt;
  }

  std::int64_t extent(const Shape& shape, const Dims& dims) const {
    std::int64_t n = 1;
    for (const std::string& dim : dims) n *= along(shape, dim).extent;
    return n;
  }
  static std::optional<ops::HeadsLayout> layout(const Shape& shape, const Dims& outer, const Dims& heads,
                                                const std::string& rows, const Dims& width) {
    const auto outer_stride = merged_stride(shape, outer), head = merged_stride(shape, heads),
               element = merged_stride(shape, width);
    if (!outer_stride || !head || !element) return std::nullopt;
    std::int64_t wide = 1;
    for (const std::string& dim : width) wide *= along(shape, dim).extent;
    if (wide > 1 && *element != 1) return std::nullopt;
    return ops::HeadsLayout{*outer_stride, *head, rows.empty() ? 0 : along(shape, rows).stride};
  }

  // The dimension of rows and how the batch falls into outer and heads, so that strides can say where all lies.
  std::optional<std::string> lay_out() {
    if (!masked_.empty() && !has_dim(parts_.rows, masked_))
      return fmt::format("the mask compares with {}, which is no dimension of rows", masked_);
    Dims candidates = parts_.rows;
    std::stable_sort(candidates.begin(), candidates.end(), [&](const std::string& a, const std::string& b) {
      return along(shape_of(out_.q), a).extent > along(shape_of(out_.q), b).extent;
    });
    if (!masked_.empty()) candidates = {masked_};
    if (candidates.empty()) candidates.emplace_back();
    for (const std::string& rows : candidates)
      for (std::size_t outer = 0; outer <= parts_.batch.size(); ++outer)
        if (place(rows, outer)) return std::nullopt;
    return fmt::format("{}, {}, {} and {} do not lie as heads of whole rows", name_of(out_.q), name_of(out_.k),
                       name_of(out_.v), name_of(out_.o));
  }
  bool place(const std::string& rows, std::size_t count) {
    const auto middle = parts_.batch.begin() + static_cast<std::ptrdiff_t>(count);
    const Dims outer(parts_.batch.begin(), middle), heads(middle, parts_.batch.end());
    Dims all_heads = heads;
    for (const std::string& dim : parts_.rows)
      if (dim != rows) all_heads.push_back(dim);
    const Shape &q = shape_of(out_.q), &k = shape_of(out_.k), &v = shape_of(out_.v), &o = shape_of(out_.o);
    const auto of_q = layout(q, outer, all_heads, rows, parts_.width),
               of_o = layout(o, outer, all_heads, rows, parts_.out);
    const auto of_k = layout(k, outer, heads, parts_.keys, parts_.width),
               of_v = layout(v, outer, heads, parts_.keys, parts_.out);
    if (!of_q || !of_k || !of_v || !of_o) return false;
    if (extent(q, parts_.width) != extent(v, parts_.out)) return false;
    ops::AttentionProblem& p = out_.problem;
    p.dtype = dtype(out_.q);
    p.outer = extent(q, outer);
    p.heads = extent(q, all_heads);
    p.key_heads = extent(q, heads);
    p.rows = rows.empty() ? 1 : along(q, rows).extent;
    p.keys = along(k, parts_.keys).extent;
    p.width = extent(q, parts_.width);
    p.q = *of_q;
    p.k = *of_k;
    p.v = *of_v;
    p.o = *of_o;
    return true;
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  const std::vector<int>& statements_;
  Target target_;
  Parts parts_ = {};
  int weights_ = 0;
  std::string masked_;
  FoundAttention out_ = {};
};

}  // namespace

FoundAttention find_attention(const Program& program, const std::vector<Shape>& shapes,
                              const std::vector<int>& statements, Target target) {
  return Finding(program, shapes, statements, target).find();
}

void lower_attention(Lowering& to, int group) {
  std::vector<Shape> shapes;
  for (const View& view : to.tensors) shapes.push_back(view.shape);
  const FoundAttention found = find_attention(
      to.program, shapes, to.plan.fusion.groups[static_cast<std::size_t>(group)].statements, to.plan.fusion.target);
  RIDGE_CHECK(found.fault.empty(), found.fault);
  Step step;
  step.group = group;
  step.kernel = found.problem;
  for (const int tensor : {found.q, found.k, found.v, found.o}) step.buffers.push_back(to.view(tensor).buffer);
  to.plan.steps.push_back(std::move(step));
}

}  // namespace ridge
