#include "ridge/plan/attention/recognize.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ridge/base/check.h"
#include "ridge/base/contains.h"
#include "ridge/ops/attention/model.h"
#include "ridge/plan/attention/operand_layout.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

bool is_gather(const Statement& statement) {
  const Routine* const routine = routine_of(statement);
  return routine != nullptr && routine->kind == RoutineKind::gather;
}

class AttentionRecognizer {
 public:
  AttentionRecognizer(const Program& program, const std::vector<Shape>& shapes, const std::vector<int>& statements,
                      Target target)
      : program_(program), shapes_(shapes), statements_(statements), target_(target) {}

  FoundAttention recognize_statements() {
    const auto is_product = [&](int s) {
      const auto* c = std::get_if<Contraction>(&program_.statements[s].op);
      return c != nullptr && has_sum(*c);
    };
    const auto& first = contraction_at(*std::find_if(statements_.begin(), statements_.end(), is_product));
    const auto& last = contraction_at(statements_.back());
    if (auto why = assign_operands(first, last)) return {.fusion_blocker = why};
    if (auto why = match_scores(first.result)) return {.fusion_blocker = why};
    if (auto why = set_layouts()) return {.fusion_blocker = why};
    const auto why =
        target_ == Target::cuda ? ops::cuda::unsupported_reason(out_.problem) : ops::unsupported_reason(out_.problem);
    if (why) return {.fusion_blocker = "attention: " + why.text()};
    return out_;
  }

 private:
  const Contraction& contraction_at(int s) const { return std::get<Contraction>(program_.statements[s].op); }
  const Shape& shape_of(int tensor) const { return shapes_[tensor]; }
  const std::string& name_of(int tensor) const { return program_.tensors[tensor].name; }
  DType dtype_of(int tensor) const { return program_.tensors[tensor].dtype; }
  // Assigns the operands to q, k and v, and the dimensions to their roles.
  Reason assign_operands(const Contraction& first, const Contraction& last) {
    weights_ = is_computed_inside(last.left) ? last.left : last.right;
    out_.v = weights_ == last.left ? last.right : last.left;
    out_.o = last.result;
    const DimNames weights = nontrivial_dims(shape_of(weights_)), values = nontrivial_dims(shape_of(out_.v)),
                   result = nontrivial_dims(shape_of(out_.o));
    DimNames summed;
    for (const std::string& dim : weights)
      if (contains(values, dim) && !contains(result, dim)) summed.push_back(dim);
    if (summed.empty() || summed.size() > 2)
      return fmt::format("{} is not summed over a single key dimension", name_of(out_.o));
    attention_dims_.keys = summed[0];
    if (summed.size() == 2)
      if (auto why = match_pages(first, summed)) return why;
    out_.k = has_axis(shape_of(first.left), attention_dims_.keys) ? first.left : first.right;
    out_.q = out_.k == first.left ? first.right : first.left;
    const DimNames q = nontrivial_dims(shape_of(out_.q)), k = nontrivial_dims(shape_of(out_.k)),
                   s = nontrivial_dims(shape_of(first.result));
    if (contains(q, attention_dims_.keys))
      return fmt::format("{} has the key dimension {}", name_of(out_.q), attention_dims_.keys);
    attention_dims_ =
        find_attention_dims(shape_of(out_.q), shape_of(out_.k), shape_of(first.result), attention_dims_.keys);
    for (const std::string& dim : values)
      if (!contains(summed, dim) && !contains(attention_dims_.batch, dim)) attention_dims_.value_width.push_back(dim);
    const DimNames& keys = summed;
    if (!equals_union(k, {&attention_dims_.batch, &keys, &attention_dims_.width}) ||
        !equals_union(q, {&attention_dims_.batch, &attention_dims_.rows, &attention_dims_.width}) ||
        !equals_union(s, {&attention_dims_.batch, &attention_dims_.rows, &keys}) ||
        !equals_union(weights, {&attention_dims_.batch, &attention_dims_.rows, &keys}) ||
        !equals_union(values, {&attention_dims_.batch, &keys, &attention_dims_.value_width}) ||
        !equals_union(result, {&attention_dims_.batch, &attention_dims_.rows, &attention_dims_.value_width}))
      return fmt::format("{} and {} are not products over the same heads", name_of(first.result), name_of(out_.o));
    for (const int tensor : {out_.q, out_.k, out_.v, out_.o})
      if (dtype_of(tensor) != dtype_of(out_.q))
        return fmt::format("{} is {}, {} is {}", name_of(out_.q), dtype_name(dtype_of(out_.q)), name_of(tensor),
                           dtype_name(dtype_of(tensor)));
    return {};
  }
  const Statement& statement_at(int s) const { return program_.statements[s]; }
  bool is_computed_inside(int tensor) const {
    return std::any_of(statements_.begin(), statements_.end() - 1,
                       [&](int s) { return !routine_of(statement_at(s)) && statement_at(s).result() == tensor; });
  }

