// A product beside the collective that brings its operand or takes its result away, in n chunks: while one is on its
// way another is computed, and the first one sent, or the last one, has nothing beside it.
//   s(n) = S/n + a                  a chunk on its way: bytes over the links' rate, and what a message waits
//   c(n) = max(M/n, P/n + K) + b    a chunk computed: math; memory, K of it for what each chunk reads anew; a launch
//   T(n) = s(n) + c(n) + (n - 1)*max(s(n), c(n))
// T(1) is one after the other. Chunks pay, T(n) < T(1) for some n, exactly where two do, since c is convex in 1/n:
//   c(1) - c(2) > a and S/2 + c(1) > 2*c(2)
// and where math outlasts memory: M > 2*a and S > 2*b, computing longer than two messages wait and sending longer than
// two launches. (Products cut so: Wang and others, ASPLOS 2023.)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/work.h"

namespace ridge {

struct Explanation;
struct Network;

struct Beside {                           // s, of one device
  double math_s = 0;                      // M
  double moved_s = 0;                     // P: memory of what is cut as the chunks are
  double kept_s = 0;                      // K: of what is not
  double launch_s = 0;                    // b; 0: not on record
  double sending_s = 0;                   // S
  double wait_s = 0;                      // a; 0: not on record
  double sent(std::int64_t n) const;      // s(n)
  double computed(std::int64_t n) const;  // c(n)
  double seconds(std::int64_t n) const;   // T(n)
  bool chunks_pay() const;
};

struct Chunks {
  std::int64_t count = 1;
  double seconds = 0;
};
// The fastest of 1 to `most` chunks, of equals the fewest.
Chunks best_chunks(const Beside& beside, std::int64_t most);
inline constexpr std::int64_t most_chunks = 64;

// The least size from which on chunks pay, of a dimension to which M, P and S are proportional and which is `size` in
// `beside`; exact, since what two chunks save grows with it. None: never below 2^40.
std::optional<std::int64_t> chunks_pay_from(const Beside& beside, std::int64_t size);

struct Overlap {
  std::string product, tensor, collective;  // results of statements; "all-gather over X"
  bool before = false;                      // it brings an operand; else it takes the result away
  std::string dim;                          // along which both are cut: the largest that allows it
  std::int64_t size = 1;                    // its value
  Beside beside;
  Chunks best;
  std::optional<std::int64_t> pays_from = {};  // of dim
};

struct Sending {
  double sending_s = 0, wait_s = 0;
};
// Of a transfer whose bytes are a number.
using SendingOf = std::function<Sending(const Transfer&)>;

// Each collective of a sharded program that a product stands beside, the statement's own or that of a statement that
// only moves what it reads or makes; those alone whose times are known. `explanation`: the program's.
std::vector<Overlap> overlaps(const Program& program, const Explanation& explanation, const SendingOf& sending);

// By the links' rates, and a message's wait as the network has it.
Sending sending_by_links(const Transfer& transfer, const Network& network);

// "y beside all-gather over X of g: 349.9 us in turn, 240.1 us in 12 chunks along F; chunks pay from F = 310 on"
std::string text(const Overlap& overlap);

}  // namespace ridge
