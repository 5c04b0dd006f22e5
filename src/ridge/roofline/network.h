// Links that a collective takes and its time, by the topology of the machine:
//   ring: a torus whose axes are rings or lines (sending/torus.h)
//   switch: all of a chip's links, each chunk directly to its destination
//   direct: a link to each of the others, each chunk directly to its destination
//   unknown: one ring over one link, one way
// With V bytes over n devices:
//                                ring, one way    ring, both ways     line             switch, direct
//   all-gather, reduce-scatter   (n - 1)/n*V      (n - 1)/n*V         (n - 1)/n*V      (n - 1)/n*V     bytes of a
//   device all-to-all                   (n - 1)/2*V      floor(n^2/4)/n*V    as both ways     (n - 1)/n*V permute, at
//   most             (n - 1)*V        2*floor(n^2/4)/n*V  as both ways     V links                        1 2 1 all
//   hops of the last byte        n - 1            floor(n/2)          n - 1            1
// An all-reduce is a reduce-scatter and an all-gather. The time is the bytes over the rate of the links used, plus the
// hops at the link's latency; if a library was timed on the machine, no less than the library takes (`TransferCost`).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/sending/transfer_cost.h"
#include "ridge/roofline/work.h"

namespace ridge {

// Level beyond the first link: the machine's next link joins pods by a data-centre network, or nodes by leaves and
// spines. A collective uses all levels concurrently, and the slowest sets its time. With V bytes over n devices, of
// which a node (or pod, or leaf) has s and the smallest one has m, over D nodes, at rate w of a chip's link:
//   all-gather, reduce-scatter   V*(n - m)/(n*m*w): the members of a node share the data from outside
//   all-reduce                   V*max(2*(D - 1)/n, 1/m)/w: the smallest node sends its sums and receives the results
//   all-to-all                   V*(n - m)/n/w: a chip's data for all devices outside
struct NetworkLevel {
  std::string link;
  double rate = 0;         // B/s of a chip, one way
  std::int64_t chips = 0;  // Chips that the level joins; 0: any number
};

struct Network {
  std::string link;                       // "nvlink"
  std::optional<Topology> topology = {};  // nullopt if unknown
  std::int64_t links = 1;                 // Links of a chip
  double rate = 0;                        // B/s of one link, one way
  double latency_s = 0;                   // Seconds of a hop; 0 if not on record
  double step_s = 0;            // Seconds per message: the latency, or a library's measured time; 0 if not on record
  std::int64_t links_used = 1;  // Links used by the transfer with the fewest; set by `route_transfers`
  std::int64_t first_link_chips = 0;            // Chips that the first link joins; 0: any number
  std::vector<NetworkLevel> outer_levels = {};  // Levels beyond the first link, from the inside out
  bool reduces_in_switch = false;               // True if the switch adds up: an all-reduce sends V and receives V
  std::int64_t min_ring_chips = 0;              // A torus axis of fewer chips is a line
  std::int64_t min_torus_chips = 0;             // If the mesh has fewer chips, all of its axes are lines
  std::vector<std::pair<char, std::int64_t>> mesh = {};  // Mesh axes and sizes; adjacent chips differ in the last axis
  std::int64_t chip_stride = 1;  // Distance between adjacent devices of the mesh: 8 means one chip of each node of 8
  std::map<char, std::int64_t> rings_per_axis = {};  // Number of a chip's rings along each mesh axis; 1 if not listed
  std::string slowest_level = {};                    // Outer level that limits some transfer; empty if none does
  std::optional<LibraryTimes> library = {};          // nullopt if no library was timed on the machine
  double used_rate() const { return rate * static_cast<double>(links_used); }
};

// Builds the network of the machine's first link. Errors: the machine has no link.
Result<Network> make_network(const Machine& machine);

Polynomial bytes_sent_on_ring(const Transfer& transfer);  // For one ring, one way

// Input error: the transfer has more devices than the first link joins, and the machine has no further link.
Status check_reach(const Transfer& transfer, const Network& network);

// Returns the cost of transfers of this kind over these devices as a function of their bytes. Every report takes its
// network times from here.
TransferCost estimate_cost(const Transfer& transfer, const Network& network);

// Returns the seconds of a transfer with a constant number of bytes.
double time_transfer(const Transfer& transfer, const Network& network);

// Routes all transfers over the network: sets `bytes_sent`, `link_load` and `links_used`.
void route_transfers(std::vector<Work>& work, Network& network);

// "18 x nvlink: directly through a switch, 450.0 GB/s one way"
std::string describe_links(const Network& network);
// Returns the same with the further levels that limit some transfer, and what is known of a collective's latency.
std::string describe_network(const Network& network);

// Transfer between two devices over some hops: one link along each axis of a ring, all links to a switch, or the
// direct link.
struct PointToPointTransfer {
  std::string link;
  double bytes = 0;  // B
  std::int64_t hops = 1, links = 1;
  double first_byte_s = 0;  // Seconds until the first byte arrives; 0 if the latency is not on record
  double last_byte_s = 0;   // Seconds until the last byte arrives
};
// Errors: the machine has no link; of kind usage: bytes not above 0, hops below 1.
Result<PointToPointTransfer> time_point_to_point(const Machine& machine, double bytes, std::int64_t hops);
std::string describe_point_to_point(const PointToPointTransfer& transfer);

}  // namespace ridge
