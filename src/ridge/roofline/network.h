// Which links a collective takes and how long that is, by how a machine's links reach its neighbours:
//   ring    a ring along each mesh axis, both ways: two of a chip's links, halves of the data running against each
//   other switch  all of a chip's links, each piece straight to whom it is for direct  a link to each of the others,
//   each piece straight to whom it is for unsaid  one ring over one link, one way
// of V bytes over n devices
//                                ring, one way    ring, both ways     switch, direct
//   all-gather, reduce-scatter   (n - 1)/n*V      (n - 1)/n*V         (n - 1)/n*V        bytes that each device sends
//   all-to-all                   (n - 1)/2*V      floor(n^2/4)/n*V    (n - 1)/n*V
//   each of them                 n - 1            floor(n/2)          1                  hops that the last byte waits
// and an all-reduce is a reduce-scatter and an all-gather. Time: bytes over the rate of the links used together, and
// the hops at the link's latency.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/work.h"

namespace ridge {

struct Network {
  std::string link;                       // "nvlink"
  std::optional<Topology> topology = {};  // none: unsaid
  std::int64_t links = 1;                 // of a chip
  double rate = 0;                        // B/s of one link, one way
  double latency_s = 0;                   // of a hop; 0: not on record
  std::int64_t links_used = 1;            // by the transfer that has fewest; route() says
  double used_rate() const { return rate * static_cast<double>(links_used); }
};

// By the machine's first link. Error: it has none.
Result<Network> network_of(const Machine& machine);

// Bytes that each device sends, whole or relayed for others.
Polynomial bytes_sent(const Transfer& transfer, const std::optional<Topology>& topology, bool both_ways);
Polynomial sent_on_a_ring(const Transfer& transfer);  // one way
std::int64_t hops(const Transfer& transfer, const Network& network);
std::int64_t links_used(const Transfer& transfer, const Network& network);

// Sends every work's transfers over the network: bytes_sent, load and links_used.
void route(std::vector<Work>& work, Network& network);

// "18 x nvlink to a switch, 450.0 GB/s one way"
std::string text(const Network& network);

// From one device to another, some hops away: over a ring's links on the near side, one along each axis; all links to a
// switch; the one link between both.
struct Passage {
  std::string link;
  double bytes = 0;  // B
  std::int64_t hops = 1, links = 1;
  double first_s = 0;  // until the first byte is there; 0: the latency is not on record
  double all_s = 0;    // until the last one is
};
// Errors: the machine has no link; of kind usage: bytes not above 0, hops below 1.
Result<Passage> passage(const Machine& machine, double bytes, std::int64_t hops);
std::string text(const Passage& passage);

}  // namespace ridge
