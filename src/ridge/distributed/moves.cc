#include "ridge/distributed/moves.h"

#include <algorithm>

namespace ridge {
namespace {

bool holds(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

// The axis that a mesh axis cuts; none: -1.
int cut_by(const Layout& layout, char letter) {
  for (std::size_t i = 0; i < layout.cut.size(); ++i)
    if (holds(layout.cut[i], letter)) return static_cast<int>(i);
  return -1;
}

std::string without(std::string letters, const std::string& others) {
  std::erase_if(letters, [&](char c) { return holds(others, c); });
  return letters;
}

class Way {
 public:
  Way(const Layout& now, const Layout& then) : now_(now), then_(then) {}

  std::vector<Move> moves() {
    scatter_addends();
    drop_parts();
    for (int from = 0; from < axes(); ++from)
      for (int to = 0; to < axes(); ++to)
        if (from != to) exchange(from, to);
    for (int axis = 0; axis < axes(); ++axis) gather(axis);
    if (now_.cut != then_.cut) step(Collective::permute, reordered(then_), [&](Layout& l) { l.cut = then_.cut; });
    return std::move(moves_);
  }

 private:
  int axes() const { return static_cast<int>(then_.cut.size()); }

  template <class Change> void step(std::optional<Collective> kind, const std::string& over, const Change& change) {
    if (over.empty()) return;
    Move move{kind, over, now_, now_};
    change(move.after);
    now_ = move.after;
    moves_.push_back(std::move(move));
  }

  // Letters of axes whose order differs.
  std::string reordered(const Layout& other) const {
    std::string out;
    for (std::size_t i = 0; i < now_.cut.size(); ++i)
      if (now_.cut[i] != other.cut[i]) out += now_.cut[i];
    return out;
  }

  void scatter_addends() {
    const std::string added = without(now_.addends, then_.addends);
    for (int axis = 0; axis < axes(); ++axis) {
      std::string here;
      for (const char letter : then_.cut[static_cast<std::size_t>(axis)])
        if (holds(added, letter)) here += letter;
      step(Collective::reduce_scatter, here, [&](Layout& l) {
        l.cut[static_cast<std::size_t>(axis)] += here;
        l.addends = without(l.addends, here);
      });
    }
    const std::string rest = without(now_.addends, then_.addends);
    step(Collective::all_reduce, rest, [&](Layout& l) { l.addends = without(l.addends, rest); });
  }

  void drop_parts() {
    for (int axis = 0; axis < axes(); ++axis) {
      std::string fresh;
      for (const char letter : then_.cut[static_cast<std::size_t>(axis)])
        if (cut_by(now_, letter) < 0) fresh += letter;
      step(std::nullopt, fresh, [&](Layout& l) { l.cut[static_cast<std::size_t>(axis)] += fresh; });
    }
  }

  // What leaves an axis must be innermost there.
  void bring_inside(int axis, const std::string& leaving) {
    const auto at = static_cast<std::size_t>(axis);
    const std::string order = without(now_.cut[at], leaving) + leaving;
    if (order == now_.cut[at]) return;
    step(Collective::permute, now_.cut[at], [&](Layout& l) { l.cut[at] = order; });
  }

  void exchange(int from, int to) {
    std::string leaving;
    for (const char letter : now_.cut[static_cast<std::size_t>(from)])
      if (cut_by(then_, letter) == to) leaving += letter;
    if (leaving.empty()) return;
    bring_inside(from, leaving);
    step(Collective::all_to_all, leaving, [&](Layout& l) {
      std::string& here = l.cut[static_cast<std::size_t>(from)];
      here = without(here, leaving);
      l.cut[static_cast<std::size_t>(to)] += leaving;
    });
  }

  void gather(int axis) {
    std::string leaving;
    for (const char letter : now_.cut[static_cast<std::size_t>(axis)])
      if (cut_by(then_, letter) < 0) leaving += letter;
    if (leaving.empty()) return;
    bring_inside(axis, leaving);
    step(Collective::all_gather, leaving, [&](Layout& l) {
      std::string& here = l.cut[static_cast<std::size_t>(axis)];
      here = without(here, leaving);
    });
  }

  Layout now_;
  const Layout& then_;
  std::vector<Move> moves_;
};

bool adds(const Move& move) { return move.kind == Collective::reduce_scatter || move.kind == Collective::all_reduce; }

}  // namespace

std::vector<Move> moves(const Layout& now, const Layout& then) { return Way(now, then).moves(); }

std::int64_t words_moved(const Move& move, const std::vector<std::int64_t>& extents, const Mesh& mesh) {
  std::int64_t out = 0;
  const std::int64_t n = mesh.size(move.over);
  for (std::int64_t device = 0; device < mesh.devices(); ++device) {
    const Block after = block_of(extents, move.after, mesh, device);
    if (!adds(move))
      out += words_in(after) - words_in_both(after, block_of(extents, move.before, mesh, device));
    else if (move.kind == Collective::reduce_scatter)
      out += n * words_in(after) - words_in_both(after, block_of(extents, move.before, mesh, device));
    else if (mesh.place(device, move.over) == 0)
      out += 2 * (n - 1) * words_in(after);
  }
  return out;
}

std::optional<Transfer> transfer_of(const Move& move, const std::vector<std::int64_t>& extents, const Mesh& mesh,
                                    Rational word_bytes) {
  const std::int64_t n = mesh.size(move.over);
  if (!move.kind || n == 1) return std::nullopt;
  // Device 0 holds the largest block, and what is scattered is as many parts of that size.
  const std::int64_t parts = move.kind == Collective::reduce_scatter ? n : 1;
  const std::int64_t words = parts * words_in(block_of(extents, move.after, mesh, 0));
  return Transfer{*move.kind, move.over, n, Polynomial(word_bytes * Rational(words))};
}

}  // namespace ridge
