// What a user types, before it is understood: -d B=256, --dtype bf16, --split D=2, --link 4.5e10. Requests in the types
// of ridge.h are made of it. Errors, of kind usage: what is spelled otherwise.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/ridge.h"
#include "ridge/roofline/chain.h"

namespace ridge::cli {

// What stands between the options: NAME=VALUE without blanks is a size, one other word the program. Errors: two
// programs.
struct Words {
  std::string program;
  std::vector<std::string> dims;
};
Result<Words> sorted(const std::vector<std::string>& words, std::string_view verb);

struct Spelled {
  std::vector<std::string> words;       // a file, "-" or the text itself, and "B=256"
  std::string program;                  // of the words, once they are sorted
  std::string on = "cpu";               // a name of the catalog, a .toml file, "cpu" or "cuda"
  std::vector<std::string> dims;        // "B=256"
  std::string dtype = {};               // of tensors that name none; empty: bf16
  std::optional<double> flops, bytes;   // instead of a program
  bool plan = false;                    // explain: what would run there as well
  bool fuse = true;                     // false: one kernel a statement
  bool why = false;                     // what is lost above the roof, by its causes
  bool sustained = false;               // compute with the rates that real programs reach
  std::string library = {};             // whose kernels: "cublaslt"; else ridge's
  std::vector<std::string> split = {};  // "D=2": that dimension over two chips, one chip's part
  std::string weights = {};             // the dtype in which they are stored; empty: the program's
  std::vector<std::string> fused = {};  // "s,p,o": statements as one kernel
  std::int64_t layers = 1;              // of a model, each like the program
  std::string link = {};    // the machine's link by name, a rate one way in B/s, NAME=RATE; empty: its first
  std::string memory = {};  // where tensors live, likewise; empty: the machine's first
};
Status sort_words(Spelled& spelled, std::string_view verb);
// The machines of "h100,h200".
std::vector<std::string> names_in(const std::string& list);
Result<Request> understood(const Spelled& spelled);
// Of --flops and --bytes.
Result<BareWork> bare_work(const Spelled& spelled);
// The same for another machine, where `other` names one, or for another program.
Spelled other_than(Spelled spelled, const std::string& other);

struct SpelledSweep {
  std::vector<std::string> words;
  std::string program;
  std::vector<std::string> on = {"cpu"}, dtypes, dims;  // "B=1..4096:*2"
  std::string split = {};                               // "D=1,2,4"
  std::string link = {};
};
Result<SweepRequest> understood(const SpelledSweep& spelled);

Result<DType> dtype_named(const std::string& spelling);
// Each text is "cos=20".
Result<FunctionCosts> function_costs(const std::vector<std::string>& texts);

}  // namespace ridge::cli
