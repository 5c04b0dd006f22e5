#include "ridge/plan/attention/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ridge/base/check.h"
#include "ridge/ops/attention/model.h"
#include "ridge/plan/attention/parts.h"
#include "ridge/plan/lower.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

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
    parts_ = attention_parts(shape_of(out_.q), shape_of(out_.k), shape_of(first.result), parts_.keys);
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
    AttentionReading reading(shapes_, {.scores = scores, .lengths = whole_numbers()}, parts_.keys);
    const AttentionValue value = reading.read(nodes).back();
    if (value.kind != AttentionValue::Kind::softmax || value.factor != 1)
      return fmt::format("{} is not the softmax over {} of {} times a number, masked by a comparison of two indices",
                         name_of(weights_), parts_.keys, name_of(scores));
    out_.problem.scale = value.within == 0 ? value.number : value.within * value.number;
    out_.problem.cap = value.within == 0 ? 0 : value.number;
    if (reading.stands() && !reading.rows().empty())
      return fmt::format("a side of the mask goes with {}, and another is the same for all of it", reading.rows());
    const AttentionBand& band = value.band;
    out_.problem.low = band.low;
    out_.problem.high = band.high;
    out_.problem.walks = !reading.stands();
    masked_ = reading.rows();
    if (band.lengths < 0) return std::nullopt;
    out_.problem.lengths = {band.limit, band.low_moves, band.high_moves};
    out_.lengths = band.lengths;
    return place_lengths();
  }
  std::set<int> whole_numbers() const {
    std::set<int> out;
    for (std::size_t t = 0; t < program_.tensors.size(); ++t)
      if (program_.tensors[t].dtype == DType::int32 && program_.tensors[t].role == Role::input)
        out.insert(static_cast<int>(t));
    return out;
  }
  // A length for each of the first dimensions of the batch.
  std::optional<std::string> place_lengths() {
    const Shape& shape = shape_of(out_.lengths);
    Dims first = dims_of(shape);
    for (const std::string& dim : first)
      if (!has_dim(parts_.batch, dim))
        return fmt::format("{} differs along {}, which is no dimension of both {} and {}", name_of(out_.lengths), dim,
                           name_of(out_.q), name_of(out_.k));
    parts_.outer = first.size();
    for (const std::string& dim : parts_.batch)
      if (!has_dim(dims_of(shape), dim)) first.push_back(dim);
    parts_.batch = first;
    return std::nullopt;
  }

  std::optional<std::string> place() {
    if (!masked_.empty() && !has_dim(parts_.rows, masked_))
      return fmt::format("the mask compares with {}, which is no dimension of rows", masked_);
    ops::AttentionProblem& p = out_.problem;
    p.dtype = dtype(out_.q);
    if (lay_out(p, parts_, masked_, shape_of(out_.q), shape_of(out_.k),
                {{&shape_of(out_.q), true, false, &p.q},
                 {&shape_of(out_.k), false, false, &p.k},
                 {&shape_of(out_.v), false, true, &p.v},
                 {&shape_of(out_.o), true, true, &p.o}}))
      return std::nullopt;
    return fmt::format("{}, {}, {} and {} do not lie as heads of whole rows", name_of(out_.q), name_of(out_.k),
                       name_of(out_.v), name_of(out_.o));
  }

  const Program& program_;
  const std::vector<Shape>& shapes_;
  const std::vector<int>& statements_;
  Target target_;
  AttentionParts parts_ = {};
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
  if (found.lengths >= 0) step.buffers.insert(step.buffers.end(), {-1, found.lengths});
  to.plan.steps.push_back(std::move(step));
}

}  // namespace ridge
