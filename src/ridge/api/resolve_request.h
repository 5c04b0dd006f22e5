// Resolves requests: loads the program and finds the machine.
#pragma once

#include "ridge/api/facade.h"

namespace ridge::api {

struct ResolvedRequest {
  Program program;
  Machine machine;
  std::string title;
};

// Loads the program, without the machine.
Result<ResolvedRequest> load_without_machine(const Request& request);
// Finds the machine; for "cuda", queries the device.
Status resolve_machine(const Request& request, ResolvedRequest& resolved);
// Loads the program and finds the machine. Errors: of the program or the machine.
Result<ResolvedRequest> resolve_request(const Request& request);
// Returns the basic report of `explain`, without suggestions, groups and plans.
Result<Report> make_basic_report(const ResolvedRequest& resolved, const Bindings& dims, const Request& request);

}  // namespace ridge::api
