// The facade: what the command line and other programs use. A Request is what a user says, a Report what he gets.
//   auto report = ridge::explain(ridge::Request{.program = "bf16[B, D] * bf16[D, F] -> bf16[B, F]", .on = "tpu_v5e"});
//   std::cout << (report ? ridge::render_text(*report) : report.error().text());
#pragma once

#include <functional>

#include "ridge/base/version.h"
#include "ridge/ops/product/machine_code.h"
#include "ridge/plan/as_metapipe.h"
#include "ridge/plan/decode.h"
#include "ridge/report/report.h"
#include "ridge/roofline/chain.h"
#include "ridge/roofline/lines.h"
#include "ridge/roofline/sweep.h"
#include "ridge/simulate/request.h"

namespace ridge {

struct Request {
  std::string program;                 // a file, "-" or the text itself
  std::string on = "cpu";              // a name of the catalog, a .toml file, "cpu" or "cuda"
  std::vector<std::string> dims;       // "B=256"
  std::string dtype = "bf16";          // of tensors that name none
  std::optional<double> flops, bytes;  // instead of a program
  bool plan = false;                   // explain: what would run there as well
  bool fuse = true;                    // false: one kernel a statement
  Library library = Library::ridge;    // whose kernels
  std::string split = {};              // "D=2": that dimension over two chips, one chip's part
  std::string link = {};               // the machine's link by name, or its rate one way in B/s; empty: its first
};

// Errors: of the program (its place), of the machine, of a dimension, of a dtype.
Result<Report> explain(const Request& request);
// The same request for another machine, where `other` names one, or for another program.
Request other_request(Request request, const std::string& other);
// The tensors' cache lines, read in tiles of some columns ("x=13"); chains fused and unfused ("cos=20").
Result<std::vector<OperandLines>> lines(const Request& request, const LinesRequest& tiles,
                                        const std::vector<std::string>& leading);
Result<std::vector<Chain>> chains(const Request& request, const std::vector<std::string>& costs);

struct SweepRequest {
  std::string program;
  std::vector<std::string> on = {"cpu"}, dtypes = {"bf16"}, dims;  // "B=1..4096:*2"
  std::string split = {};  // "D=1,2,4": that dimension over so many chips, one chip's part
  std::string link = {};   // as a Request's
};
Result<Sweep> sweep(const SweepRequest& request, const std::function<void(double)>& done = {});
// One report for each row of a CSV file of dimension values; a row's value goes before the request's.
Result<std::vector<Report>> explain_table(const Request& request, const std::string& csv_path);

// Runs it on this CPU or a CUDA device; `measured` holds the times, and the first mismatch if there is one.
Result<Report> run(const Request& request, const RunOptions& options);

// A product on a systolic array, or a topology's layers. With `csv_path`: a run for each row of M, N, K and, where the
// array changes too, R and C; what a row lacks is the request's.
Result<std::vector<SystolicRun>> simulate(const SystolicRequest& request, const std::string& csv_path = "");

// A program's statements as stages of a dataflow chip (plasticine, sn10, sn40l); a token of Llama-3.1-8B on `on`.
Result<MappedProgram> simulate(const Request& request, const MappingOptions& options);
Result<DecodeReport> decode(const std::string& on, const DecodeOptions& options);

// The CUDA kernels that a plan chooses from whose name contains this. Error: none does.
Result<std::vector<MenuEntry>> kernel_menu(const std::string& name = "");
// One of them with its machine code or PTX; `dtype`: "bf16" or "f16". Errors: none or several are called so, no tool
// that reads this binary (ops/product/machine_code.h).
Result<KernelCode> kernel_code(const std::string& name, ops::cuda::RowText what, const std::string& dtype);

// `names` empty: the whole catalog and this CPU, whose spoilt file is then no error but a warning beside the others.
struct Catalog {
  std::vector<Machine> machines;
  std::vector<Error> warnings;
};
Result<Catalog> machines(const std::vector<std::string>& names);

}  // namespace ridge
