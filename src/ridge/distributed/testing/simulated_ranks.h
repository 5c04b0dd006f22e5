// Ranks that hold shards of a tensor and send single words: the communication that redistribution.h counts. Values are
// integers, so that sums do not depend on their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "ridge/base/contains.h"
#include "ridge/distributed/redistribution.h"

namespace ridge::testing {

class SimulatedRanks {
 public:
  using WordValues = std::map<std::int64_t, std::int64_t>;  // index in the full tensor to value

  SimulatedRanks(const Mesh& mesh, std::vector<std::int64_t> extents) : mesh_(mesh), extents_(std::move(extents)) {
    words_.resize(mesh_.devices());
  }

  // Gives each rank its shard of `value`. Partial sums differ between ranks, so that a missing one is detected.
  void set_shards(const Layout& layout, const std::vector<std::int64_t>& value) {
    const std::int64_t n = mesh_.size(layout.partial_over);
    for (std::int64_t d = 0; d < mesh_.devices(); ++d) {
      const std::int64_t partial_index = mesh_.coordinate_along(d, layout.partial_over);
      for (const std::int64_t w : words_of_rank(layout, d)) {
        const std::int64_t v = value[w];
        rank_words(d)[w] = partial_index == 0 ? v - 7 * w * (n * (n - 1) / 2) : 7 * w * partial_index;
      }
    }
  }

  // Runs a step and returns the number of words sent.
  std::int64_t run_step(const RedistributionStep& step) {
    words_sent_ = 0;
    if (step.collective == Collective::reduce_scatter)
      reduce_scatter(step);
    else if (step.collective == Collective::all_reduce)
      all_reduce(step);
    else if (step.collective == Collective::all_gather && is_local_gather(step))
      ring_all_gather(rank_groups(step.over));
    else
      fetch_missing_words(step);
    for (std::int64_t d = 0; d < mesh_.devices(); ++d) {  // drops the words outside the new shard
      const std::vector<std::int64_t> own_words = words_of_rank(step.after, d);
      std::erase_if(rank_words(d),
                    [&](const auto& w) { return !std::binary_search(own_words.begin(), own_words.end(), w.first); });
    }
    return words_sent_;
  }

  WordValues& rank_words(std::int64_t device) { return words_[device]; }

  std::vector<std::int64_t> words_of_rank(const Layout& layout, std::int64_t device) const {
    std::vector<std::int64_t> out{0};
    const ShardBox block = shard_box(extents_, layout, mesh_, device);
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      std::vector<std::int64_t> next;
      for (const std::int64_t before : out)
        for (std::int64_t at = block[i].begin; at < block[i].end; ++at) next.push_back(before * extents_[i] + at);
      out = std::move(next);
    }
    return out;
  }

 private:
  // Returns the groups of devices that differ only along these mesh axes, ordered by coordinate.
  std::vector<std::vector<std::int64_t>> rank_groups(const std::string& over) const {
    std::string others;
    for (const auto& axis : mesh_.axes)
      if (over.find(axis.first) == std::string::npos) others += axis.first;
    std::vector<std::vector<std::int64_t>> out(mesh_.size(others), std::vector<std::int64_t>(mesh_.size(over)));
    for (std::int64_t d = 0; d < mesh_.devices(); ++d)
      out[mesh_.coordinate_along(d, others)][mesh_.coordinate_along(d, over)] = d;
    return out;
  }

  bool is_local_gather(const RedistributionStep& step) const {  // true if each group holds all words of its new shard
    for (const auto& group : rank_groups(step.over)) {
      std::vector<std::int64_t> all;
      for (const std::int64_t d : group)
        for (const std::int64_t w : words_of_rank(step.before, d)) all.push_back(w);
      std::sort(all.begin(), all.end());
      if (all != words_of_rank(step.after, group[0])) return false;
    }
    return true;
  }

  // Ring all-gather: each device forwards the words that it received last.
  void ring_all_gather(const std::vector<std::vector<std::int64_t>>& all) {
    for (const auto& group : all) {
      const std::size_t n = group.size();
      std::vector<WordValues> in_flight;
      for (const std::int64_t d : group) in_flight.push_back(rank_words(d));
      for (std::size_t step = 1; step < n; ++step) {
        std::vector<WordValues> next(n);
        for (std::size_t p = 0; p < n; ++p) next[(p + 1) % n] = in_flight[p];
        for (std::size_t p = 0; p < n; ++p) {
          words_sent_ += static_cast<std::int64_t>(next[p].size());
          rank_words(group[p]).insert(next[p].begin(), next[p].end());
        }
        in_flight = std::move(next);
      }
    }
  }

