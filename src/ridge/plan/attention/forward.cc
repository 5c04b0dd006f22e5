#include "ridge/plan/attention/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ridge/base/check.h"
#include "ridge/ops/attention/model.h"
#include "ridge/plan/attention/parts.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

bool gathers(const Statement& statement) {
  const Routine* const routine = routine_of(statement);
  return routine != nullptr && routine->word == Word::gather;
}

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
    if (auto why = place()) return {.fault = *why};
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
  // Assigns the operands to q, k and v, and the dimensions to their roles.
  std::optional<std::string> split(const Contraction& first, const Contraction& last) {
    weights_ = written(last.left) ? last.left : last.right;
    out_.v = weights_ == last.left ? last.right : last.left;
    out_.o = last.result;
    const Dims weights = dims_of(shape_of(weights_)), values = dims_of(shape_of(out_.v)),
               result = dims_of(shape_of(out_.o));
    Dims summed;
    for (const std::string& dim : weights)
      if (has_dim(values, dim) && !has_dim(result, dim)) summed.push_back(dim);
    if (summed.empty() || summed.size() > 2)
      return fmt::format("{} is not summed over a single key dimension", name_of(out_.o));
    parts_.keys = summed[0];
    if (summed.size() == 2)
      if (auto why = read_pages(first, summed)) return why;
    out_.k = has(shape_of(first.left), parts_.keys) ? first.left : first.right;
    out_.q = out_.k == first.left ? first.right : first.left;
    const Dims q = dims_of(shape_of(out_.q)), k = dims_of(shape_of(out_.k)), s = dims_of(shape_of(first.result));
    if (has_dim(q, parts_.keys)) return fmt::format("{} has the key dimension {}", name_of(out_.q), parts_.keys);
    parts_ = attention_parts(shape_of(out_.q), shape_of(out_.k), shape_of(first.result), parts_.keys);
    for (const std::string& dim : values)
      if (!has_dim(summed, dim) && !has_dim(parts_.batch, dim)) parts_.out.push_back(dim);
    const Dims& keys = summed;
    if (!contains_same(k, {&parts_.batch, &keys, &parts_.width}) ||
        !contains_same(q, {&parts_.batch, &parts_.rows, &parts_.width}) ||
        !contains_same(s, {&parts_.batch, &parts_.rows, &keys}) ||
        !contains_same(weights, {&parts_.batch, &parts_.rows, &keys}) ||
        !contains_same(values, {&parts_.batch, &keys, &parts_.out}) ||
        !contains_same(result, {&parts_.batch, &parts_.rows, &parts_.out}))
      return fmt::format("{} and {} are not products over the same heads", name_of(first.result), name_of(out_.o));
    for (const int tensor : {out_.q, out_.k, out_.v, out_.o})
      if (dtype(tensor) != dtype(out_.q))
        return fmt::format("{} is {}, {} is {}", name_of(out_.q), name(dtype(out_.q)), name_of(tensor),
                           name(dtype(tensor)));
    return std::nullopt;
  }
  const Statement& statement(int s) const { return program_.statements[static_cast<std::size_t>(s)]; }
  bool written(int tensor) const {
    return std::any_of(statements_.begin(), statements_.end() - 1,
                       [&](int s) { return !routine_of(statement(s)) && statement(s).result() == tensor; });
  }

  // A gather: its table, its indices and the indexed dimension.
  struct Gather {
    int table, indices;
    std::string along;
  };
  std::optional<Gather> gather_of(int tensor) const {
    for (const int s : statements_)
      if (gathers(statement(s)) && statement(s).result() == tensor) {
        const std::vector<int> in = operands_of(std::get<Expression>(statement(s).op));
        return Gather{in[0], in[1], routine_of(statement(s))->over.front().dim};
      }
    return std::nullopt;
  }
  // Matches keys and values that one list gathers in pages: one of two summed dimensions is that of the list.
  std::optional<std::string> read_pages(const Contraction& first, const Dims& summed) {
    const auto left = gather_of(first.left), k = left ? left : gather_of(first.right), v = gather_of(out_.v);
    if (!k || !v || k->indices != v->indices || k->along != v->along || k->along.empty())
      return fmt::format("{} is not summed over a single key dimension", name_of(out_.o));
    const Shape& list = shape_of(k->indices);
    const bool first_is_page = has(list, summed[0]);
    if (first_is_page == has(list, summed[1]) || dtype(k->table) != dtype(left ? first.left : first.right) ||
        dtype(v->table) != dtype(out_.v))
      return fmt::format("{} is summed over more than pages and their rows", name_of(out_.o));
    pages_ = first_is_page ? summed[0] : summed[1];
    parts_.keys = first_is_page ? summed[1] : summed[0];
    of_keys_ = k;
    of_values_ = v;
    out_.pages = k->indices;
    return std::nullopt;
  }
  // Returns the shape of the table without its page dimension.
  Shape page_of(const Gather& from) const {
    Shape out = shape_of(from.table);
    std::erase_if(out, [&](const SizedAxis& axis) { return axis.dim == from.along; });
    return out;
  }
  // Makes the dimensions of the page list, which are also those of the lengths, the first of the batch.
  std::optional<std::string> place_list() {
    const Shape& list = shape_of(out_.pages);
    Dims first;
    for (const std::string& dim : dims_of(list))
      if (dim != pages_) first.push_back(dim);
    const std::int64_t each = along(list, pages_).extent;
    if (list.back().dim != pages_ || (!first.empty() && merged_stride(list, first) != each))
      return fmt::format("{} is not a page list for each sequence", name_of(out_.pages));
    for (const std::string& dim : first)
      if (!has_dim(parts_.batch, dim))
        return fmt::format("{} differs along {}, which is not a dimension of both {} and {}", name_of(out_.pages), dim,
                           name_of(out_.q), name_of(out_.k));
    if (out_.lengths >= 0 && dims_of(shape_of(out_.lengths)) != first)
      return fmt::format("{} and {} do not describe the same sequences", name_of(out_.lengths), name_of(out_.pages));
    parts_.outer = first.size();
    for (const std::string& dim : parts_.batch)
      if (!has_dim(first, dim)) first.push_back(dim);
    parts_.batch = first;
    return std::nullopt;
  }
  void set_pages() {
    ops::AttentionProblem& p = out_.problem;
    p.pages = {p.keys, along(shape_of(of_keys_->table), of_keys_->along).extent};
    p.keys *= along(shape_of(out_.pages), pages_).extent;
    p.k.outer = along(shape_of(of_keys_->table), of_keys_->along).stride;
    p.v.outer = along(shape_of(of_values_->table), of_values_->along).stride;
    out_.k = of_keys_->table;
    out_.v = of_values_->table;
  }

  std::optional<std::string> read_scores(int scores) {
    std::vector<int> between(statements_.begin(), statements_.end() - 1);
    std::erase_if(between, [&](int s) { return routine_of(statement(s)) != nullptr; });
    const Pointwise all = joined(program_, between, {weights_});
    if (all.results.size() != 1) return fmt::format("{} is not a softmax", name_of(weights_));
    std::vector<Node> nodes(all.nodes.begin(),
                            all.nodes.begin() + static_cast<std::ptrdiff_t>(all.results[0].node) + 1);
    AttentionLeaves leaves{.scores = scores, .lengths = whole_numbers()};
    if (!pages_.empty()) {
      leaves.pages = pages_;
      leaves.page_rows = along(shape_of(out_.k), parts_.keys).extent;
    }
    AttentionReading reading(shapes_, leaves, parts_.keys);
    const AttentionValue value = reading.read(nodes).back();
    if (value.kind != AttentionValue::Kind::softmax || value.factor != 1)
      return fmt::format("{} is not the softmax over {} of {} times a number, masked by a comparison of two indices",
                         name_of(weights_), parts_.keys, name_of(scores));
    out_.problem.scale = value.within == 0 ? value.number : value.within * value.number;
    out_.problem.cap = value.within == 0 ? 0 : value.number;
    if (reading.stands() && !reading.rows().empty())
      return fmt::format("one limit of the mask depends on {}, and the other does not", reading.rows());
    const AttentionBand& band = value.band;
    out_.problem.low = band.low;
    out_.problem.high = band.high;
    out_.problem.walks = !reading.stands();
    masked_ = reading.rows();
    if (band.in_sequence) return read_sequences(band);
    if (band.lengths < 0) return std::nullopt;
    out_.problem.lengths = {band.limit, band.low_moves, band.high_moves};
    out_.lengths = band.lengths;
    return place_lengths();
  }
  // Matches a mask that compares sequences; rows and keys then count from the start of their sequence.
  std::optional<std::string> read_sequences(const AttentionBand& band) {
    out_.row_lengths = lengths_along(program_, masked_);
    out_.key_lengths = lengths_along(program_, parts_.keys);
    constexpr std::int64_t far = AttentionBand::far;
    if (band.lengths >= 0 || out_.problem.walks == false)
      return fmt::format("the mask compares sequences of {} and {} and also lengths", masked_, parts_.keys);
    if (out_.row_lengths.size() != out_.key_lengths.size())
      return fmt::format("{} has {} sequences, {} has {}", masked_, out_.row_lengths.size(), parts_.keys,
                         out_.key_lengths.size());
    if ((band.low != -far || band.high != far) && out_.row_lengths != out_.key_lengths)
      return fmt::format("the mask compares {} with {}, whose sequences start at different positions", parts_.keys,
                         masked_);
    parts_.outer = 0;
    return std::nullopt;
  }
  // Replaces the sizes of one long sequence by those of the packed sequences in it.
  void take_apart() {
    ops::AttentionProblem& p = out_.problem;
    const auto longest = [](const std::vector<std::int64_t>& all) { return *std::max_element(all.begin(), all.end()); };
    p.packed = {p.rows, p.keys};
    p.lengths = {.limit = 0};
    p.outer = static_cast<std::int64_t>(out_.row_lengths.size());
    p.rows = longest(out_.row_lengths);
    p.keys = longest(out_.key_lengths);
  }
  std::set<int> whole_numbers() const {
    std::set<int> out;
    for (std::size_t t = 0; t < program_.tensors.size(); ++t)
      if (program_.tensors[t].dtype == DType::int32 && program_.tensors[t].role == Role::input)
        out.insert(static_cast<int>(t));
    return out;
  }
  // Makes the dimensions of the lengths the first of the batch.
  std::optional<std::string> place_lengths() {
    const Shape& shape = shape_of(out_.lengths);
    Dims first = dims_of(shape);
    for (const std::string& dim : first)
      if (!has_dim(parts_.batch, dim))
        return fmt::format("{} differs along {}, which is not a dimension of both {} and {}", name_of(out_.lengths),
                           dim, name_of(out_.q), name_of(out_.k));
    parts_.outer = first.size();
    for (const std::string& dim : parts_.batch)
      if (!has_dim(dims_of(shape), dim)) first.push_back(dim);
    parts_.batch = first;
    return std::nullopt;
  }

  std::optional<std::string> place() {
    if (!masked_.empty() && !has_dim(parts_.rows, masked_))
      return fmt::format("the mask compares with {}, which is not a row dimension", masked_);
    ops::AttentionProblem& p = out_.problem;
    p.dtype = dtype(out_.q);
    if (!pages_.empty())
      if (auto why = place_list()) return why;
    const Shape k = pages_.empty() ? shape_of(out_.k) : page_of(*of_keys_);
    const Shape v = pages_.empty() ? shape_of(out_.v) : page_of(*of_values_);
    if (lay_out(p, parts_, masked_, shape_of(out_.q), k,
                {{&shape_of(out_.q), true, false, &p.q},
                 {&k, false, false, &p.k},
                 {&v, false, true, &p.v},
                 {&shape_of(out_.o), true, true, &p.o}})) {
      if (!out_.row_lengths.empty()) take_apart();
      if (!pages_.empty()) set_pages();
      return std::nullopt;
    }
    return fmt::format("{}, {}, {} and {} are not laid out as heads of contiguous rows", name_of(out_.q),
                       name_of(out_.k), name_of(out_.v), name_of(out_.o));
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  const std::vector<int>& statements_;
  Target target_;
  AttentionParts parts_ = {};
  int weights_ = 0;
  std::string pages_;  // page dimension; empty if keys are not paged
  std::optional<Gather> of_keys_, of_values_;
  std::string masked_;
  FoundAttention out_ = {};
};

