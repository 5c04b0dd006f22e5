// Which links a collective takes and how long that is, by how a machine's links reach its neighbours:
//   ring: a ring along each mesh axis, both ways: two of a chip's links, halves of the data running against each other
//   switch: all of a chip's links, each piece straight to whom it is for
//   direct: a link to each of the others, each piece straight to whom it is for
//   unsaid: one ring over one link, one way
// of V bytes over n devices
//                                ring, one way    ring, both ways     switch, direct
//   all-gather, reduce-scatter   (n - 1)/n*V      (n - 1)/n*V         (n - 1)/n*V        bytes that each device sends
//   all-to-all                   (n - 1)/2*V      floor(n^2/4)/n*V    (n - 1)/n*V
//   permute, at most             (n - 1)*V        floor(n/2)*V        V
//   each of them                 n - 1            floor(n/2)          1                  hops that the last byte waits
// and an all-reduce is a reduce-scatter and an all-gather. Time: bytes over the rate of the links used together, and
// the hops at the link's latency.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/work.h"

namespace ridge {

// Chips behind the first link's reach are joined by the machine's next link: pods over a data-centre network, nodes
// over leaves and spines. A collective of members D0 of one node, D1 such nodes, … then takes each level at once, and
// the slowest sets its time: of V bytes, with the rate w of a chip's link there,
//   all-gather, reduce-scatter   V*(D1 - 1)/(D1*D0*w): the members of a node share what comes in from outside
//   all-to-all                   V*(n - D0)/n/w: a chip's part for all who are outside
struct Level {
  std::string link;
  double rate = 0;         // B/s of a chip, one way
  std::int64_t chips = 0;  // that it joins; 0: any number
};

struct Network {
  std::string link;                       // "nvlink"
  std::optional<Topology> topology = {};  // none: unsaid
  std::int64_t links = 1;                 // of a chip
  double rate = 0;                        // B/s of one link, one way
  double latency_s = 0;                   // of a hop; 0: not on record
  double step_s = 0;  // of a message however short: the hop's latency, else as a library was timed; 0: not on record
  std::int64_t links_used = 1;     // by the transfer that has fewest; route() says
  std::int64_t reach = 0;          // chips that the link joins; 0: any number
  std::vector<Level> beyond = {};  // from the inside out
  bool reduces = false;            // the switch adds up: an all-reduce sends V and receives V
  std::int64_t closes = 0;         // a ring along a mesh axis of fewer chips is open: a line, one way
  std::vector<std::pair<char, std::int64_t>> mesh =
      {};                                   // axes with their sizes; chips next to each other along the last
  std::map<char, std::int64_t> rings = {};  // of a chip's rings those that a mesh axis has; 1 where it is not listed
  std::string slowest = {};                 // the level beyond that sets some transfer's time; empty: none does
  double used_rate() const { return rate * static_cast<double>(links_used); }
};

// By the machine's first link. Error: it has none.
Result<Network> network_of(const Machine& machine);

// Bytes that each device sends, whole or relayed for others.
Polynomial bytes_sent(const Transfer& transfer, const std::optional<Topology>& topology, bool both_ways);
Polynomial sent_on_a_ring(const Transfer& transfer);  // one way
std::int64_t hops(const Transfer& transfer, const Network& network);
std::int64_t links_used(const Transfer& transfer, const Network& network);

// How many of its devices one reach of the first link holds, how many of such groups the next level joins, and so on:
// their product is the transfer's devices.
std::vector<std::int64_t> members(const Transfer& transfer, const Network& network);

// s, of a transfer whose bytes are a number.
double seconds(const Transfer& transfer, const Network& network);

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
