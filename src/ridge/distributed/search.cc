#include "ridge/distributed/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace ridge {
namespace {

constexpr std::size_t most_ways = 20'000'000;  // some seconds

const Tensor& tensor(const Costs& costs, int t) { return costs.program().tensors[static_cast<std::size_t>(t)]; }

std::vector<int> distinct_operands(const Statement& statement) {
  std::vector<int> out = operands(statement);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// The statements that read each tensor.
std::vector<std::vector<std::size_t>> readers_of(const Program& program) {
  std::vector<std::vector<std::size_t>> out(program.tensors.size());
  for (std::size_t s = 0; s < program.statements.size(); ++s)
    for (const int t : distinct_operands(program.statements[s])) out[static_cast<std::size_t>(t)].push_back(s);
  return out;
}

Layout whole(const Tensor& tensor) { return {.cut = std::vector<std::string>(tensor.axes.size())}; }

double copied(const Costs& costs, int t, const Layout& now, const Layout& then, const Layout& copy) {
  return costs.move(t, now, then).copies ? costs.bytes(t, copy) : 0;
}

// What a way to some statement has cost so far. The largest sum of what is held is that of inputs, which are all there
// from the start, and `held`, the largest of the others.
struct Label {
  double time = 0, inputs = 0, outputs = 0, held = 0;
  int state = -1, label = -1;  // where it comes from
  int cut = 0;
  std::vector<std::pair<int, int>> placed = {};  // inputs that are read first here, and which of their layouts
  int left = 0;                                  // of the result
  bool no_worse(const Label& o) const {
    return time <= o.time && inputs <= o.inputs && outputs <= o.outputs && held <= o.held;
  }
};

bool as_long(double a, double b) { return std::abs(a - b) <= 1e-9 * std::min(a, b); }

using Key = std::vector<int>;  // of the tensors that are read again: which of their layouts
using States = std::map<Key, std::vector<Label>>;

class Search {
 public:
  // `beam`: states kept behind a statement; 0: all, which makes it exact. Ways longer than `at_most` are left.
  Search(const Costs& costs, double capacity, std::size_t count, std::size_t beam, double at_most)
      : costs_(costs),
        capacity_(capacity),
        count_(count),
        beam_(beam),
        at_most_(at_most > 0 ? at_most * (1 + 1e-9) : std::numeric_limits<double>::infinity()),
        readers_(readers_of(costs.program())),
        ahead_(costs.program().statements.size() + 1) {
    for (std::size_t t = 0; t < readers_.size(); ++t) {
      bytes_.emplace_back();
      for (const Layout& layout : costs.layouts(static_cast<int>(t)))
        bytes_.back().push_back(costs.bytes(static_cast<int>(t), layout));
    }
    for (std::size_t s = ahead_.size() - 1; s-- > 0;) {
      double least = std::numeric_limits<double>::infinity();
      for (const StatementCost& cost : costs.statement(s)) least = std::min(least, cost.compute_s + cost.network_s);
      ahead_[s] = ahead_[s + 1] + least;
    }
  }

  Result<std::vector<Sharding>> run() {
    Label start;
    for (std::size_t t = 0; t < readers_.size(); ++t)
      if (readers_[t].empty() && costs_.program().tensors[t].role == Role::input)
        start.inputs += costs_.bytes(static_cast<int>(t), whole(costs_.program().tensors[t]));
    layers_.push_back({{Key{}, {start}}});
    for (std::size_t s = 0; s < costs_.program().statements.size(); ++s) {
      states_after(s);
      if (ways_ > most_ways)
        return input_error(fmt::format("more than {} ways to shard what is read again", most_ways),
                           "give fewer mesh axes, or a part of the program");
    }
    return found();
  }

 private:
  bool read_again(int t, std::size_t after) const {
    const auto& readers = readers_[static_cast<std::size_t>(t)];
    return !readers.empty() && readers.back() > after;
  }

  // The tensors of a key behind a statement, in order.
  std::vector<int> alive(std::size_t next) const {
    std::vector<int> out;
    for (std::size_t t = 0; t < readers_.size(); ++t) {
      const auto& readers = readers_[t];
      if (readers.empty() || readers.back() < next) continue;
      const bool input = costs_.program().tensors[t].role == Role::input;
      const std::size_t begin = input ? readers.front() : made_by(static_cast<int>(t));
      if (begin < next) out.push_back(static_cast<int>(t));
    }
    return out;
  }

  std::size_t made_by(int t) const {
    const auto& all = costs_.program().statements;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Statement& s) { return s.result() == t; });
    return static_cast<std::size_t>(found - all.begin());
  }

