#include "ridge/plan/attention/recognize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/ops/attention/model.h"
#include "ridge/plan/attention/operand_layout.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

using TermKind = AttentionTerm::TermKind;

class AttentionBackwardRecognizer {
 public:
  AttentionBackwardRecognizer(const Program& program, const TensorUses& uses, const std::vector<Shape>& shapes,
                              Target target)
      : program_(program), uses_(uses), shapes_(shapes), target_(target) {}

  std::optional<FoundAttentionBackward> recognize_at(int s) {
    if (!product_at(s)) return std::nullopt;
    for (const int ds : {product_at(s)->left, product_at(s)->right})
      if (match_dq_and_dk(s, ds)) {
        ds_ = ds;
        out_.fusion_blocker = run_checks();
        return out_;
      }
    return std::nullopt;
  }

 private:
  int statement_count() const { return static_cast<int>(program_.statements.size()); }
  int result_of(int s) const { return program_.statements[s].result(); }
  const Shape& shape_of(int tensor) const { return shapes_[tensor]; }
  const std::string& name_of(int tensor) const { return program_.tensors[tensor].name; }
  DType dtype_of(int tensor) const { return program_.tensors[tensor].dtype; }
  // Returns the statement as a plain product with a sum, or nullptr.
  const Contraction* product_at(int s) const {
    const auto* c = std::get_if<Contraction>(&program_.statements[s].op);
    return c != nullptr && has_sum(*c) && !c->grouped && !has_block_scaled_factor(program_, *c) ? c : nullptr;
  }
  static int other_operand(const Contraction& c, int tensor) { return c.left == tensor ? c.right : c.left; }
  static bool multiplies_both(const Contraction& c, int a, int b) {
    return (c.left == a && c.right == b) || (c.left == b && c.right == a);
  }

  // Collects the statements that compute a tensor, down to products and to tensors with the dimensions of do and o.
  void add_producers(int tensor, std::set<int>& producers, std::set<int>& products) const {
    const int s = uses_.writer(tensor);
    if (s < 0 || may_be_output_gradient(tensor)) return;
    if (product_at(s)) {
      products.insert(s);
    } else if (!routine_of(program_.statements[s]) && producers.insert(s).second) {
      for (const int t : statement_operands(program_.statements[s])) add_producers(t, producers, products);
    }
  }

  // True for the output gradient do, and for a tensor with value dimensions but no keys that is not computed from do.
  bool may_be_output_gradient(int tensor) const {
    if (out_.dout == tensor) return true;
    const DimNames dims = nontrivial_dims(shape_of(tensor));
    const bool along_values = std::any_of(
        attention_dims_.value_width.begin(), attention_dims_.value_width.end(),
        [&](const std::string& dim) { return contains(dims, dim) && !contains(dims, attention_dims_.keys); });
    const std::vector<int> from = statement_operands(program_.statements[uses_.writer(tensor)]);
    return along_values && !contains(from, out_.dout);
  }

  // True if `ds` is an operand of two products and is computed, with functions along dimensions, from the product of
  // the two other operands (q and k).
  bool match_dq_and_dk(int s, int ds) {
    const int from = uses_.writer(ds);
    if (from < 0 || product_at(from)) return false;
    std::set<int> producers, products;
    add_producers(ds, producers, products);
    const bool along = std::any_of(producers.begin(), producers.end(), [&](int m) {
      const auto* e = std::get_if<Expression>(&program_.statements[m].op);
      return e != nullptr && std::any_of(e->nodes.begin(), e->nodes.end(),
                                         [](const Node& node) { return node.kind == Node::Kind::along_dims; });
    });
    if (!along) return false;
    for (const int second : uses_.readers(ds)) {
      if (second == s || !product_at(second)) continue;
      const int x = other_operand(*product_at(s), ds), y = other_operand(*product_at(second), ds);
      for (const int scores : products)
        if (multiplies_both(*product_at(scores), x, y)) {
          dq_dk_ = {s, second};
          scores_statement_ = scores;
          producers_ = producers;
          products_ = products;
          return true;
        }
    }
    return false;
  }

  Reason run_checks() {
    using CheckStep = Reason (AttentionBackwardRecognizer::*)();
    for (const CheckStep step :
         {&AttentionBackwardRecognizer::find_softmaxes, &AttentionBackwardRecognizer::identify_q_and_k,
          &AttentionBackwardRecognizer::find_output_gradient, &AttentionBackwardRecognizer::match_ds,
          &AttentionBackwardRecognizer::find_results, &AttentionBackwardRecognizer::check_dims,
          &AttentionBackwardRecognizer::set_layouts, &AttentionBackwardRecognizer::list_statements})
      if (Reason why = (this->*step)()) return why;
    const Reason why =
        target_ == Target::cuda ? ops::cuda::unsupported_reason(out_.problem) : ops::unsupported_reason(out_.problem);
    if (why) return "attention's gradients: " + why.text();
    return {};
  }

