// A request that was understood: what the functions of the facade begin with. Internal to api/.
#pragma once

#include "ridge/api/facade.h"

namespace ridge::api {

struct Task {  // a request whose program was read and whose machine was found
  Program program;
  Machine machine;
  std::string title;
};

// The program alone, and then its machine; where that is this computer's device, the device is asked.
Result<Task> read(const Request& request);
Status take_machine(const Request& request, Task& task);
// Both. Errors: of the program, of the machine.
Result<Task> understood(const Request& request);
// What explain() says of it, and nothing more.
Result<Report> counted(const Task& task, const Bindings& dims, const Request& request);

}  // namespace ridge::api