  // A gather: its table, its indices and the indexed dimension.
  struct PageGather {
    int table, indices;
    std::string along;
  };
  std::optional<PageGather> page_gather_of(int tensor) const {
    for (const int s : statements_)
      if (is_gather(statement_at(s)) && statement_at(s).result() == tensor) {
        const std::vector<int> in = expression_operands(std::get<Expression>(statement_at(s).op));
        return PageGather{in[0], in[1], routine_of(statement_at(s))->over.front().dim};
      }
    return std::nullopt;
  }
  // Matches paged keys and values, gathered with the same page list; one of the two summed dimensions is the page
  // dimension.
  Reason match_pages(const Contraction& first, const DimNames& summed) {
    const auto left = page_gather_of(first.left), k = left ? left : page_gather_of(first.right),
               v = page_gather_of(out_.v);
    if (!k || !v || k->indices != v->indices || k->along != v->along || k->along.empty())
      return fmt::format("{} is not summed over a single key dimension", name_of(out_.o));
    const Shape& list = shape_of(k->indices);
    const bool first_is_page = has_axis(list, summed[0]);
    if (first_is_page == has_axis(list, summed[1]) || dtype_of(k->table) != dtype_of(left ? first.left : first.right) ||
        dtype_of(v->table) != dtype_of(out_.v))
      return fmt::format("{} is summed over more than pages and their rows", name_of(out_.o));
    pages_dim_ = first_is_page ? summed[0] : summed[1];
    attention_dims_.keys = first_is_page ? summed[1] : summed[0];
    key_gather_ = k;
    value_gather_ = v;
    out_.pages = k->indices;
    return {};
  }
  // Returns the shape of the table without its page dimension.
  Shape page_shape(const PageGather& from) const {
    Shape out = shape_of(from.table);
    std::erase_if(out, [&](const SizedAxis& axis) { return axis.dim == from.along; });
    return out;
  }
  // Moves the dimensions of the page list, which the lengths share, to the front of the batch dimensions.
  Reason put_page_dims_first() {
    const Shape& list = shape_of(out_.pages);
    DimNames first;
    for (const std::string& dim : nontrivial_dims(list))
      if (dim != pages_dim_) first.push_back(dim);
    const std::int64_t each = axis_along(list, pages_dim_).extent;
    if (list.back().dim != pages_dim_ || (!first.empty() && merged_stride(list, first) != each))
      return fmt::format("{} is not a page list for each sequence", name_of(out_.pages));
    for (const std::string& dim : first)
      if (!contains(attention_dims_.batch, dim))
        return fmt::format("{} differs along {}, which is not a dimension of both {} and {}", name_of(out_.pages), dim,
                           name_of(out_.q), name_of(out_.k));
    if (out_.lengths >= 0 && nontrivial_dims(shape_of(out_.lengths)) != first)
      return fmt::format("{} and {} do not describe the same sequences", name_of(out_.lengths), name_of(out_.pages));
    attention_dims_.outer_count = first.size();
    for (const std::string& dim : attention_dims_.batch)
      if (!contains(first, dim)) first.push_back(dim);
    attention_dims_.batch = first;
    return {};
  }
  void set_pages() {
    ops::AttentionProblem& p = out_.problem;
    p.pages = {p.keys, axis_along(shape_of(key_gather_->table), key_gather_->along).extent};
    p.keys *= axis_along(shape_of(out_.pages), pages_dim_).extent;
    p.k.outer = axis_along(shape_of(key_gather_->table), key_gather_->along).stride;
    p.v.outer = axis_along(shape_of(value_gather_->table), value_gather_->along).stride;
    out_.k = key_gather_->table;
    out_.v = value_gather_->table;
  }