  struct Entry {
    double time, copy;
  };
  struct Exit {  // a way to leave the result
    int index;
    double time, bytes, copy;
  };
  // Everything about one statement that does not hang on the state.
  struct Here {
    std::size_t s;
    const Statement& statement;
    std::vector<int> before, after;  // tensors of the keys
    std::vector<int> operands;
    // Under the cuts at hand: ways to leave the result; of each operand and each of its layouts, what moving it costs.
    std::vector<Exit> exits = {};
    std::vector<Layout> wanted = {};
    std::vector<std::vector<Entry>> entries = {};
  };
  using Lies = std::vector<int>;  // of each tensor, which of its layouts; -1: it is not there

  void states_after(std::size_t s) {
    const Statement& statement = costs_.program().statements[s];
    Here here{s, statement, alive(s), alive(s + 1), distinct_operands(statement)};
    States next;
    Lies lies(readers_.size(), -1);
    for (std::size_t c = 0; c < costs_.statement(s).size(); ++c) {
      enter(here, costs_.statement(s)[c].cuts);
      here.exits = exits_of(statement, costs_.statement(s)[c].cuts, read_again(statement.result(), s));
      int index = 0;
      for (const auto& [key, labels] : layers_.back()) {
        Label step{.state = index++, .cut = static_cast<int>(c)};
        step.time = costs_.statement(s)[c].compute_s + costs_.statement(s)[c].network_s;
        if (labels.front().time + step.time + ahead_[s + 1] > at_most_) continue;
        for (std::size_t i = 0; i < key.size(); ++i) lies[static_cast<std::size_t>(here.before[i])] = key[i];
        place(here, labels, lies, step, 0, next);
      }
    }
    narrow(next);
    layers_.push_back(std::move(next));
  }

