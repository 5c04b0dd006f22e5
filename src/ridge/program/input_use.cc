// The rule of docs/notation.md, "What inputs hold": which inputs are parameters, caches, state and activations.
#include <algorithm>
#include <map>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/program/routine.h"
#include "ridge/program/tensor_uses.h"
#include "ridge/program/weights.h"

namespace ridge {
namespace {

using SizeNames = std::set<std::string>;  // Names of dimensions, and literal sizes above 1 as text

SizeNames size_names(const Tensor& tensor) {
  SizeNames out;
  for (const Axis& axis : tensor.axes) {
    if (axis.is_named()) out.insert(axis.dim);
    if (axis.literal > 1) out.insert(std::to_string(axis.literal));
  }
  return out;
}

bool intersect(const SizeNames& a, const SizeNames& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& each) { return b.contains(each); });
}

// Treatment of the dimensions of a statement's operands.
enum class StatementForm {
  pointwise,  // no product, or one without a sum
  product,    // sums over dimensions, and both factors have others
  vector,     // product of a matrix and a vector: one factor is summed completely
  gradient,   // sums over the leading dimensions of both factors: dw[D, F] = x[N, D] * dy[N, F]
};

// A statement with the sizes of its operands and of its result.
struct SizedStatement {
  StatementForm form = StatementForm::pointwise;
  std::vector<int> operands;
  int result = 0;
  SizeNames summed = {};    // In factors, but not in the result
  SizeNames not_kept = {};  // Dimensions that the statement runs along: those after `over`
};

// A way of a dimension from an input to a tensor.
struct Passage {
  int products = 0, statements = 0;  // Statements passed without those of the form `vector`
};

class InputClassifier {
 public:
  explicit InputClassifier(const Program& program) : program_(program), uses_(program) {
    for (const Tensor& tensor : program.tensors) sizes_.push_back(size_names(tensor));
    for (const Statement& statement : program.statements) statements_.push_back(size_statement(statement));
    for (const Tensor& tensor : program.tensors)
      if (tensor.replaced >= 0) replaced_.insert(tensor.replaced);
    std::vector<bool> is_product(sizes_.size());  // True for what follows from a product
    for (const SizedStatement& s : statements_) {
      for (const int operand : s.operands) is_product[s.result] = is_product[s.result] || is_product[operand];
      if (s.form == StatementForm::pointwise) continue;
      is_product[s.result] = true;
      factors_.insert(s.operands.begin(), s.operands.end());
      for (const int operand : s.operands)
        if (!is_product[operand]) first_factors_.insert(operand);
      if (s.form != StatementForm::gradient) summed_.insert(s.summed.begin(), s.summed.end());
      if (s.form == StatementForm::vector) matrices_.insert(s.operands[has_free_size(s, 0) ? 0 : 1]);
    }
  }

  InputUses classify() {
    find_batch_dims();
    find_caches();
    InputUses out;
    for (std::size_t t = 0; t < sizes_.size(); ++t) out.of_tensor.push_back(use_of(static_cast<int>(t)));
    for (const Dimension& dim : program_.dims)
      if (batch_.contains(dim.name)) out.batch_dims.push_back(dim.name);
    return out;
  }

 private:
  bool is_input(int tensor) const { return program_.tensors[tensor].role == TensorRole::input; }
  const Tensor& tensor(int i) const { return program_.tensors[i]; }

  SizedStatement size_statement(const Statement& statement) const {
    SizedStatement out{.operands = statement_operands(statement), .result = statement.result()};
    const Routine* const routine = routine_of(statement);
    if (const auto* expression = std::get_if<Expression>(&statement.op); expression && !routine) {
      out.operands = distinct_operands(statement);
      for (const Node& node : expression->nodes)
        if (node.kind == Node::Kind::along_dims)
          for (const Axis& axis : node.over) out.not_kept.insert(axis.dim);
      return out;
    }
    if (routine)
      for (const Axis& axis : routine->over) out.not_kept.insert(axis.dim);
    const bool multiplies = !routine || is_conv(routine->kind) || routine->kind == RoutineKind::routed ||
                            routine->kind == RoutineKind::scatter;
    if (!multiplies) return out;
    for (const int operand : {out.operands[0], out.operands[1]})
      for (const std::string& name : sizes_[operand])
        if (!sizes_[out.result].contains(name) && !out.not_kept.contains(name)) out.summed.insert(name);
    if (!out.summed.empty() || (routine && routine->kind != RoutineKind::scatter))
      out.form = form_of_product(out, routine);
    return out;
  }

