#include "ridge/plan/attention/backward.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/ops/attention/model.h"
#include "ridge/plan/attention/parts.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

using Kind = AttentionValue::Kind;
using Fault = std::optional<std::string>;

class FindingBackward {
 public:
  FindingBackward(const Program& program, const std::vector<Shape>& shapes, Target target)
      : program_(program), shapes_(shapes), target_(target), writer_(program.tensors.size(), -1) {
    for (int s = 0; s < count(); ++s) writer_[at(result(s))] = s;
  }

  std::optional<FoundAttentionBackward> find(int s) {
    if (!product(s)) return std::nullopt;
    for (const int slopes : {product(s)->left, product(s)->right})
      if (resembles(s, slopes)) {
        slopes_ = slopes;
        if (const Fault why = read()) out_.fault = *why;
        return out_;
      }
    return std::nullopt;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int count() const { return static_cast<int>(program_.statements.size()); }
  int result(int s) const { return program_.statements[at(s)].result(); }
  const Shape& shape_of(int tensor) const { return shapes_[at(tensor)]; }
  const std::string& name_of(int tensor) const { return program_.tensors[at(tensor)].name; }
  DType dtype(int tensor) const { return program_.tensors[at(tensor)].dtype; }
  // A plain product, which sums.
  const Contraction* product(int s) const {
    const auto* c = std::get_if<Contraction>(&program_.statements[at(s)].op);
    return c != nullptr && sums(*c) && !c->grouped && !takes_scaled(program_, *c) ? c : nullptr;
  }
  std::vector<int> readers(int tensor) const {
    std::vector<int> out;
    for (int s = 0; s < count(); ++s) {
      const std::vector<int> all = operands(program_.statements[at(s)]);
      if (std::find(all.begin(), all.end(), tensor) != all.end()) out.push_back(s);
    }
    return out;
  }
  static int other(const Contraction& c, int tensor) { return c.left == tensor ? c.right : c.left; }
  static bool multiplies(const Contraction& c, int a, int b) {
    return (c.left == a && c.right == b) || (c.left == b && c.right == a);
  }

  // What makes a tensor, down to products and to what lies as do and o do.
  void add_makers(int tensor, std::set<int>& makers, std::set<int>& products) const {
    const int s = writer_[at(tensor)];
    if (s < 0 || is_like_upstream(tensor)) return;
    if (product(s)) {
      products.insert(s);
    } else if (!routine_of(program_.statements[at(s)]) && makers.insert(s).second) {
      for (const int t : operands(program_.statements[at(s)])) add_makers(t, makers, products);
    }
  }

  // do itself, and what lies along the values and is not made of it.
  bool is_like_upstream(int tensor) const {
    if (out_.dout == tensor) return true;
    const Dims dims = dims_of(shape_of(tensor));
    const bool along_values = std::any_of(parts_.out.begin(), parts_.out.end(), [&](const std::string& dim) {
      return has_dim(dims, dim) && !has_dim(dims, parts_.keys);
    });
    const std::vector<int> from = operands(program_.statements[at(writer_[at(tensor)])]);
    return along_values && std::find(from.begin(), from.end(), out_.dout) == from.end();
  }

  // Two products of what is made of the product of their other operands, along dimensions.
  bool resembles(int s, int slopes) {
    const int from = writer_[at(slopes)];
    if (from < 0 || product(from)) return false;
    std::set<int> makers, products;
    add_makers(slopes, makers, products);
    const bool along = std::any_of(makers.begin(), makers.end(), [&](int m) {
      const auto* e = std::get_if<Expression>(&program_.statements[at(m)].op);
      return e != nullptr && std::any_of(e->nodes.begin(), e->nodes.end(),
                                         [](const Node& node) { return node.kind == Node::Kind::along; });
    });
    if (!along) return false;
    for (const int second : readers(slopes)) {
      if (second == s || !product(second)) continue;
      const int x = other(*product(s), slopes), y = other(*product(second), slopes);
      for (const int scores : products)
        if (multiplies(*product(scores), x, y)) {
          pair_ = {s, second};
          scores_ = scores;
          makers_ = makers;
          products_ = products;
          return true;
        }
    }
    return false;
  }

  Fault read() {
    using Step = Fault (FindingBackward::*)();
    for (const Step step : {&FindingBackward::read_softmax, &FindingBackward::split, &FindingBackward::find_upstream,
                            &FindingBackward::read_slopes, &FindingBackward::find_results, &FindingBackward::check_dims,
                            &FindingBackward::place, &FindingBackward::list})
      if (Fault why = (this->*step)()) return why;
    const Fault why = target_ == Target::cuda ? ops::cuda::refuse(out_.problem) : ops::refuse(out_.problem);
    if (why) return "attention's gradients: " + *why;
    return std::nullopt;
  }

  // The nodes of all that makes the slopes, and of each tensor among it.
  Pointwise between() const {
    const std::vector<int> all(makers_.begin(), makers_.end());
    std::vector<int> made;
    for (const int s : all) made.push_back(result(s));
    return joined(program_, all, made);
  }

  // The keys are what a softmax, or a largest score, runs along; its tensors are those that only scores make.
  Fault read_softmax() {
    const Pointwise all = between();
    for (const Node& node : all.nodes) {
      const bool begins =
          node.kind == Node::Kind::along && (node.function == Function::softmax || node.function == Function::max);
      if (!begins || node.over.size() != 1 || !softmaxes_.empty()) continue;
      parts_.keys = node.over[0].dim;
      AttentionReading reading(shapes_, {.scores = result(scores_)}, parts_.keys);
      const std::vector<AttentionValue>& values = reading.read(all.nodes);
      for (const Pointwise::Stored& one : all.results)
        if (values[one.node].kind == Kind::softmax && values[one.node].factor == 1)
          softmaxes_[one.tensor] = values[one.node];
      masked_ = reading.rows();
    }
    if (!softmaxes_.empty()) return std::nullopt;
    return no_softmax();
  }
  std::string no_softmax() const {
    return fmt::format(
        "{} is made of no tensor that is the softmax of {} times a number, masked by a comparison of two indices",
        name_of(slopes_), name_of(result(scores_)));
  }

  // Which operand is q and which is k.
  Fault split() {
    const Contraction& c = *product(scores_);
    out_.k = has(shape_of(c.left), parts_.keys) ? c.left : c.right;
    out_.q = other(c, out_.k);
    if (!has(shape_of(out_.k), parts_.keys) || has(shape_of(out_.q), parts_.keys))
      return fmt::format("{} is not the product of one operand with {} and one without", name_of(c.result),
                         parts_.keys);
    parts_ = attention_parts(shape_of(out_.q), shape_of(out_.k), shape_of(c.result), parts_.keys);
    return std::nullopt;
  }

  // dp is the product among the makers that has keys and is not of the softmax; do is its operand without keys.
  Fault find_upstream() {
    for (const int s : products_) {
      const Contraction& c = *product(s);
      if (s == scores_ || softmaxes_.contains(c.left) || softmaxes_.contains(c.right)) continue;
      if (!has(shape_of(c.result), parts_.keys)) continue;
      if (gradient_ >= 0)
        return fmt::format("{} is made of more than two products over {}", name_of(slopes_), parts_.keys);
      gradient_ = s;
      out_.v = has(shape_of(c.left), parts_.keys) ? c.left : c.right;
      out_.dout = other(c, out_.v);
    }
    if (gradient_ < 0)
      return fmt::format("{} is made of no product over {} beside {}", name_of(slopes_), parts_.keys,
                         name_of(result(scores_)));
    for (const std::string& dim : dims_of(shape_of(out_.v)))
      if (dim != parts_.keys && !has_dim(parts_.batch, dim)) parts_.out.push_back(dim);
    makers_.clear();
    products_.clear();
    add_makers(slopes_, makers_, products_);
    return std::nullopt;
  }

  // Of do times another along the values, or of a softmax times dp along the keys.
  std::optional<AttentionValue> mean_of(const Contraction& c) const {
    if (!contains_same(dims_of(shape_of(c.result)), {&parts_.batch, &parts_.rows})) return std::nullopt;
    for (const auto& [a, b] : {std::pair(c.left, c.right), {c.right, c.left}}) {
      if (a == out_.dout) return AttentionValue{.kind = Kind::mean, .of = b};
      const auto softmax = softmaxes_.find(a);
      if (softmax == softmaxes_.end() || b != result(gradient_)) continue;
      AttentionValue out = softmax->second;
      out.kind = Kind::mean;
      out.weighed = true;
      return out;
    }
    return std::nullopt;
  }

  Fault read_slopes() {
    AttentionLeaves leaves{result(scores_), result(gradient_), out_.dout};
    for (const int s : products_)
      if (const auto mean = mean_of(*product(s))) {
        leaves.means[result(s)] = *mean;
        ends_.insert(s);
      }
    AttentionReading reading(shapes_, leaves, parts_.keys, parts_.out);
    const Pointwise all = between();
    const std::vector<AttentionValue>& values = reading.read(all.nodes);
    for (const Pointwise::Stored& one : all.results)
      if (one.tensor == slopes_) {
        const AttentionValue& x = values[one.node];
        if (x.kind != Kind::slopes)
          return fmt::format("{} is not the softmax times what its gradient {} has beyond its mean by the softmax",
                             name_of(slopes_), name_of(result(gradient_)));
        out_.o = x.of;
        factor_ = x.factor;
        softmax_ = x;
      }
    std::erase_if(softmaxes_, [&](const auto& each) {  // another one
      const AttentionValue& x = each.second;
      return x.number != softmax_.number || x.within != softmax_.within || x.band != softmax_.band;
    });
    if (softmaxes_.empty()) return no_softmax();
    ops::AttentionProblem& p = out_.problem.forward;
    p.scale = softmax_.within == 0 ? softmax_.number : softmax_.within * softmax_.number;
    p.cap = softmax_.within == 0 ? 0 : softmax_.number;
    p.low = softmax_.band.low;
    p.high = softmax_.band.high;
    return std::nullopt;
  }

  // Where a number times a product's sums is all that these are read for, that.
  struct Scaled {
    int tensor;
    double factor;
    std::vector<int> statements;
  };
  Scaled scaled(int s) const {
    const int sums = result(s);
    const std::vector<int> all = readers(sums);
    if (program_.tensors[at(sums)].role != Role::intermediate || all.size() != 1 || product(all[0]) ||
        routine_of(program_.statements[at(all[0])]))
      return {sums, 1, {s}};
    AttentionReading reading(shapes_, {.scores = sums}, parts_.keys);
    const Pointwise nodes = joined(program_, {all[0]}, {result(all[0])});
    const AttentionValue x = reading.read(nodes.nodes).back();
    const AttentionValue none{};
    if (x.kind != Kind::scores || x.within != 0 || x.band != none.band) return {sums, 1, {s}};
    return {result(all[0]), x.number, {s, all[0]}};
  }

  Fault find_results() {
    for (const int s : {pair_.first, pair_.second}) {
      const Scaled x = scaled(s);
      const bool of_k = other(*product(s), slopes_) == out_.k;
      (of_k ? out_.dq : out_.dk) = x.tensor;
      ends_.insert(x.statements.begin(), x.statements.end());
      const double factor = factor_ * x.factor, scale = out_.problem.forward.scale;
      if (!(std::fabs(factor - scale) <= 1e-6 * scale))
        return fmt::format("{} is the gradient times {}, and {}'s scores are scaled by {}", name_of(x.tensor),
                           factor / scale, name_of(result(scores_)), scale);
    }
    for (const auto& [p, value] : softmaxes_)
      for (const int s : readers(p))
        if (const Contraction* c = product(s); c != nullptr && other(*c, p) == out_.dout) {
          out_.dv = c->result;
          ends_.insert(s);
          return std::nullopt;
        }
    return fmt::format("nothing is the product of {} and {}, the gradient of {}", name_of(softmaxes_.begin()->first),
                       name_of(out_.dout), name_of(out_.v));
  }

  Fault check_dims() {
    const Dims keys{parts_.keys};
    const auto is = [&](int tensor, std::initializer_list<const Dims*> groups) {
      return tensor < 0 || contains_same(dims_of(shape_of(tensor)), groups);
    };
    const AttentionParts& x = parts_;
    for (const int of_q : {out_.q, out_.dq})
      if (!is(of_q, {&x.batch, &x.rows, &x.width})) return unlike(of_q);
    for (const int of_k : {out_.k, out_.dk})
      if (!is(of_k, {&x.batch, &keys, &x.width})) return unlike(of_k);
    for (const int of_v : {out_.v, out_.dv})
      if (!is(of_v, {&x.batch, &keys, &x.out})) return unlike(of_v);
    for (const int of_o : {out_.dout, out_.o})
      if (!is(of_o, {&x.batch, &x.rows, &x.out})) return unlike(of_o);
    for (const int of_s : {result(scores_), result(gradient_), slopes_, softmaxes_.begin()->first})
      if (!is(of_s, {&x.batch, &x.rows, &keys})) return unlike(of_s);
    for (const int tensor : all_tensors())
      if (dtype(tensor) != dtype(out_.q))
        return fmt::format("{} is {}, {} is {}", name_of(out_.q), name(dtype(out_.q)), name_of(tensor),
                           name(dtype(tensor)));
    return std::nullopt;
  }
  std::string unlike(int tensor) const {
    return fmt::format("{}{} has other dimensions than the gradients of attention want", name_of(tensor),
                       text(shape_of(tensor)));
  }
  std::vector<int> all_tensors() const {
    std::vector<int> out{out_.q, out_.k, out_.v, out_.dout, out_.dq, out_.dk, out_.dv};
    if (out_.o >= 0) out.push_back(out_.o);
    return out;
  }

  Fault place() {
    if (!masked_.empty() && !has_dim(parts_.rows, masked_))
      return fmt::format("the mask compares with {}, which is no dimension of rows", masked_);
    ops::AttentionBackwardProblem& all = out_.problem;
    ops::AttentionProblem& p = all.forward;
    p.dtype = dtype(out_.q);
    std::vector<LaidOut> laid{{&shape_of(out_.q), true, false, &p.q},     {&shape_of(out_.k), false, false, &p.k},
                              {&shape_of(out_.v), false, true, &p.v},     {&shape_of(out_.dout), true, true, &all.dout},
                              {&shape_of(out_.dq), true, false, &all.dq}, {&shape_of(out_.dk), false, false, &all.dk},
                              {&shape_of(out_.dv), false, true, &all.dv}};
    if (out_.o >= 0) laid.push_back({&shape_of(out_.o), true, true, &p.o});
    if (!lay_out(p, parts_, masked_, shape_of(out_.q), shape_of(out_.k), laid))
      return fmt::format("{}, {}, {} and their gradients do not lie as heads of whole rows", name_of(out_.q),
                         name_of(out_.k), name_of(out_.v));
    if (out_.o < 0) p.o = {p.heads * p.rows * p.width, p.rows * p.width, p.width};  // scratch
    return std::nullopt;
  }

  // Statements of the softmax and the others; nobody else wants what these make in between.
  Fault list() {
    std::set<int> softmax{scores_}, all = ends_, products;
    for (const auto& [p, value] : softmaxes_) add_makers(p, softmax, products);
    all.insert(gradient_);
    for (const int s : makers_)
      if (!softmax.contains(s)) all.insert(s);
    for (const int s : all) {
      const int made = result(s);
      if (made == out_.dq || made == out_.dk || made == out_.dv) continue;
      const std::vector<int> by = readers(made);
      const bool wanted = std::any_of(by.begin(), by.end(), [&](int r) { return !all.contains(r); });
      if (wanted || program_.tensors[at(made)].role != Role::intermediate)
        return fmt::format("{} is wanted by others, and attention's gradients store none of what lies between",
                           name_of(made));
    }
    out_.statements.assign(all.begin(), all.end());
    out_.softmax.assign(softmax.begin(), softmax.end());
    return std::nullopt;
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  Target target_;
  std::vector<int> writer_;                      // of each tensor; -1: an input
  int slopes_ = 0, scores_ = 0, gradient_ = -1;  // ds; the statements of s and dp
  std::pair<int, int> pair_;                     // the statements of dq and dk, in either order
  std::set<int> makers_, products_, ends_;       // statements: between the products; these; of means and results
  std::map<int, AttentionValue> softmaxes_;      // tensors
  AttentionValue softmax_;                       // that the slopes are made of
  AttentionParts parts_ = {};
  std::string masked_;
  double factor_ = 1;
  FoundAttentionBackward out_ = {};
};

}  // namespace

std::optional<FoundAttentionBackward> find_attention_backward(const Program& program, const std::vector<Shape>& shapes,
                                                              int statement, Target target) {
  return FindingBackward(program, shapes, target).find(statement);
}

}  // namespace ridge
