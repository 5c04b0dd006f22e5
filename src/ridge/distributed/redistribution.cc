#include "ridge/distributed/redistribution.h"

#include <algorithm>

namespace ridge {
namespace {

bool contains_letter(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// Returns the index of the tensor axis that a mesh axis splits, or -1.
int axis_split_over(const Layout& layout, char letter) {
  for (std::size_t i = 0; i < layout.mesh_axes.size(); ++i)
    if (contains_letter(layout.mesh_axes[i], letter)) return static_cast<int>(i);
  return -1;
}

std::string remove_letters(std::string letters, const std::string& others) {
  std::erase_if(letters, [&](char c) { return contains_letter(others, c); });
  return letters;
}

class RedistributionPlanner {
 public:
  RedistributionPlanner(const Layout& source, const Layout& target) : source_(source), target_(target) {}

  std::vector<RedistributionStep> plan_steps() {
    reduce_partial_sums();
    slice_locally();
    for (int from = 0; from < axis_count(); ++from)
      for (int to = 0; to < axis_count(); ++to)
        if (from != to) exchange_axes(from, to);
    for (int axis = 0; axis < axis_count(); ++axis) gather_axis(axis);
    if (source_.mesh_axes != target_.mesh_axes)
      add_step(Collective::permute, reordered_axes(target_), [&](Layout& l) { l.mesh_axes = target_.mesh_axes; });
    return std::move(steps_);
  }

 private:
  int axis_count() const { return static_cast<int>(target_.mesh_axes.size()); }

  template <class Change>
  void add_step(std::optional<Collective> collective, const std::string& over, const Change& change) {
    if (over.empty()) return;
    RedistributionStep step{collective, over, source_, source_};
    change(step.after);
    source_ = step.after;
    steps_.push_back(std::move(step));
  }

  // Returns the mesh axes of every tensor axis whose split differs.
  std::string reordered_axes(const Layout& other) const {
    std::string out;
    for (std::size_t i = 0; i < source_.mesh_axes.size(); ++i)
      if (source_.mesh_axes[i] != other.mesh_axes[i]) out += source_.mesh_axes[i];
    return out;
  }

  void reduce_partial_sums() {
    const std::string reduced_over = remove_letters(source_.partial_over, target_.partial_over);
    for (int axis = 0; axis < axis_count(); ++axis) {
      std::string scattered;
      for (const char letter : target_.mesh_axes[axis])
        if (contains_letter(reduced_over, letter)) scattered += letter;
      add_step(Collective::reduce_scatter, scattered, [&](Layout& l) {
        l.mesh_axes[axis] += scattered;
        l.partial_over = remove_letters(l.partial_over, scattered);
      });
    }
    const std::string rest = remove_letters(source_.partial_over, target_.partial_over);
    add_step(Collective::all_reduce, rest, [&](Layout& l) { l.partial_over = remove_letters(l.partial_over, rest); });
  }

  void slice_locally() {
    for (int axis = 0; axis < axis_count(); ++axis) {
      std::string new_letters;
      for (const char letter : target_.mesh_axes[axis])
        if (axis_split_over(source_, letter) < 0) new_letters += letter;
      add_step(std::nullopt, new_letters, [&](Layout& l) { l.mesh_axes[axis] += new_letters; });
    }
  }

  // Permutes the mesh axes of a tensor axis so that those to be removed are innermost.
  void make_innermost(int axis, const std::string& leaving) {
    const std::size_t at = axis;
    const std::string order = remove_letters(source_.mesh_axes[at], leaving) + leaving;
    if (order == source_.mesh_axes[at]) return;
    add_step(Collective::permute, source_.mesh_axes[at], [&](Layout& l) { l.mesh_axes[at] = order; });
  }

  void exchange_axes(int from, int to) {
    std::string leaving;
    for (const char letter : source_.mesh_axes[from])
      if (axis_split_over(target_, letter) == to) leaving += letter;
    if (leaving.empty()) return;
    make_innermost(from, leaving);
    add_step(Collective::all_to_all, leaving, [&](Layout& l) {
      std::string& from_axes = l.mesh_axes[from];
      from_axes = remove_letters(from_axes, leaving);
      l.mesh_axes[to] += leaving;
    });
  }

  void gather_axis(int axis) {
    std::string leaving;
    for (const char letter : source_.mesh_axes[axis])
      if (axis_split_over(target_, letter) < 0) leaving += letter;
    if (leaving.empty()) return;
    make_innermost(axis, leaving);
    add_step(Collective::all_gather, leaving, [&](Layout& l) {
      std::string& axis_letters = l.mesh_axes[axis];
      axis_letters = remove_letters(axis_letters, leaving);
    });
  }

  Layout source_;
  const Layout& target_;
  std::vector<RedistributionStep> steps_;
};

bool is_reduction(const RedistributionStep& step) {
  return step.collective == Collective::reduce_scatter || step.collective == Collective::all_reduce;
}

}  // namespace

std::vector<RedistributionStep> plan_redistribution(const Layout& source, const Layout& target) {
  return RedistributionPlanner(source, target).plan_steps();
}

std::int64_t words_moved(const RedistributionStep& step, const std::vector<std::int64_t>& extents, const Mesh& mesh) {
  std::int64_t out = 0;
  const std::int64_t n = mesh.size(step.over);
  for (std::int64_t device = 0; device < mesh.devices(); ++device) {
    const ShardBox after = shard_box(extents, step.after, mesh, device);
    if (!is_reduction(step))
      out += count_words(after) - count_common_words(after, shard_box(extents, step.before, mesh, device));
    else if (step.collective == Collective::reduce_scatter)
      out += n * count_words(after) - count_common_words(after, shard_box(extents, step.before, mesh, device));
    else if (mesh.coordinate_along(device, step.over) == 0)
      out += 2 * (n - 1) * count_words(after);
  }
  return out;
}

std::optional<Transfer> transfer_of_step(const RedistributionStep& step, const std::vector<std::int64_t>& extents,
                                         const Mesh& mesh, Rational word_bytes) {
  const std::int64_t n = mesh.size(step.over);
  if (!step.collective || n == 1) return std::nullopt;
  // Device 0 holds the largest shard; a reduce-scatter is counted as n shards of that size.
  const std::int64_t parts = step.collective == Collective::reduce_scatter ? n : 1;
  const std::int64_t words = parts * count_words(shard_box(extents, step.after, mesh, 0));
  return Transfer{*step.collective, step.over, n, Polynomial(word_bytes * Rational(words))};
}

}  // namespace ridge