  // Returns the statements that compute ds as nodes, with every tensor among them stored.
  JoinedNodes join_producers() const {
    const std::vector<int> all(producers_.begin(), producers_.end());
    std::vector<int> made;
    for (const int s : all) made.push_back(result_of(s));
    return join_statements(program_, all, made);
  }

  // Finds the key dimension, along which a softmax or a maximum runs, and the tensors that are softmaxes of the scores.
  Reason find_softmaxes() {
    const JoinedNodes all = join_producers();
    for (const Node& node : all.nodes) {
      const bool begins =
          node.kind == Node::Kind::along_dims && (node.function == Function::softmax || node.function == Function::max);
      if (!begins || node.over.size() != 1 || !softmaxes_.empty()) continue;
      attention_dims_.keys = node.over[0].dim;
      AttentionEvaluator evaluator(shapes_, {.scores = result_of(scores_statement_)}, attention_dims_.keys);
      const std::vector<AttentionTerm>& values = evaluator.evaluate_nodes(all.nodes);
      for (const JoinedNodes::StoredNode& one : all.results)
        if (values[one.node].kind == TermKind::softmax && values[one.node].factor == 1 &&
            !evaluator.has_fixed_mask_limit() && !values[one.node].band.in_sequence)
          softmaxes_[one.tensor] = values[one.node];
      masked_dim_ = evaluator.masked_dim();
    }
    if (!softmaxes_.empty()) return {};
    return no_softmax_reason();
  }
  std::string no_softmax_reason() const {
    return fmt::format(
        "{} is not computed from the softmax of {} times a number, masked by a comparison of two indices", name_of(ds_),
        name_of(result_of(scores_statement_)));
  }

  // Decides which operand is q and which is k.
  Reason identify_q_and_k() {
    const Contraction& c = *product_at(scores_statement_);
    out_.k = has_axis(shape_of(c.left), attention_dims_.keys) ? c.left : c.right;
    out_.q = other_operand(c, out_.k);
    if (!has_axis(shape_of(out_.k), attention_dims_.keys) || has_axis(shape_of(out_.q), attention_dims_.keys))
      return fmt::format("{} is not the product of one operand with {} and one without", name_of(c.result),
                         attention_dims_.keys);
    attention_dims_ = find_attention_dims(shape_of(out_.q), shape_of(out_.k), shape_of(c.result), attention_dims_.keys);
    return {};
  }

  // Finds dp, the product with keys that does not read the softmax, and do, its operand without keys.
  Reason find_output_gradient() {
    for (const int s : products_) {
      const Contraction& c = *product_at(s);
      if (s == scores_statement_ || softmaxes_.contains(c.left) || softmaxes_.contains(c.right)) continue;
      if (!has_axis(shape_of(c.result), attention_dims_.keys)) continue;
      if (dp_statement_ >= 0)
        return fmt::format("{} is computed from more than two products over {}", name_of(ds_), attention_dims_.keys);
      dp_statement_ = s;
      out_.v = has_axis(shape_of(c.left), attention_dims_.keys) ? c.left : c.right;
      out_.dout = other_operand(c, out_.v);
    }
    if (dp_statement_ < 0)
      return fmt::format("{} is computed from no product over {} other than {}", name_of(ds_), attention_dims_.keys,
                         name_of(result_of(scores_statement_)));
    for (const std::string& dim : nontrivial_dims(shape_of(out_.v)))
      if (dim != attention_dims_.keys && !contains(attention_dims_.batch, dim))
        attention_dims_.value_width.push_back(dim);
    producers_.clear();
    products_.clear();
    add_producers(ds_, producers_, products_);
    return {};
  }

  // Returns delta if the product is do times another tensor summed over values, or softmax times dp summed over keys.
  std::optional<AttentionTerm> delta_of(const Contraction& c) const {
    if (!equals_union(nontrivial_dims(shape_of(c.result)), {&attention_dims_.batch, &attention_dims_.rows}))
      return std::nullopt;
    for (const auto& [a, b] : {std::pair(c.left, c.right), {c.right, c.left}}) {
      if (a == out_.dout) return AttentionTerm{.kind = TermKind::delta, .tensor = b};
      const auto softmax = softmaxes_.find(a);
      if (softmax == softmaxes_.end() || b != result_of(dp_statement_)) continue;
      AttentionTerm out = softmax->second;
      out.kind = TermKind::delta;
      out.has_softmax = true;
      return out;
    }
    return std::nullopt;
  }

