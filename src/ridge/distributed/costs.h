// What the parts of a sharding cost, each once: a statement under its cuts, a tensor that changes how it lies. Times
// are those of roofline/prediction.h, of the device with the largest part; where a library's collectives were timed on
// the machine (collective.h), what moves takes as long as there.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ridge/distributed/cuts.h"
#include "ridge/distributed/moves.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/network.h"

namespace ridge {

struct StatementCost {
  Cuts cuts;
  double compute_s = 0;  // the larger of math and memory; what the machine's file lacks is left out
  double network_s = 0;  // of functions along what is cut
};

struct MoveCost {
  double seconds = 0;
  std::int64_t words = 0;  // over the whole mesh
  bool copies = false;     // words come in or addends are added up; else parts are only looked at
};

class Costs {
 public:
  // Errors: explain()'s.
  static Result<Costs> of(const Program& program, const Machine& machine, const Network& network, const Mesh& mesh,
                          const Bindings& sizes);

  const Program& program() const { return *program_; }
  const Mesh& mesh() const { return mesh_; }
  const Bindings& sizes() const { return sizes_; }
  const std::vector<StatementCost>& statement(std::size_t s) const { return statements_[s]; }
  const std::vector<Layout>& layouts(int tensor) const { return layouts_[static_cast<std::size_t>(tensor)]; }
  double bytes(int tensor, const Layout& layout) const;  // on a device
  const MoveCost& move(int tensor, const Layout& now, const Layout& then) const;

 private:
  double sending(const Transfer& transfer) const;

  const Program* program_ = nullptr;
  const Machine* machine_ = nullptr;
  Network network_;
  Mesh mesh_;
  Bindings sizes_;
  std::vector<std::vector<StatementCost>> statements_;
  std::vector<std::vector<Layout>> layouts_;
  mutable std::vector<std::map<std::pair<Layout, Layout>, MoveCost>> moves_;
};

}  // namespace ridge