  StatementForm form_of_product(const SizedStatement& s, const Routine* routine) const {
    if (routine && routine->kind == RoutineKind::scatter) return StatementForm::gradient;
    if (routine) return StatementForm::product;
    const bool left = has_free_size(s, 0), right = has_free_size(s, 1);
    if (!left && !right) return StatementForm::pointwise;  // A sum of all elements: x * y -> f32[1]
    if (left != right) return StatementForm::vector;
    return sums_leading(s, 0) && sums_leading(s, 1) ? StatementForm::gradient : StatementForm::product;
  }

  // True for a size of factor `i` that is in the result and not in the other factor.
  bool is_free(const SizedStatement& s, int i, const std::string& name) const {
    return !s.summed.contains(name) && !sizes_[s.operands[1 - i]].contains(name);
  }
  bool has_free_size(const SizedStatement& s, int i) const {
    const SizeNames& own = sizes_[s.operands[i]];
    return std::any_of(own.begin(), own.end(), [&](const std::string& name) { return is_free(s, i, name); });
  }
  // True if no free size of factor `i` precedes a summed one.
  bool sums_leading(const SizedStatement& s, int i) const {
    bool free = false;
    for (const Axis& axis : tensor(s.operands[i]).axes) {
      const std::string name = axis.is_named() ? axis.dim : std::to_string(axis.literal);
      if (s.summed.contains(name) && free) return false;
      free = free || (axis.literal != 1 && is_free(s, i, name));
    }
    return true;
  }

  // --- batch dimensions

  void find_batch_dims() {
    for (const SizedStatement& s : statements_)
      if (s.form == StatementForm::gradient) batch_.insert(s.summed.begin(), s.summed.end());
    batch_.merge(choose_carried_dims());
    has_batch_ = !batch_.empty();
    bool grows = true;
    while (grows) {  // T = S
      grows = false;
      for (const Dimension& dim : program_.dims) {
        if (!dim.value || dim.value->symbols().size() != 1) continue;
        const std::string other = dim.value->symbols().front();
        if (!(*dim.value == Polynomial::make_symbol(other))) continue;
        if (batch_.contains(dim.name) != batch_.contains(other)) {
          batch_.insert({dim.name, other});
          grows = true;
        }
      }
    }
  }

  // Returns the passages of each tensor's dimensions from the inputs.
  std::vector<std::map<std::string, Passage>> follow_passages() const {
    std::vector<std::map<std::string, Passage>> out(sizes_.size());
    for (std::size_t t = 0; t < sizes_.size(); ++t)
      if (is_input(static_cast<int>(t)))
        for (const std::string& name : sizes_[t]) out[t][name] = {};
    for (const SizedStatement& s : statements_) {
      if (s.form == StatementForm::gradient) continue;
      for (const int operand : s.operands)
        for (auto [name, passage] : out[operand]) {
          if (!sizes_[s.result].contains(name) || s.not_kept.contains(name)) continue;
          passage.products += s.form == StatementForm::product ? 1 : 0;
          passage.statements += s.form == StatementForm::vector ? 0 : 1;
          Passage& known = out[s.result][name];
          known = {std::max(known.products, passage.products), std::max(known.statements, passage.statements)};
        }
    }
    return out;
  }

  // A dimension that may be the batch: it reaches an output or a reduction.
  struct Candidate {
    std::string name;
    int products = 0;
    std::size_t position = 0;  // Position in the tensor that it reaches
    SizeNames group = {};      // Candidates that it shares inputs with, directly or by others
  };

  std::vector<Candidate> find_candidates() const {
    const auto passages = follow_passages();
    std::vector<Candidate> out;
    for (std::size_t t = 0; t < sizes_.size(); ++t)
      if (tensor(static_cast<int>(t)).role == TensorRole::output)
        add_candidates(static_cast<int>(t), sizes_[t], passages[t], out);
    for (const SizedStatement& s : statements_) {
      if (s.form != StatementForm::pointwise) continue;
      for (const int operand : s.operands) {
        SizeNames reduced;
        for (const std::string& name : sizes_[operand])
          if (!sizes_[s.result].contains(name)) reduced.insert(name);
        add_candidates(operand, reduced, passages[operand], out);
      }
    }
    return out;
  }