  Reason match_ds() {
    AttentionInputs inputs{result_of(scores_statement_), result_of(dp_statement_), out_.dout};
    for (const int s : products_)
      if (const auto delta = delta_of(*product_at(s))) {
        inputs.deltas[result_of(s)] = *delta;
        delta_and_results_.insert(s);
      }
    AttentionEvaluator evaluator(shapes_, inputs, attention_dims_.keys, attention_dims_.value_width);
    const JoinedNodes all = join_producers();
    const std::vector<AttentionTerm>& values = evaluator.evaluate_nodes(all.nodes);
    for (const JoinedNodes::StoredNode& one : all.results)
      if (one.tensor == ds_) {
        const AttentionTerm& x = values[one.node];
        if (x.kind != TermKind::ds)
          return fmt::format("{} is not the softmax times (its gradient {} less the mean of that by the softmax)",
                             name_of(ds_), name_of(result_of(dp_statement_)));
        out_.o = x.tensor;
        factor_ = x.factor;
        softmax_ = x;
      }
    std::erase_if(softmaxes_, [&](const auto& each) {  // removes softmaxes of other scales or masks
      const AttentionTerm& x = each.second;
      return x.number != softmax_.number || x.tanh_scale != softmax_.tanh_scale || x.band != softmax_.band;
    });
    if (softmaxes_.empty()) return no_softmax_reason();
    ops::AttentionProblem& p = out_.problem.forward;
    p.scale = softmax_.tanh_scale == 0 ? softmax_.number : softmax_.tanh_scale * softmax_.number;
    p.cap = softmax_.tanh_scale == 0 ? 0 : softmax_.number;
    p.low = softmax_.band.low;
    p.high = softmax_.band.high;
    return {};
  }

  // A product's result, or that result times a number if nothing else reads it.
  struct ScaledProduct {
    int tensor;
    double factor;
    std::vector<int> statements;
  };
  ScaledProduct find_scaled_result(int s) const {
    const int sums = result_of(s);
    const std::vector<int> all = uses_.readers(sums);
    if (program_.tensors[sums].role != TensorRole::intermediate || all.size() != 1 || product_at(all[0]) ||
        routine_of(program_.statements[all[0]]))
      return {sums, 1, {s}};
    AttentionEvaluator evaluator(shapes_, {.scores = sums}, attention_dims_.keys);
    const JoinedNodes nodes = join_statements(program_, {all[0]}, {result_of(all[0])});
    const AttentionTerm x = evaluator.evaluate_nodes(nodes.nodes).back();
    const AttentionTerm none{};
    if (x.kind != TermKind::scores || x.tanh_scale != 0 || x.band != none.band) return {sums, 1, {s}};
    return {result_of(all[0]), x.number, {s, all[0]}};
  }

  Reason find_results() {
    for (const int s : {dq_dk_.first, dq_dk_.second}) {
      const ScaledProduct x = find_scaled_result(s);
      const bool of_k = other_operand(*product_at(s), ds_) == out_.k;
      (of_k ? out_.dq : out_.dk) = x.tensor;
      delta_and_results_.insert(x.statements.begin(), x.statements.end());
      const double factor = factor_ * x.factor, scale = out_.problem.forward.scale;
      if (!(std::fabs(factor - scale) <= 1e-6 * scale))
        return fmt::format("{} is the gradient times {}, but the scores {} are scaled by {}", name_of(x.tensor),
                           factor / scale, name_of(result_of(scores_statement_)), scale);
    }
    for (const auto& [p, value] : softmaxes_)
      for (const int s : uses_.readers(p))
        if (const Contraction* c = product_at(s); c != nullptr && other_operand(*c, p) == out_.dout) {
          out_.dv = c->result;
          delta_and_results_.insert(s);
          return {};
        }
    return fmt::format("no statement computes the product of {} and {}, the gradient of {}",
                       name_of(softmaxes_.begin()->first), name_of(out_.dout), name_of(out_.v));
  }