  // The states of the beam that are reached fastest.
  void narrow(States& states) const {
    if (beam_ == 0 || states.size() <= beam_) return;
    std::vector<double> times;
    for (const auto& [key, labels] : states) times.push_back(labels.front().time);
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(beam_) - 1, times.end());
    const double most = times[beam_ - 1];
    std::erase_if(states, [&](const auto& each) { return each.second.front().time > most; });
  }

  int index_of(int t, const Layout& layout) const {
    const std::vector<Layout>& all = costs_.layouts(t);
    return static_cast<int>(std::find(all.begin(), all.end(), layout) - all.begin());
  }

  void enter(Here& here, const Cuts& cuts) const {
    here.wanted.clear();
    here.entries.clear();
    for (const int t : here.operands) {
      const Layout wanted = operand_under(costs_.program(), here.statement, t, cuts);
      std::vector<Entry> all;
      for (const Layout& layout : costs_.layouts(t))
        all.push_back({costs_.move(t, layout, wanted).seconds, copied(costs_, t, layout, wanted, wanted)});
      here.wanted.push_back(wanted);
      here.entries.push_back(std::move(all));
    }
  }

  std::vector<Exit> exits_of(const Statement& statement, const Cuts& cuts, bool again) const {
    const int t = statement.result();
    const Layout made = result_under(costs_.program(), statement, cuts);
    std::vector<Exit> out;
    for (const Layout& left : ways_to_leave(costs_, t, made, again))
      out.push_back({index_of(t, left), costs_.move(t, made, left).seconds, costs_.bytes(t, left),
                     copied(costs_, t, made, left, made)});
    return out;
  }

  // Lays the operands from the i-th on; step.held are the copies of those before.
  void place(const Here& here, const std::vector<Label>& labels, Lies& lies, const Label& step, std::size_t i,
             States& next) {
    if (i == here.operands.size()) return leave(here, labels, lies, step, next);
    const int t = here.operands[i];
    if (labels.front().time + step.time + ahead_[here.s + 1] > at_most_) return;
    int& known = lies[static_cast<std::size_t>(t)];
    if (known >= 0) {
      const Entry& entry = here.entries[i][static_cast<std::size_t>(known)];
      Label longer = step;
      longer.time += entry.time;
      longer.held += entry.copy;
      return place(here, labels, lies, longer, i + 1, next);
    }
    const bool several = readers_[static_cast<std::size_t>(t)].size() > 1;
    const std::vector<Layout> kept =
        several ? costs_.layouts(t) : ways_to_keep(costs_, t, here.wanted[i], capacity_ > 0);
    for (const Layout& option : kept) {
      const int index = index_of(t, option);
      const Entry& entry = here.entries[i][static_cast<std::size_t>(index)];
      Label longer = step;
      longer.time += entry.time;
      longer.held += entry.copy;
      longer.inputs += bytes_[static_cast<std::size_t>(t)][static_cast<std::size_t>(index)];
      longer.placed.emplace_back(t, index);
      known = index;
      place(here, labels, lies, longer, i + 1, next);
      known = -1;
    }
  }

  void leave(const Here& here, const std::vector<Label>& labels, const Lies& lies, Label step, States& next) {
    const int t = here.statement.result();
    const bool output = tensor(costs_, t).role == Role::output;
    for (std::size_t other = 0; other < lies.size(); ++other)
      if (lies[other] >= 0 && costs_.program().tensors[other].role == Role::intermediate)
        step.held += bytes_[other][static_cast<std::size_t>(lies[other])];
    for (const Exit& exit : here.exits) {
      if (labels.front().time + step.time + exit.time + ahead_[here.s + 1] > at_most_) continue;
      Label longer = step;
      longer.left = exit.index;
      longer.time += exit.time;
      longer.held += exit.bytes + exit.copy;
      if (output) longer.outputs = exit.bytes;
      Key key;
      for (const int other : here.after) key.push_back(other == t ? exit.index : lies[static_cast<std::size_t>(other)]);
      std::vector<Label>& there = next[key];
      ways_ += labels.size();
      for (std::size_t l = 0; l < labels.size(); ++l) {
        if (labels[l].time + longer.time + ahead_[here.s + 1] > at_most_) break;
        add(there, labels[l], longer, static_cast<int>(l));
      }
      if (there.empty()) next.erase(key);
    }
  }

  void add(std::vector<Label>& there, const Label& before, const Label& step, int label) {
    const bool memory = capacity_ > 0;
    if (!memory && there.size() == count_ && there.back().time <= before.time + step.time) return;
    Label sum = step;
    sum.label = label;
    sum.time += before.time;
    sum.inputs += before.inputs;
    sum.outputs += before.outputs;
    sum.held = std::max(before.held, before.outputs + step.held);
    if (memory && sum.inputs + sum.held > capacity_) return;
    if (memory ? surpassed(there, sum) : known(there, sum)) return;
    const auto behind = std::upper_bound(there.begin(), there.end(), sum,
                                         [](const Label& a, const Label& b) { return a.time < b.time; });
    there.insert(behind, std::move(sum));
    if (!memory && there.size() > count_) there.pop_back();
  }

  // Another takes as long: the one that needs less memory stays.
  static bool known(std::vector<Label>& there, const Label& sum) {
    const auto same =
        std::find_if(there.begin(), there.end(), [&](const Label& o) { return as_long(o.time, sum.time); });
    if (same == there.end()) return false;
    if (sum.inputs + sum.held < same->inputs + same->held) *same = sum;
    return true;
  }
  // One that takes as long needs no more memory, or `count` that take less time, each another, do not.
  bool surpassed(const std::vector<Label>& there, const Label& sum) const {
    std::size_t faster = 0;
    double last = -1;
    for (const Label& o : there) {  // in the order of their times
      if (!o.no_worse(sum)) continue;
      if (as_long(o.time, sum.time)) return true;
      if (last < 0 || !as_long(o.time, last)) ++faster;
      last = o.time;
    }
    return faster >= count_;
  }

  Result<std::vector<Sharding>> found() const {
    std::vector<std::pair<double, std::pair<int, int>>> last;  // time, state, label
    int index = 0;
    for (const auto& [key, labels] : layers_.back()) {
      for (std::size_t l = 0; l < labels.size(); ++l) last.push_back({labels[l].time, {index, static_cast<int>(l)}});
      ++index;
    }
    std::stable_sort(last.begin(), last.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Sharding> out;
    double latest = -1;
    for (const auto& [time, place] : last) {
      Sharding next = traced(place.first, place.second);
      if (latest >= 0 && as_long(time, latest)) {
        if (next.bytes < out.back().bytes) out.back() = std::move(next);
      } else if (out.size() < count_) {
        out.push_back(std::move(next));
        latest = time;
      } else {
        break;
      }
    }
    return out;
  }

  Sharding traced(int state, int label) const {
    const Program& program = costs_.program();
    std::vector<Cuts> cuts(program.statements.size());
    std::vector<Layout> kept;
    for (const Tensor& t : program.tensors) kept.push_back(whole(t));
    for (std::size_t s = program.statements.size(); s-- > 0;) {
      const Label& l = std::next(layers_[s + 1].begin(), state)->second[static_cast<std::size_t>(label)];
      cuts[s] = costs_.statement(s)[static_cast<std::size_t>(l.cut)].cuts;
      const int result = program.statements[s].result();
      const auto layout = [&](int t, int index) { return costs_.layouts(t)[static_cast<std::size_t>(index)]; };
      kept[static_cast<std::size_t>(result)] = layout(result, l.left);
      for (const auto& [t, index] : l.placed) kept[static_cast<std::size_t>(t)] = layout(t, index);
      state = l.state;
      label = l.label;
    }
    return assessed(costs_, std::move(cuts), std::move(kept));
  }

  const Costs& costs_;
  double capacity_;
  std::size_t count_, beam_;
  double at_most_;
  std::vector<std::vector<std::size_t>> readers_;
  std::vector<std::vector<double>> bytes_;  // on a device, of each tensor in each of its layouts
  std::vector<double> ahead_;               // s that the statements from here on take at least
  std::vector<States> layers_;
  std::size_t ways_ = 0;
};

