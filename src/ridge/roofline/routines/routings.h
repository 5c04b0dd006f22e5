// How many experts rows reach and how many rows they keep. Of E experts each row takes k different ones. Where no loads
// are given every choice of k is as likely and N rows are as independent, so that E*(1 - (1 - k/E)^N) experts are
// reached in expectation: of 8 by two of each of 4 rows, 5.469. Counts hold it in thousandths. Where loads are given,
// experts with none are not read.
#pragma once

#include "ridge/roofline/masks.h"

namespace ridge {

// Adds what needs no closed form of these, and names the symbols.
void add_routings(const Program& program, Masks& masks);

std::vector<std::string> hangs_on(const Routing& routing);
// None: a dimension has no value, or the loads are not those of the indices.
std::optional<std::int64_t> counted(const Routing& routing, RoutingCount what, const Bindings& dims);
Polynomial every(const Routing& routing, RoutingCount what);  // thousandths of all experts; all rows
std::optional<Polynomial> plain(const Routing& routing, RoutingCount what);
std::string misfit(const Routing& routing);

}  // namespace ridge
