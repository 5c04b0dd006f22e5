// Ranks that hold pieces of a tensor, word by word, and send each other words: the literal thing that moves.h counts.
// Sums are of whole numbers, so that whatever order they take gives the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "ridge/distributed/moves.h"

namespace ridge::testing {

class Ranks {
 public:
  using Words = std::map<std::int64_t, std::int64_t>;  // a word's place in the whole tensor, its value

  Ranks(const Mesh& mesh, std::vector<std::int64_t> extents) : mesh_(mesh), extents_(std::move(extents)) {
    held_.resize(static_cast<std::size_t>(mesh_.devices()));
  }

  // As `layout` says; the addends of `value` are uneven, so that a missing one is seen.
  void place(const Layout& layout, const std::vector<std::int64_t>& value) {
    const std::int64_t n = mesh_.size(layout.addends);
    for (std::int64_t d = 0; d < mesh_.devices(); ++d) {
      const std::int64_t which = mesh_.place(d, layout.addends);
      for (const std::int64_t w : words(layout, d)) {
        const std::int64_t v = value[static_cast<std::size_t>(w)];
        held(d)[w] = which == 0 ? v - 7 * w * (n * (n - 1) / 2) : 7 * w * which;
      }
    }
  }

  // Words sent.
  std::int64_t perform(const Move& move) {
    sent_ = 0;
    if (move.kind == Collective::reduce_scatter)
      scatter(move);
    else if (move.kind == Collective::all_reduce)
      all_reduce(move);
    else if (move.kind == Collective::all_gather && nested(move))
      gather_round(groups(move.over));
    else
      ask(move);
    for (std::int64_t d = 0; d < mesh_.devices(); ++d) {  // what is not its part is dropped
      const std::vector<std::int64_t> mine = words(move.after, d);
      std::erase_if(held(d), [&](const auto& w) { return !std::binary_search(mine.begin(), mine.end(), w.first); });
    }
    return sent_;
  }

  Words& held(std::int64_t device) { return held_[static_cast<std::size_t>(device)]; }

  std::vector<std::int64_t> words(const Layout& layout, std::int64_t device) const {
    std::vector<std::int64_t> out{0};
    const Block block = block_of(extents_, layout, mesh_, device);
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      std::vector<std::int64_t> next;
      for (const std::int64_t before : out)
        for (std::int64_t at = block[i].begin; at < block[i].end; ++at) next.push_back(before * extents_[i] + at);
      out = std::move(next);
    }
    return out;
  }

 private:
  // Devices that differ only along these mesh axes, in the order of their places there.
  std::vector<std::vector<std::int64_t>> groups(const std::string& over) const {
    std::string others;
    for (const auto& axis : mesh_.axes)
      if (over.find(axis.first) == std::string::npos) others += axis.first;
    std::vector<std::vector<std::int64_t>> out(static_cast<std::size_t>(mesh_.size(others)),
                                               std::vector<std::int64_t>(static_cast<std::size_t>(mesh_.size(over))));
    for (std::int64_t d = 0; d < mesh_.devices(); ++d)
      out[static_cast<std::size_t>(mesh_.place(d, others))][static_cast<std::size_t>(mesh_.place(d, over))] = d;
    return out;
  }

  bool nested(const Move& move) const {  // every word of a block afterwards lies in the group
    for (const auto& group : groups(move.over)) {
      std::vector<std::int64_t> all;
      for (const std::int64_t d : group)
        for (const std::int64_t w : words(move.before, d)) all.push_back(w);
      std::sort(all.begin(), all.end());
      if (all != words(move.after, group[0])) return false;
    }
    return true;
  }

  // Round a ring: each device hands on what it received last.
  void gather_round(const std::vector<std::vector<std::int64_t>>& all) {
    for (const auto& group : all) {
      const std::size_t n = group.size();
      std::vector<Words> carried;
      for (const std::int64_t d : group) carried.push_back(held(d));
      for (std::size_t step = 1; step < n; ++step) {
        std::vector<Words> next(n);
        for (std::size_t p = 0; p < n; ++p) next[(p + 1) % n] = carried[p];
        for (std::size_t p = 0; p < n; ++p) {
          sent_ += static_cast<std::int64_t>(next[p].size());
          held(group[p]).insert(next[p].begin(), next[p].end());
        }
        carried = std::move(next);
      }
    }
  }