  Reason check_dims() {
    const DimNames keys{attention_dims_.keys};
    const auto is = [&](int tensor, std::initializer_list<const DimNames*> groups) {
      return tensor < 0 || equals_union(nontrivial_dims(shape_of(tensor)), groups);
    };
    const AttentionDims& x = attention_dims_;
    for (const int of_q : {out_.q, out_.dq})
      if (!is(of_q, {&x.batch, &x.rows, &x.width})) return dims_mismatch(of_q);
    for (const int of_k : {out_.k, out_.dk})
      if (!is(of_k, {&x.batch, &keys, &x.width})) return dims_mismatch(of_k);
    for (const int of_v : {out_.v, out_.dv})
      if (!is(of_v, {&x.batch, &keys, &x.value_width})) return dims_mismatch(of_v);
    for (const int of_o : {out_.dout, out_.o})
      if (!is(of_o, {&x.batch, &x.rows, &x.value_width})) return dims_mismatch(of_o);
    for (const int of_s : {result_of(scores_statement_), result_of(dp_statement_), ds_, softmaxes_.begin()->first})
      if (!is(of_s, {&x.batch, &x.rows, &keys})) return dims_mismatch(of_s);
    for (const int tensor : all_tensors())
      if (dtype_of(tensor) != dtype_of(out_.q))
        return fmt::format("{} is {}, {} is {}", name_of(out_.q), dtype_name(dtype_of(out_.q)), name_of(tensor),
                           dtype_name(dtype_of(tensor)));
    return {};
  }
  std::string dims_mismatch(int tensor) const {
    return fmt::format("{}{} does not have the dimensions of an attention gradient", name_of(tensor),
                       format_shape(shape_of(tensor)));
  }
  std::vector<int> all_tensors() const {
    std::vector<int> out{out_.q, out_.k, out_.v, out_.dout, out_.dq, out_.dk, out_.dv};
    if (out_.o >= 0) out.push_back(out_.o);
    return out;
  }

  Reason set_layouts() {
    if (!masked_dim_.empty() && !contains(attention_dims_.rows, masked_dim_))
      return fmt::format("the mask compares with {}, which is not a row dimension", masked_dim_);
    ops::AttentionBackwardProblem& all = out_.problem;
    ops::AttentionProblem& p = all.forward;
    p.dtype = dtype_of(out_.q);
    std::vector<OperandLayout> layouts{
        {&shape_of(out_.q), true, false, &p.q},     {&shape_of(out_.k), false, false, &p.k},
        {&shape_of(out_.v), false, true, &p.v},     {&shape_of(out_.dout), true, true, &all.dout},
        {&shape_of(out_.dq), true, false, &all.dq}, {&shape_of(out_.dk), false, false, &all.dk},
        {&shape_of(out_.dv), false, true, &all.dv}};
    if (out_.o >= 0) layouts.push_back({&shape_of(out_.o), true, true, &p.o});
    if (!choose_layout(p, attention_dims_, masked_dim_, shape_of(out_.q), shape_of(out_.k), layouts))
      return fmt::format("{}, {}, {} and their gradients are not laid out as heads of contiguous rows", name_of(out_.q),
                         name_of(out_.k), name_of(out_.v));
    if (out_.o < 0) p.o = {p.heads * p.rows * p.width, p.rows * p.width, p.width};  // o goes to scratch memory
    return {};
  }

  // Lists the softmax statements and the others; returns a reason if an intermediate of the others is read elsewhere.
  Reason list_statements() {
    std::set<int> softmax{scores_statement_}, all = delta_and_results_, products;
    for (const auto& [p, value] : softmaxes_) add_producers(p, softmax, products);
    all.insert(dp_statement_);
    for (const int s : producers_)
      if (!softmax.contains(s)) all.insert(s);
    for (const int s : all) {
      const int made = result_of(s);
      if (made == out_.dq || made == out_.dk || made == out_.dv) continue;
      const std::vector<int> readers = uses_.readers(made);
      const bool is_read_elsewhere =
          std::any_of(readers.begin(), readers.end(), [&](int r) { return !all.contains(r); });
      if (is_read_elsewhere || program_.tensors[made].role != TensorRole::intermediate)
        return fmt::format("'{}' is also needed elsewhere, and the fused attention backward kernel does not store it",
                           name_of(made));
    }
    out_.statements.assign(all.begin(), all.end());
    out_.softmax.assign(softmax.begin(), softmax.end());
    return {};
  }

  const Program& program_;
  const TensorUses& uses_;
  const std::vector<Shape>& shapes_;
  Target target_;
  int ds_ = 0, scores_statement_ = 0, dp_statement_ = -1;  // tensor ds; statements of s and dp
  std::pair<int, int> dq_dk_;                              // statements of dq and dk, in either order
  std::set<int> producers_, products_;                     // statements and products from which ds is computed
  std::set<int> delta_and_results_;                        // statements that compute delta, dq, dk and dv
  std::map<int, AttentionTerm> softmaxes_;                 // softmaxes of the scores, by tensor
  AttentionTerm softmax_;                                  // the softmax from which ds is computed
  AttentionDims attention_dims_ = {};
  std::string masked_dim_;
  double factor_ = 1;
  FoundAttentionBackward out_ = {};
};

}  // namespace

std::optional<FoundAttentionBackward> find_attention_backward(const Program& program, const TensorUses& uses,
                                                              const std::vector<Shape>& shapes, int statement,
                                                              Target target) {
  return AttentionBackwardRecognizer(program, uses, shapes, target).recognize_at(statement);
}

}  // namespace ridge