  void add_candidates(int t, const SizeNames& names, const std::map<std::string, Passage>& passages,
                      std::vector<Candidate>& out) const {
    const std::vector<Axis>& axes = tensor(t).axes;
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const std::string name = axes[a].is_named() ? axes[a].dim : std::to_string(axes[a].literal);
      const auto found = passages.find(name);
      if (!names.contains(name) || found == passages.end() || found->second.statements == 0 || is_excluded(name))
        continue;
      const auto known = std::find_if(out.begin(), out.end(), [&](const Candidate& c) { return c.name == name; });
      if (known == out.end())
        out.push_back({name, found->second.products, a});
      else if (found->second.products > known->products)
        *known = {name, found->second.products, a};
    }
  }

  // True for a dimension that a product sums, that a declared parameter has, or that declared activations lack.
  bool is_excluded(const std::string& name) const {
    if (summed_.contains(name)) return true;
    bool any_data = false, in_data = false;
    for (std::size_t t = 0; t < sizes_.size(); ++t) {
      const auto use = tensor(static_cast<int>(t)).declared_use;
      if (use == InputUse::parameter && sizes_[t].contains(name)) return true;
      any_data = any_data || use == InputUse::activation;
      in_data = in_data || (use == InputUse::activation && sizes_[t].contains(name));
    }
    return any_data && !in_data;
  }

  bool is_in_all_inputs(const std::string& name) const {
    for (std::size_t t = 0; t < sizes_.size(); ++t)
      if (is_input(static_cast<int>(t)) && !sizes_[t].contains(name)) return false;
    return true;
  }

  // Returns the number of tensors with these sizes that enter a product: 1 for N and 2 for F of x * up and x * gate.
  std::size_t count_factors_with(const SizeNames& names) const {
    return std::count_if(first_factors_.begin(), first_factors_.end(),
                         [&](int t) { return intersect(sizes_[t], names); });
  }

  // Groups candidates that share inputs: B and S of x[B, S, D].
  void group_candidates(std::vector<Candidate>& candidates) const {
    for (Candidate& each : candidates) each.group = {each.name};
    for (std::size_t t = 0; t < sizes_.size(); ++t) {
      if (!is_input(static_cast<int>(t))) continue;
      SizeNames joined;
      for (const Candidate& each : candidates)
        if (intersect(each.group, sizes_[t])) joined.insert(each.group.begin(), each.group.end());
      for (Candidate& each : candidates)
        if (joined.contains(each.name)) each.group = joined;
    }
  }

  // Returns the dimension that passes most products; of several, the one that fewer factors have, then the leftmost.
  // Products of tensors with a common size, as in s[H, S, T] = q * k, do not say which factor is a parameter: S and T.
  SizeNames choose_carried_dims() const {
    std::vector<Candidate> candidates = find_candidates();
    constexpr std::size_t max_candidates = 256;
    if (candidates.size() > max_candidates) candidates.resize(max_candidates);
    const auto everywhere = [&](const Candidate& c) { return is_in_all_inputs(c.name); };
    const auto common = static_cast<std::size_t>(std::count_if(candidates.begin(), candidates.end(), everywhere));
    if (common < candidates.size()) std::erase_if(candidates, everywhere);
    int most = 0;
    for (const Candidate& each : candidates) most = std::max(most, each.products);
    std::erase_if(candidates, [&](const Candidate& c) { return c.products < most; });
    group_candidates(candidates);
    std::size_t fewest = first_factors_.size();
    for (const Candidate& each : candidates) fewest = std::min(fewest, count_factors_with(each.group));
    std::erase_if(candidates, [&](const Candidate& c) { return count_factors_with(c.group) > fewest; });
    SizeNames out;
    if (common > 0 && most > 0)
      for (const Candidate& each : candidates) out.insert(each.name);
    const auto first = std::min_element(candidates.begin(), candidates.end(),
                                        [](const auto& a, const auto& b) { return a.position < b.position; });
    if (first != candidates.end()) out.insert(first->name);
    return out;
  }

  // --- caches

  // Finds the dimension along which the expression that computes a tensor takes a softmax, "" if it takes none.
  void find_softmax_dims() {
    softmax_dims_.resize(sizes_.size());
    for (const Statement& statement : program_.statements)
      if (const auto* expression = std::get_if<Expression>(&statement.op))
        for (const Node& node : expression->nodes)
          if (node.kind == Node::Kind::along_dims && node.function == Function::softmax)
            softmax_dims_[expression->result] = node.over.front().dim;
  }

  // Adds the dimension of cached tokens: T in o[S, E] = p[S, T] * v[T, E] with p = softmax(s over T), because v has no
  // batch dimension. A router's o[B, D] = p[B, E] * z[B, E, D] reads z, which has B, so its experts stay parameters.
  void find_caches() {
    find_softmax_dims();
    SizeNames token_dims;
    for (const SizedStatement& s : statements_) {
      if (s.operands.size() != 2 || s.form == StatementForm::pointwise) continue;
      for (const int i : {0, 1}) {
        const std::string dim = softmax_dims_[s.operands[i]];
        const int values = s.operands[1 - i];
        if (dim.empty() || !s.summed.contains(dim) || !sizes_[values].contains(dim)) continue;
        if (!intersect(sizes_[values], batch_)) batch_.insert(dim);
        if (mark_cache(values)) token_dims.insert(dim);
      }
    }
    for (const SizedStatement& s : statements_) {
      if (s.operands.size() != 2 || (s.form != StatementForm::product && s.form != StatementForm::vector)) continue;
      for (const int i : {0, 1})
        for (const std::string& dim : sizes_[s.operands[i]])
          if (token_dims.contains(dim) && is_free(s, i, dim)) mark_keys(s, i);
    }
    for (const SizedStatement& s : statements_)
      if (const std::string dim = softmax_dims_[s.result]; !dim.empty()) add_batched_keys(s, dim);
  }

  // Marks the keys of a product of scores. k[T, H, E] = c[T, D] * wk[D, H, E] has T as well, but wk is a parameter.
  void mark_keys(const SizedStatement& s, int i) {
    const int other = s.operands[1 - i];
    const bool is_projection = is_input(other) && !intersect(sizes_[other], batch_) && has_free_size(s, 1 - i);
    if (!is_projection) mark_cache(s.operands[i]);
  }

  // In gradients of attention, nothing multiplies the softmax with values. Keys are then the factor with the softmax's
  // dimension of a product with common heads.
  void add_batched_keys(const SizedStatement& softmax, const std::string& dim) {
    for (const int scores : softmax.operands) {
      if (uses_.writer(scores) < 0) continue;
      const SizedStatement& product = statements_[uses_.writer(scores)];
      if (product.operands.size() != 2 || product.form != StatementForm::product) continue;
      for (const int i : {0, 1}) {
        const SizeNames &keys = sizes_[product.operands[i]], &queries = sizes_[product.operands[1 - i]];
        const bool has_heads = std::any_of(keys.begin(), keys.end(), [&](const std::string& name) {
          return queries.contains(name) && !product.summed.contains(name);
        });
        if (has_heads && keys.contains(dim) && is_free(product, i, dim) && !intersect(keys, batch_)) batch_.insert(dim);
      }
    }
  }

  // Marks the input that a tensor is, is read from by indices, is converted from or replaces. Returns whether there is
  // one.
  bool mark_cache(int t) {
    for (std::size_t step = 0; step <= statements_.size(); ++step) {
      if (is_input(t)) {
        caches_.insert(t);
        return true;
      }
      const Statement& writer = program_.statements[uses_.writer(t)];
      const Routine* const routine = routine_of(writer);
      const std::vector<int> operands = statement_operands(writer);
      const bool copies = std::holds_alternative<Expression>(writer.op) && operands.size() == 1 && !routine;
      if (const int replaced = tensor(t).replaced; replaced >= 0)
        t = replaced;
      else if (copies || (routine && routine->kind == RoutineKind::gather))
        t = operands.front();
      else
        return false;
    }
    return false;
  }

  // --- uses

  bool is_index(int t) const { return tensor(t).dtype == DType::int32 || tensor(t).dtype == DType::int16; }

  InputUse use_of(int t) const {
    if (!is_input(t)) return InputUse::activation;
    if (const auto declared = tensor(t).declared_use) return *declared;
    if (caches_.contains(t)) return InputUse::cache;
    if (replaced_.contains(t) && !factors_.contains(t)) return InputUse::state;
    if (is_index(t) || intersect(sizes_[t], batch_)) return InputUse::activation;
    // Without a batch, the matrices that multiply a vector are parameters.
    return has_batch_ || matrices_.contains(t) ? InputUse::parameter : InputUse::activation;
  }

  const Program& program_;
  TensorUses uses_;
  std::vector<SizeNames> sizes_;
  std::vector<SizedStatement> statements_;
  SizeNames summed_;                       // Sizes that products sum, except those of gradients
  std::set<int> replaced_, matrices_;      // Inputs replaced; matrices times a vector
  std::set<int> factors_, first_factors_;  // Factors of products; those that follow from no other product
  SizeNames batch_;
  bool has_batch_ = false;
  std::vector<std::string> softmax_dims_;  // By tensor
  std::set<int> caches_;
};

}  // namespace

InputUses find_input_uses(const Program& program) { return InputClassifier(program).classify(); }

}  // namespace ridge