  // Round a ring: what becomes whole at a place starts behind it and is added to at each device.
  void add_round(const std::vector<std::int64_t>& group, const std::vector<std::vector<std::int64_t>>& chunks) {
    const std::size_t n = group.size();
    for (std::size_t place = 0; place < n; ++place) {
      Words sum;
      for (std::size_t step = 1; step <= n; ++step) {
        Words& here = held(group[(place + step) % n]);
        for (const std::int64_t w : chunks[place]) sum[w] += here[w];
        if (step < n) sent_ += static_cast<std::int64_t>(sum.size());
      }
      for (const std::int64_t w : chunks[place]) held(group[place])[w] = sum[w];
    }
  }

  void scatter(const Move& move) {
    for (const auto& group : groups(move.over)) {
      std::vector<std::vector<std::int64_t>> chunks;
      bool inside = true;
      for (const std::int64_t d : group) {
        chunks.push_back(words(move.after, d));
        for (const std::int64_t w : chunks.back()) inside = inside && held(d).contains(w);
      }
      if (inside)
        add_round(group, chunks);
      else
        late_.insert(late_.end(), group.begin(), group.end());
    }
    if (!late_.empty()) scatter_by_asking(move);
    late_.clear();
  }

  // Where parts are uneven a device may have to add up what it had no addend of.
  void scatter_by_asking(const Move& move) {
    const std::vector<Words> before = held_;
    for (const std::int64_t d : late_) {
      Words sums;
      for (const std::int64_t w : words(move.after, d))
        for (std::int64_t a = 0; a < mesh_.size(move.over); ++a) sums[w] += asked(before, move, d, w, a);
      held(d) = sums;
    }
  }

  std::int64_t asked(const std::vector<Words>& before, const Move& move, std::int64_t d, std::int64_t w,
                     std::int64_t addend) {
    std::string kept = move.before.addends;
    std::erase_if(kept, [&](char c) { return move.over.find(c) != std::string::npos; });
    const Words& own = before[static_cast<std::size_t>(d)];
    if (mesh_.place(d, move.over) == addend && own.contains(w)) return own.at(w);
    for (std::int64_t other = 0; other < mesh_.devices(); ++other) {
      const Words& there = before[static_cast<std::size_t>(other)];
      if (mesh_.place(other, move.over) != addend || mesh_.place(other, kept) != mesh_.place(d, kept)) continue;
      if (!there.contains(w)) continue;
      ++sent_;
      return there.at(w);
    }
    return INT64_MIN / 2;
  }

  void all_reduce(const Move& move) {
    for (const auto& group : groups(move.over)) {
      std::vector<std::vector<std::int64_t>> chunks(group.size());
      std::size_t next = 0;
      for (const auto& word : held(group[0])) chunks[next++ % group.size()].push_back(word.first);
      add_round(group, chunks);
      for (std::size_t p = 0; p < group.size(); ++p)
        std::erase_if(held(group[p]), [&](const auto& word) {
          return std::find(chunks[p].begin(), chunks[p].end(), word.first) == chunks[p].end();
        });
      gather_round({group});
    }
  }

  // Each device asks one that has it, of those with the same addends, for every word that it lacks.
  void ask(const Move& move) {
    const std::vector<Words> before = held_;
    for (std::int64_t d = 0; d < mesh_.devices(); ++d)
      for (const std::int64_t w : words(move.after, d)) {
        if (held(d).contains(w)) continue;
        for (std::int64_t other = 0; other < mesh_.devices(); ++other) {
          const Words& there = before[static_cast<std::size_t>(other)];
          if (mesh_.place(other, move.before.addends) != mesh_.place(d, move.before.addends) || !there.contains(w))
            continue;
          held(d)[w] = there.at(w);
          ++sent_;
          break;
        }
      }
  }

  const Mesh& mesh_;
  std::vector<std::int64_t> extents_;
  std::vector<Words> held_;
  std::vector<std::int64_t> late_;
  std::int64_t sent_ = 0;
};

}  // namespace ridge::testing
