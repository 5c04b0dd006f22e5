// Arguments as strings (-d B=256, --dtype bf16, --split D=2, --link 4.5e10) and their conversion to the requests of
// ridge.h. Errors of kind usage: an argument with a syntax error.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ridge/ridge.h"
#include "ridge/roofline/pointwise_chain.h"

namespace ridge::cli {

// Positional arguments: NAME=VALUE without blanks is a size; the other one is the program. Error: two programs.
struct PositionalArgs {
  std::string program;
  std::vector<std::string> dims;
};
Result<PositionalArgs> split_positionals(const std::vector<std::string>& positionals, std::string_view verb);

struct RequestArgs {
  std::vector<std::string> positionals;        // A file, "-" or program text, and "B=256"
  std::string program;                         // Set from `positionals` by `read_positionals`
  std::string on = "cpu";                      // Catalog name, .toml file, "cpu" or "cuda"
  std::vector<std::string> dims;               // Such as "B=256"
  std::string dtype = {};                      // For tensors that declare none; default bf16
  std::optional<double> flops, bytes;          // Instead of a program
  bool plan = false;                           // explain: also plan kernels
  bool fuse = true;                            // If false, each statement is one kernel
  bool explain_overhead = false;               // Attribute the time above the roof to causes
  bool sustained = false;                      // Use the rates that real programs reach
  std::string library = {};                    // Kernels of the plan: "cublaslt", else ridge
  std::vector<std::string> split = {};         // Such as "D=2": dimension D over two chips
  std::string weights = {};                    // Storage dtype of the weights; default: the program's
  std::string narrow = {};                     // Storage dtype of the weights and of what they multiply
  std::vector<std::string> fused_groups = {};  // Such as "s,p,o": statements in one kernel
  std::int64_t layers = 1;                     // Number of layers like the program
  std::string link = {};    // Link name, one-way rate (4.5e11, 450GB/s), or NAME=RATE; default: the first
  std::string memory = {};  // Memory or link name, or rate; default: the first memory
};
Status read_positionals(RequestArgs& args, std::string_view verb);
// Splits "h100,h200" at commas, or at another separator.
std::vector<std::string> split_names(const std::string& list, char separator = ',');
// Returns the machines of a list, each once: h100 and H100 are the same.
std::vector<std::string> split_machines(const std::string& list);
// Errors (usage): a list of several machines. `what` is what has one: "a trace".
Status check_one_machine(const std::string& list, std::string_view what);
Result<Request> to_request(const RequestArgs& args);
// Converts --flops and --bytes.
Result<BareWork> bare_work(const RequestArgs& args);
// Returns the arguments with the machine replaced, if `other` names one, else with the program replaced.
RequestArgs with_alternative(RequestArgs args, const std::string& other);

struct SweepRequestArgs {
  std::vector<std::string> positionals;
  std::string program;
  std::vector<std::string> on = {"cpu"}, dtypes, dims;  // Such as "B=1..4096:*2"
  std::string split = {};                               // Such as "D=1,2,4"
  std::string link = {};
};
Result<SweepRequest> to_request(const SweepRequestArgs& args);

Result<DType> parse_dtype_argument(const std::string& text);
// Parses texts such as "cos=20".
Result<FunctionCosts> parse_function_costs(const std::vector<std::string>& texts);

// Adds an option that may be repeated, with one value each time.
void add_repeated_option(CLI::App& verb, const std::string& name, std::vector<std::string>& values,
                         const std::string& text, const char* value_name);

}  // namespace ridge::cli