bool all_fit(const std::vector<Sharding>& all, double capacity) {
  return std::all_of(all.begin(), all.end(), [&](const Sharding& s) { return s.bytes <= capacity; });
}

}  // namespace

std::vector<Layout> ways_to_keep(const Costs& costs, int input, const Layout& wanted, bool short_of_memory) {
  if (!short_of_memory) return {wanted};
  std::vector<Layout> out{wanted};
  for (const Layout& layout : costs.layouts(input)) {
    const std::vector<Move> all = moves(layout, wanted);
    const bool gathers =
        std::all_of(all.begin(), all.end(), [](const Move& m) { return m.kind == Collective::all_gather; });
    const bool as_small = std::any_of(out.begin(), out.end(), [&](const Layout& o) {
      return costs.bytes(input, o) <= costs.bytes(input, layout) &&
             costs.move(input, o, wanted).seconds <= costs.move(input, layout, wanted).seconds;
    });
    if (gathers && !as_small) out.push_back(layout);
  }
  return out;
}

std::vector<Layout> ways_to_leave(const Costs& costs, int result, const Layout& made, bool read_again) {
  if (read_again) return costs.layouts(result);
  if (made.addends.empty()) return {made};
  std::vector<Layout> out;
  for (const Layout& layout : costs.layouts(result)) {
    const std::vector<Move> all = moves(made, layout);
    if (std::all_of(all.begin(), all.end(), [](const Move& m) {
          return m.kind == Collective::all_reduce || m.kind == Collective::reduce_scatter;
        }))
      out.push_back(layout);
  }
  return out;
}