// Adds a buffer with the start of each sequence and returns its index.
int starts_of(Lowering& to, const std::vector<std::int64_t>& lengths) {
  const int out = to.add_buffer(DType::int32, static_cast<std::int64_t>(lengths.size()) + 1);
  Buffer& buffer = to.plan.buffers[static_cast<std::size_t>(out)];
  buffer.counts = true;
  buffer.lengths = lengths;
  return out;
}

}  // namespace

std::vector<int> with_gathers(const Program& program, std::vector<int> statements) {
  std::vector<int> operands;
  for (const int s : statements)
    if (const auto* c = std::get_if<Contraction>(&program.statements[static_cast<std::size_t>(s)].op))
      operands.insert(operands.end(), {c->left, c->right});
  for (std::size_t s = 0; s < program.statements.size(); ++s)
    if (gathers(program.statements[s]) &&
        std::find(operands.begin(), operands.end(), program.statements[s].result()) != operands.end())
      statements.push_back(static_cast<int>(s));
  std::sort(statements.begin(), statements.end());
  return statements;
}

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
  if (found.pages >= 0)
    step.buffers.insert(step.buffers.end(), {-1, found.lengths, -1, -1, found.pages});
  else if (found.lengths >= 0)
    step.buffers.insert(step.buffers.end(), {-1, found.lengths});
  if (!found.row_lengths.empty()) {
    const int rows = starts_of(to, found.row_lengths);
    const int keys = found.key_lengths == found.row_lengths ? rows : starts_of(to, found.key_lengths);
    step.buffers.insert(step.buffers.end(), {-1, -1, rows, keys});
  }
  to.plan.steps.push_back(std::move(step));
}

}  // namespace ridge
