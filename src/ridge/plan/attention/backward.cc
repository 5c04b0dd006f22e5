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
  // Returns the statement as a plain product with a sum, or nullptr.
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

  // Collects the statements that compute a tensor, down to products and to tensors with the dimensions of do and o.
  void add_makers(int tensor, std::set<int>& makers, std::set<int>& products) const {
    const int s = writer_[at(tensor)];
    if (s < 0 || is_like_upstream(tensor)) return;
    if (product(s)) {
      products.insert(s);
    } else if (!routine_of(program_.statements[at(s)]) && makers.insert(s).second) {
      for (const int t : operands(program_.statements[at(s)])) add_makers(t, makers, products);
    }
  }

  // True for do itself, and for tensors with value dimensions, without keys, that are not computed from it.
  bool is_like_upstream(int tensor) const {
    if (out_.dout == tensor) return true;
    const Dims dims = dims_of(shape_of(tensor));
    const bool along_values = std::any_of(parts_.out.begin(), parts_.out.end(), [&](const std::string& dim) {
      return has_dim(dims, dim) && !has_dim(dims, parts_.keys);
    });
    const std::vector<int> from = operands(program_.statements[at(writer_[at(tensor)])]);
    return along_values && std::find(from.begin(), from.end(), out_.dout) == from.end();
  }

  // True if `ds` is an operand of two products and is computed, with functions along dimensions, from the product of
  // the two other operands (q and k).
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

  // Returns the statements that compute ds as nodes, with every tensor among them stored.
  Pointwise between() const {
    const std::vector<int> all(makers_.begin(), makers_.end());
    std::vector<int> made;
    for (const int s : all) made.push_back(result(s));
    return joined(program_, all, made);
  }

  // Finds the key dimension, along which a softmax or a maximum runs, and the tensors that are softmaxes of the scores.
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
        if (values[one.node].kind == Kind::softmax && values[one.node].factor == 1 && !reading.stands() &&
            !values[one.node].band.in_sequence)
          softmaxes_[one.tensor] = values[one.node];
      masked_ = reading.rows();
    }
    if (!softmaxes_.empty()) return std::nullopt;
    return no_softmax();
  }
  std::string no_softmax() const {
    return fmt::format(
        "{} is not computed from the softmax of {} times a number, masked by a comparison of two indices",
        name_of(slopes_), name_of(result(scores_)));
  }

  // Decides which operand is q and which is k.
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

  // Finds dp, the product with keys that does not read the softmax, and do, its operand without keys.
  Fault find_upstream() {
    for (const int s : products_) {
      const Contraction& c = *product(s);
      if (s == scores_ || softmaxes_.contains(c.left) || softmaxes_.contains(c.right)) continue;
      if (!has(shape_of(c.result), parts_.keys)) continue;
      if (gradient_ >= 0)
        return fmt::format("{} is computed from more than two products over {}", name_of(slopes_), parts_.keys);
      gradient_ = s;
      out_.v = has(shape_of(c.left), parts_.keys) ? c.left : c.right;
      out_.dout = other(c, out_.v);
    }
    if (gradient_ < 0)
      return fmt::format("{} is computed from no product over {} other than {}", name_of(slopes_), parts_.keys,
                         name_of(result(scores_)));
    for (const std::string& dim : dims_of(shape_of(out_.v)))
      if (dim != parts_.keys && !has_dim(parts_.batch, dim)) parts_.out.push_back(dim);
    makers_.clear();
    products_.clear();
    add_makers(slopes_, makers_, products_);
    return std::nullopt;
  }

  // Returns delta if the product is do times another tensor summed over values, or softmax times dp summed over keys.
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
          return fmt::format("{} is not the softmax times (its gradient {} less the mean of that by the softmax)",
                             name_of(slopes_), name_of(result(gradient_)));
        out_.o = x.of;
        factor_ = x.factor;
        softmax_ = x;
      }
    std::erase_if(softmaxes_, [&](const auto& each) {  // a different softmax
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

  // A product's result, or that result times a number if nothing else reads it.
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
        return fmt::format("{} is the gradient times {}, but the scores {} are scaled by {}", name_of(x.tensor),
                           factor / scale, name_of(result(scores_)), scale);
    }
    for (const auto& [p, value] : softmaxes_)
      for (const int s : readers(p))
        if (const Contraction* c = product(s); c != nullptr && other(*c, p) == out_.dout) {
          out_.dv = c->result;
          ends_.insert(s);
          return std::nullopt;
        }
    return fmt::format("no statement computes the product of {} and {}, the gradient of {}",
                       name_of(softmaxes_.begin()->first), name_of(out_.dout), name_of(out_.v));
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
    return fmt::format("{}{} does not have the dimensions of an attention gradient", name_of(tensor),
                       text(shape_of(tensor)));
  }
  std::vector<int> all_tensors() const {
    std::vector<int> out{out_.q, out_.k, out_.v, out_.dout, out_.dq, out_.dk, out_.dv};
    if (out_.o >= 0) out.push_back(out_.o);
    return out;
  }

  Fault place() {
    if (!masked_.empty() && !has_dim(parts_.rows, masked_))
      return fmt::format("the mask compares with {}, which is not a row dimension", masked_);
    ops::AttentionBackwardProblem& all = out_.problem;
    ops::AttentionProblem& p = all.forward;
    p.dtype = dtype(out_.q);
    std::vector<LaidOut> laid{{&shape_of(out_.q), true, false, &p.q},     {&shape_of(out_.k), false, false, &p.k},
                              {&shape_of(out_.v), false, true, &p.v},     {&shape_of(out_.dout), true, true, &all.dout},
                              {&shape_of(out_.dq), true, false, &all.dq}, {&shape_of(out_.dk), false, false, &all.dk},
                              {&shape_of(out_.dv), false, true, &all.dv}};
    if (out_.o >= 0) laid.push_back({&shape_of(out_.o), true, true, &p.o});
    if (!lay_out(p, parts_, masked_, shape_of(out_.q), shape_of(out_.k), laid))
      return fmt::format("{}, {}, {} and their gradients are not laid out as heads of contiguous rows", name_of(out_.q),
                         name_of(out_.k), name_of(out_.v));
    if (out_.o < 0) p.o = {p.heads * p.rows * p.width, p.rows * p.width, p.width};  // o goes to scratch memory
    return std::nullopt;
  }

  // Lists the softmax statements and the others; returns a reason if an intermediate of the others is read elsewhere.
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
        return fmt::format("'{}' is also needed elsewhere, and the fused attention backward kernel does not store it",
                           name_of(made));
    }
    out_.statements.assign(all.begin(), all.end());
    out_.softmax.assign(softmax.begin(), softmax.end());
    return std::nullopt;
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  Target target_;
  std::vector<int> writer_;                      // statement that writes each tensor; -1 for an input
  int slopes_ = 0, scores_ = 0, gradient_ = -1;  // tensor ds; statements of s and dp
  std::pair<int, int> pair_;                     // statements of dq and dk, in either order
  std::set<int> makers_, products_, ends_;       // statements before ds, products before ds; those of delta and results
  std::map<int, AttentionValue> softmaxes_;      // softmaxes of the scores, by tensor
  AttentionValue softmax_;                       // the softmax from which ds is computed
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