  // Ring reduction: the sum for a position starts at the next device and visits all devices of the ring.
  void ring_reduce(const std::vector<std::int64_t>& group, const std::vector<std::vector<std::int64_t>>& chunks) {
    const std::size_t n = group.size();
    for (std::size_t position = 0; position < n; ++position) {
      WordValues sum;
      for (std::size_t step = 1; step <= n; ++step) {
        WordValues& rank_sums = rank_words(group[(position + step) % n]);
        for (const std::int64_t w : chunks[position]) sum[w] += rank_sums[w];
        if (step < n) words_sent_ += static_cast<std::int64_t>(sum.size());
      }
      for (const std::int64_t w : chunks[position]) rank_words(group[position])[w] = sum[w];
    }
  }

  void reduce_scatter(const RedistributionStep& step) {
    for (const auto& group : rank_groups(step.over)) {
      std::vector<std::vector<std::int64_t>> chunks;
      bool all_local = true;
      for (const std::int64_t d : group) {
        chunks.push_back(words_of_rank(step.after, d));
        for (const std::int64_t w : chunks.back()) all_local = all_local && rank_words(d).contains(w);
      }
      if (all_local)
        ring_reduce(group, chunks);
      else
        uneven_ranks_.insert(uneven_ranks_.end(), group.begin(), group.end());
    }
    if (!uneven_ranks_.empty()) reduce_scatter_uneven(step);
    uneven_ranks_.clear();
  }

  // With uneven shards a device may reduce words of which it holds no partial sum; it fetches all of them.
  void reduce_scatter_uneven(const RedistributionStep& step) {
    const std::vector<WordValues> before = words_;
    for (const std::int64_t d : uneven_ranks_) {
      WordValues sums;
      for (const std::int64_t w : words_of_rank(step.after, d))
        for (std::int64_t a = 0; a < mesh_.size(step.over); ++a) sums[w] += fetch_partial_sum(before, step, d, w, a);
      rank_words(d) = sums;
    }
  }

  std::int64_t fetch_partial_sum(const std::vector<WordValues>& before, const RedistributionStep& step, std::int64_t d,
                                 std::int64_t w, std::int64_t partial_index) {
    std::string other_partial_axes = step.before.partial_over;
    std::erase_if(other_partial_axes, [&](char c) { return step.over.find(c) != std::string::npos; });
    const WordValues& own_words = before[d];
    if (mesh_.coordinate_along(d, step.over) == partial_index && own_words.contains(w)) return own_words.at(w);
    for (std::int64_t other = 0; other < mesh_.devices(); ++other) {
      const WordValues& other_words = before[other];
      if (mesh_.coordinate_along(other, step.over) != partial_index ||
          mesh_.coordinate_along(other, other_partial_axes) != mesh_.coordinate_along(d, other_partial_axes))
        continue;
      if (!other_words.contains(w)) continue;
      ++words_sent_;
      return other_words.at(w);
    }
    return INT64_MIN / 2;
  }

  void all_reduce(const RedistributionStep& step) {
    for (const auto& group : rank_groups(step.over)) {
      std::vector<std::vector<std::int64_t>> chunks(group.size());
      std::size_t next = 0;
      for (const auto& word : rank_words(group[0])) chunks[next++ % group.size()].push_back(word.first);
      ring_reduce(group, chunks);
      for (std::size_t p = 0; p < group.size(); ++p)
        std::erase_if(rank_words(group[p]), [&](const auto& word) { return !contains(chunks[p], word.first); });
      ring_all_gather({group});
    }
  }

  // Each device fetches every missing word from a device that has it and the same partial sums.
  void fetch_missing_words(const RedistributionStep& step) {
    const std::vector<WordValues> before = words_;
    for (std::int64_t d = 0; d < mesh_.devices(); ++d)
      for (const std::int64_t w : words_of_rank(step.after, d)) {
        if (rank_words(d).contains(w)) continue;
        for (std::int64_t other = 0; other < mesh_.devices(); ++other) {
          const WordValues& other_words = before[other];
          if (mesh_.coordinate_along(other, step.before.partial_over) !=
                  mesh_.coordinate_along(d, step.before.partial_over) ||
              !other_words.contains(w))
            continue;
          rank_words(d)[w] = other_words.at(w);
          ++words_sent_;
          break;
        }
      }
  }

  const Mesh& mesh_;
  std::vector<std::int64_t> extents_;
  std::vector<WordValues> words_;
  std::vector<std::int64_t> uneven_ranks_;
  std::int64_t words_sent_ = 0;
};

}  // namespace ridge::testing
