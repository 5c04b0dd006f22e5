// Numbers of experts that rows reach, and of rows that are kept. Each row selects k different ones of E experts.
// Without given loads, all selections are equally likely and the N rows independent, so E*(1 - (1 - k/E)^N) experts are
// expected: 5.469 of 8 for 4 rows that select two each. Counts are in thousandths. With given loads, experts without
// rows are not read.
#pragma once

#include "ridge/roofline/masks.h"

namespace ridge {

// Adds masks for every routed product and names their symbols.
void add_routing_masks(const Program& program, ProgramMasks& masks);

std::vector<std::string> dependency_dims(const Routing& routing);
// Returns nullopt if a dimension has no value or the loads do not match the indices.
std::optional<std::int64_t> count_routing(const Routing& routing, RoutingCount what, const Bindings& dims);
Polynomial full_routing_count(const Routing& routing, RoutingCount what);  // Thousandths of all experts; all rows
std::optional<Polynomial> routing_closed_form(const Routing& routing, RoutingCount what);
std::string routing_mismatch_text(const Routing& routing);

}  // namespace ridge