  Reason match_scores(int scores) {
    std::vector<int> between(statements_.begin(), statements_.end() - 1);
    std::erase_if(between, [&](int s) { return routine_of(statement_at(s)) != nullptr; });
    const JoinedNodes all = join_statements(program_, between, {weights_});
    if (all.results.size() != 1) return fmt::format("{} is not a softmax", name_of(weights_));
    std::vector<Node> nodes(all.nodes.begin(),
                            all.nodes.begin() + static_cast<std::ptrdiff_t>(all.results[0].node) + 1);
    AttentionInputs inputs{.scores = scores, .lengths = integer_inputs()};
    if (!pages_dim_.empty()) {
      inputs.pages = pages_dim_;
      inputs.page_rows = axis_along(shape_of(out_.k), attention_dims_.keys).extent;
    }
    AttentionEvaluator evaluator(shapes_, inputs, attention_dims_.keys);
    const AttentionTerm value = evaluator.evaluate_nodes(nodes).back();
    if (value.kind != AttentionTerm::TermKind::softmax || value.factor != 1)
      return fmt::format("{} is not the softmax over {} of {} times a number, masked by a comparison of two indices",
                         name_of(weights_), attention_dims_.keys, name_of(scores));
    out_.problem.scale = value.tanh_scale == 0 ? value.number : value.tanh_scale * value.number;
    out_.problem.cap = value.tanh_scale == 0 ? 0 : value.number;
    if (evaluator.has_fixed_mask_limit() && !evaluator.masked_dim().empty())
      return fmt::format("one limit of the mask depends on {}, and the other does not", evaluator.masked_dim());
    const MaskBand& band = value.band;
    out_.problem.low = band.low;
    out_.problem.high = band.high;
    out_.problem.moves_with_rows = !evaluator.has_fixed_mask_limit();
    masked_dim_ = evaluator.masked_dim();
    if (band.in_sequence) return match_sequences(band);
    if (band.lengths_tensor < 0) return {};
    out_.problem.lengths = {band.length_offset, band.low_from_length, band.high_from_length};
    out_.lengths = band.lengths_tensor;
    return put_length_dims_first();
  }
  // Matches a mask that compares sequences; rows and keys then count from the start of their sequence.
  Reason match_sequences(const MaskBand& band) {
    out_.row_lengths = lengths_along(program_, masked_dim_);
    out_.key_lengths = lengths_along(program_, attention_dims_.keys);
    constexpr std::int64_t unbounded = MaskBand::unbounded;
    if (band.lengths_tensor >= 0 || out_.problem.moves_with_rows == false)
      return fmt::format("the mask compares sequences of {} and {} and also lengths", masked_dim_,
                         attention_dims_.keys);
    if (out_.row_lengths.size() != out_.key_lengths.size())
      return fmt::format("{} has {} sequences, {} has {}", masked_dim_, out_.row_lengths.size(), attention_dims_.keys,
                         out_.key_lengths.size());
    if ((band.low != -unbounded || band.high != unbounded) && out_.row_lengths != out_.key_lengths)
      return fmt::format("the mask compares {} with {}, whose sequences start at different positions",
                         attention_dims_.keys, masked_dim_);
    attention_dims_.outer_count = 0;
    return {};
  }
  // Replaces the sizes of one long sequence by those of the packed sequences in it.
  void set_packed_sequences() {
    ops::AttentionProblem& p = out_.problem;
    const auto longest = [](const std::vector<std::int64_t>& all) { return *std::max_element(all.begin(), all.end()); };
    p.packed = {p.rows, p.keys};
    p.lengths = {.length_offset = 0};
    p.outer = static_cast<std::int64_t>(out_.row_lengths.size());
    p.rows = longest(out_.row_lengths);
    p.keys = longest(out_.key_lengths);
  }
  std::set<int> integer_inputs() const {
    std::set<int> out;
    for (std::size_t t = 0; t < program_.tensors.size(); ++t)
      if (program_.tensors[t].dtype == DType::int32 && program_.tensors[t].role == TensorRole::input)
        out.insert(static_cast<int>(t));
    return out;
  }
  // Moves the dimensions of the lengths to the front of the batch dimensions.
  Reason put_length_dims_first() {
    const Shape& shape = shape_of(out_.lengths);
    DimNames first = nontrivial_dims(shape);
    for (const std::string& dim : first)
      if (!contains(attention_dims_.batch, dim))
        return fmt::format("{} differs along {}, which is not a dimension of both {} and {}", name_of(out_.lengths),
                           dim, name_of(out_.q), name_of(out_.k));
    attention_dims_.outer_count = first.size();
    for (const std::string& dim : attention_dims_.batch)
      if (!contains(nontrivial_dims(shape), dim)) first.push_back(dim);
    attention_dims_.batch = first;
    return {};
  }