std::vector<StatementMove> steps_of(const Costs& costs, const Sharding& sharding) {
  const Program& program = costs.program();
  std::vector<StatementMove> out;
  const auto add = [&](std::size_t s, int t, const Layout& now, const Layout& then) {
    for (const Move& move : moves(now, then))
      if (move.kind) {
        MoveCost cost = costs.move(t, move.before, move.after);
        cost.words = words_moved(move, extents(tensor(costs, t), costs.sizes()), costs.mesh());
        out.push_back({s, t, move, cost});
      }
  };
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    for (const int t : distinct_operands(statement))
      add(s, t, sharding.kept[static_cast<std::size_t>(t)], operand_under(program, statement, t, sharding.cuts[s]));
    const int result = statement.result();
    add(s, result, result_under(program, statement, sharding.cuts[s]), sharding.kept[static_cast<std::size_t>(result)]);
  }
  return out;
}

Sharding assessed(const Costs& costs, std::vector<Cuts> cuts, std::vector<Layout> kept) {
  const Program& program = costs.program();
  Sharding out{.cuts = std::move(cuts), .kept = std::move(kept)};
  const auto readers = readers_of(program);
  double inputs = 0, held = 0;
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (program.tensors[t].role == Role::input) inputs += costs.bytes(static_cast<int>(t), out.kept[t]);
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Statement& statement = program.statements[s];
    for (const StatementCost& cost : costs.statement(s))
      if (cost.cuts == out.cuts[s]) {
        out.compute_s += cost.compute_s;
        out.network_s += cost.network_s;
      }
    double now = 0;
    for (std::size_t t = 0; t < program.tensors.size(); ++t) {  // results made up to here that are still wanted
      const Tensor& tensor = program.tensors[t];
      if (tensor.role == Role::input) continue;
      bool made = false;
      for (std::size_t b = 0; b <= s; ++b) made = made || program.statements[b].result() == static_cast<int>(t);
      const bool wanted = tensor.role == Role::output || (!readers[t].empty() && readers[t].back() >= s) ||
                          statement.result() == static_cast<int>(t);
      if (made && wanted) now += costs.bytes(static_cast<int>(t), out.kept[t]);
    }
    for (const int t : distinct_operands(statement)) {
      const Layout wanted = operand_under(program, statement, t, out.cuts[s]);
      now += copied(costs, t, out.kept[static_cast<std::size_t>(t)], wanted, wanted);
    }
    const int result = statement.result();
    const Layout made = result_under(program, statement, out.cuts[s]);
    now += copied(costs, result, made, out.kept[static_cast<std::size_t>(result)], made);
    held = std::max(held, now);
  }
  for (const StatementMove& step : steps_of(costs, out)) {
    out.network_s += step.cost.seconds;
    out.words += step.cost.words;
  }
  out.bytes = inputs + held;
  return out;
}

// A narrow search finds some shardings quickly, and the exact one leaves what takes longer than the last of them.
static Result<std::vector<Sharding>> searched(const Costs& costs, double capacity, std::size_t count, double at_most) {
  constexpr std::size_t beam = 32;
  const auto some = Search(costs, capacity, count, beam, at_most).run();
  if (!some) return some.error();
  double bound = some->size() == count ? some->back().seconds() : at_most;
  if (at_most > 0) bound = std::min(bound, at_most);
  return Search(costs, capacity, count, 0, bound).run();
}

Result<std::vector<Sharding>> best_shardings(const Costs& costs, double capacity, std::size_t count, double at_most) {
  auto out = searched(costs, 0, count, at_most);
  if (!out || capacity <= 0 || all_fit(*out, capacity)) return out;
  return searched(costs, capacity, count, at_most);
}

}  // namespace ridge