  Reason set_layouts() {
    if (!masked_dim_.empty() && !contains(attention_dims_.rows, masked_dim_))
      return fmt::format("the mask compares with {}, which is not a row dimension", masked_dim_);
    ops::AttentionProblem& p = out_.problem;
    p.dtype = dtype_of(out_.q);
    if (!pages_dim_.empty())
      if (auto why = put_page_dims_first()) return why;
    const Shape k = pages_dim_.empty() ? shape_of(out_.k) : page_shape(*key_gather_);
    const Shape v = pages_dim_.empty() ? shape_of(out_.v) : page_shape(*value_gather_);
    if (choose_layout(p, attention_dims_, masked_dim_, shape_of(out_.q), k,
                      {{&shape_of(out_.q), true, false, &p.q},
                       {&k, false, false, &p.k},
                       {&v, false, true, &p.v},
                       {&shape_of(out_.o), true, true, &p.o}})) {
      if (!out_.row_lengths.empty()) set_packed_sequences();
      if (!pages_dim_.empty()) set_pages();
      return {};
    }
    return fmt::format("{}, {}, {} and {} are not laid out as heads of contiguous rows", name_of(out_.q),
                       name_of(out_.k), name_of(out_.v), name_of(out_.o));
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  const std::vector<int>& statements_;
  Target target_;
  AttentionDims attention_dims_ = {};
  int weights_ = 0;
  std::string pages_dim_;  // page dimension; empty if keys are not paged
  std::optional<PageGather> key_gather_, value_gather_;
  std::string masked_dim_;
  FoundAttention out_ = {};
};

// Adds a buffer with the start of each sequence and returns its index.
int add_sequence_starts_buffer(Lowering& to, const std::vector<std::int64_t>& lengths) {
  const int out = to.add_buffer(DType::int32, static_cast<std::int64_t>(lengths.size()) + 1);
  PlanBuffer& buffer = to.plan.buffers[out];
  buffer.holds_indices = true;
  buffer.sequence_lengths = lengths;
  return out;
}

}  // namespace

std::vector<int> add_page_gathers(const Program& program, std::vector<int> statements) {
  std::vector<int> operands;
  for (const int s : statements)
    if (const auto* c = std::get_if<Contraction>(&program.statements[s].op))
      operands.insert(operands.end(), {c->left, c->right});
  for (std::size_t s = 0; s < program.statements.size(); ++s)
    if (is_gather(program.statements[s]) && contains(operands, program.statements[s].result()))
      statements.push_back(static_cast<int>(s));
  std::sort(statements.begin(), statements.end());
  return statements;
}

FoundAttention find_attention(const Program& program, const std::vector<Shape>& shapes,
                              const std::vector<int>& statements, Target target) {
  return AttentionRecognizer(program, shapes, statements, target).recognize_statements();
}

void lower_attention(Lowering& to, int group) {
  std::vector<Shape> shapes;
  for (const View& view : to.tensors) shapes.push_back(view.shape);
  const FoundAttention found =
      find_attention(to.program, shapes, to.plan.fusion.groups[group].statements, to.plan.fusion.target);
  RIDGE_CHECK(!found.fusion_blocker, found.fusion_blocker.text());
  PlanStep step;
  step.group = group;
  step.kernel = found.problem;
  for (const int tensor : {found.q, found.k, found.v, found.o}) step.buffers.push_back(to.view_of(tensor).buffer);
  if (found.pages >= 0)
    step.buffers.insert(step.buffers.end(), {-1, found.lengths, -1, -1, found.pages});
  else if (found.lengths >= 0)
    step.buffers.insert(step.buffers.end(), {-1, found.lengths});
  if (!found.row_lengths.empty()) {
    const int rows = add_sequence_starts_buffer(to, found.row_lengths);
    const int keys = found.key_lengths == found.row_lengths ? rows : add_sequence_starts_buffer(to, found.key_lengths);
    step.buffers.insert(step.buffers.end(), {-1, -1, rows, keys});
  }
  to.plan.steps.push_back(std::move(step));
}

}  // namespace ridge
