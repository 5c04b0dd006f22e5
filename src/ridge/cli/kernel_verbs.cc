#include "ridge/cli/kernel_verbs.h"

#include <memory>

#include "ridge/cli/help.h"
#include "ridge/cli/option_checks.h"

namespace ridge::cli {
namespace {

void add_ranks_options(CLI::App& verb, RunArgs& args) {
  verb.add_option("--ranks", args.ranks.ranks,
                  "Run on this many processes of this machine; an unsharded program gets the best sharding of "
                  "`ridge shard`")
      ->type_name("P")
      ->check(whole_number_between(1, 256));
  verb.add_option("--mesh", args.ranks.mesh, "Run with one rank for each device of this mesh")->type_name("X=2,Y=2");
  verb.add_flag("--spread", args.ranks.distribute_evenly,
                "With --ranks, for a single product: distribute each tensor evenly, without copies, on the best grid "
                "p1 x p2 x p3");
  verb.add_flag("--in-turn", args.ranks.no_overlap,
                "With --ranks or --mesh and --on cuda: never overlap products with communication");
  verb.add_option("--trace", args.trace,
                  "With --ranks or --mesh: write a trace of the last pass for ui.perfetto.dev, one track for each rank")
      ->type_name("FILE.json");
  verb.add_option("--patience", args.timeout,
                  "With --ranks or --mesh: timeout of a rank that waits for another rank (default: 2 min)")
      ->type_name("TIME");
}

}  // namespace

static void add_data_and_timing_options(CLI::App& verb, RunArgs& args) {
  add_repeated_option(
      verb, "--in", args.in,
      "Read an input from this file; other inputs are random: normal, weights divided by the square root of "
      "the summed extent",
      "TENSOR=FILE.npy");
  add_repeated_option(verb, "--out", args.out, "Write a result into this file", "TENSOR=FILE.npy");
  verb.add_option("--seed", args.seed, "Seed of the random inputs (default 0)")->type_name("N");
  verb.add_option("--threads", args.run_request.threads, "Number of threads (default: every core this process may use)")
      ->type_name("N")
      ->check(whole_number_between(1, 4096));
  verb.add_option("--runs", args.run_request.passes,
                  "Number of runs (default: at least five and 0.2 s); on cuda, replays of each graph")
      ->type_name("N")
      ->check(whole_number_between(1, 1'000'000));
  verb.add_option("--time", args.time, "Minimum duration: 2s, 500ms")->type_name("TIME");
  verb.add_option("--against", args.against,
                  "Also run this program, alternating with the first, and report the ratio of times")
      ->type_name("PROGRAM");
}

void add_run(CLI::App& app, int& code) {
  auto args = std::make_shared<RunArgs>();
  CLI::App* verb = app.add_subcommand(
      "run", "Run a program on this CPU or a CUDA device, time it and check its results against fp64");
  verb->footer(
      "Examples:\n"
      "  ridge run examples/mlp.ridge --svg mlp.svg\n"
      "  ridge run examples/mlp.ridge B=16 --time 2s\n"
      "  ridge run examples/dot.ridge --against 'x * y: f32[N], f32[N] -> f32[1]' N=1000000\n"
      "  ridge run examples/mlp.ridge --ranks 4 B=64\n"
      "  ridge run $'x: bf16[B, D_X]   w: bf16[D_X, F]\\ny: bf16[B, F] = x * w' --mesh X=4 B=64 D=4096 F=4096\n"
      "  ridge run examples/mlp.ridge --on cuda\n"
      "  ridge run examples/mlp.ridge --on cuda --tune\n"
      "  ridge run examples/geglu.ridge -d N=256 --threads 1 --json\n"
      "  ridge run 'f32[M, K] * f32[K, N] -> f32[M, N]' -d M=512 -d N=512 -d K=512 --in X=a.npy --out Z=z.npy\n");
  args->verb = verb;
  add_request_options(*verb, args->request_args);
  add_data_and_timing_options(*verb, *args);
  const auto* tune = verb->add_flag("--tune{8}", args->tune,
                                    "On cuda: measure the N best plans of each product by the cost model and cache the "
                                    "fastest for later runs; "
                                    "--tune=0: use the cost model's choices, not the cache")
                         ->type_name("[=N]")
                         ->check(whole_number_between(0, 1000));
  add_ranks_options(*verb, *args);
  verb->add_flag("--why", args->request_args.explain_overhead,
                 "Attribute each operation's time above its bound to causes");
  add_no_fuse_option(*verb, args->request_args);
  add_output_options(*verb, args->output);
  group_options(*verb, {{"Program", "PROGRAM -d --dtype --in --out --seed"},
                        {"Machine", "--on --threads"},
                        {"Timing", "--runs --time --against --why"},
                        {"Kernels", "--tune --no-fuse"},
                        {"Several processes", "--ranks --mesh --spread --in-turn --trace --patience"}});
  verb->callback([args, tune, &code] {
    args->is_tune_given = tune->count() > 0;
    code = exit_code_of(run_program(*args));
  });
}

void add_advise(CLI::App& app, int& code) {
  auto args = std::make_shared<AdviseArgs>();
  CLI::App* verb = app.add_subcommand("advise", "Suggest changes that make a program faster, with predicted gains");
  verb->footer(
      "Examples:\n"
      "  ridge advise examples/mlp.ridge B=1\n"
      "  ridge advise examples/mlp.ridge B=1 --confirm\n"
      "  ridge advise examples/mlp.ridge --on h200 B=16 --json\n");
  args->verb = verb;
  add_request_options(*verb, args->request_args);
  add_no_fuse_option(*verb, args->request_args);
  verb->add_flag("--confirm", args->confirm,
                 "Run each suggestion on this computer and compare its gain with the prediction");
  verb->add_option("--runs", args->run_request.passes, "With --confirm: number of runs of each program")
      ->type_name("N")
      ->check(whole_number_between(1, 1'000'000));
  verb->add_option("--threads", args->run_request.threads, "With --confirm: number of threads (default: every core)")
      ->type_name("N")
      ->check(whole_number_between(1, 4096));
  add_format_options(*verb, args->format, "ridge.advice/1");
  group_options(
      *verb,
      {{"Program", "PROGRAM -d --dtype"}, {"Machine", "--on"}, {"Advice", "--no-fuse --confirm --runs --threads"}});
  verb->callback([args, &code] { code = exit_code_of(run_advise(*args)); });
}

void add_probe(CLI::App& app, int& code) {
  auto args = std::make_shared<ProbeArgs>();
  CLI::App* verb =
      app.add_subcommand("probe", "Measure the peaks and bandwidths of this machine in less than a minute");
  verb->footer("Examples:\n  ridge probe\n  ridge probe --on cuda --json\n");
  verb->add_option("--on", args->on, "Device to measure: cpu (default) or cuda")
      ->type_name("DEVICE")
      ->check(one_of({"cpu", "cuda"}));
  add_format_options(*verb, args->format, "ridge.probe/1");
  verb->callback([args, &code] { code = exit_code_of(run_probe(*args)); });
}

static Result<int> run_calibrate_verb(CalibrateArgs& args) {
  if (!args.serving.empty()) return run_serving_fit(args);
  if (args.on.empty()) return usage_error("expected --on, found none", "ridge calibrate --help");
  return run_calibrate(args);
}

void add_calibrate(CLI::App& app, int& code) {
  auto args = std::make_shared<CalibrateArgs>();
  CLI::App* verb =
      app.add_subcommand("calibrate", "Fit a library's parameters on a machine to timings, or this CPU's to a run");
  args->verb = verb;
  verb->footer(
      "Examples:\n"
      "  ridge calibrate --on cpu\n"
      "  ridge calibrate timings.csv --on h200\n"
      "  ridge calibrate timings.csv --on a100_80 --column a100_us --out my_a100.toml\n"
      "  ridge explain examples/mlp.ridge --on my_a100.toml --plan --library cublaslt\n"
      "  ridge calibrate --serving points.csv --out serving.csv\n");
  verb->add_option(
      "FILE", args->request.path,
      "CSV with a time and the columns m, n, k; or batch, heads, key_heads, rows (or keys), width; or rows, "
      "row_bytes; and optionally dtype and batch. Without FILE, this CPU is timed");
  verb->add_option("--on", args->on, "Machine: a catalog name or a .toml file")->type_name("MACHINE");
  verb->add_option("--dtype", args->dtype, "Dtype of the lines to use (default bf16, which includes f16)")
      ->type_name("DTYPE");
  verb->add_option("--column", args->request.column, "Column of times: NAME_s in seconds, other names in microseconds")
      ->type_name("NAME");
  verb->add_option("--source", args->request.source, "Provenance of the timings (default: the file name)")
      ->type_name("SOURCE");
  verb->add_option("--serving", args->serving, "Fit the constants of served times to this CSV of measured points")
      ->type_name("FILE.csv");
  verb->add_option("--out", args->request.out, "Write the machine, or the constants of served times, into this file")
      ->type_name("FILE");
  verb->add_option("--points", args->request.points, "Write the held-out kernels with measured and predicted times")
      ->type_name("FILE.csv");
  add_format_options(*verb, args->format, "ridge.calibration/1");
  group_options(
      *verb,
      {{"Timings", "FILE --dtype --column --source --serving"}, {"Machine", "--on"}, {"Output", "--out --points"}});
  verb->callback([args, &code] { code = exit_code_of(run_calibrate_verb(*args)); });
}

static void add_product_benchmark_options(CLI::App& verb, BenchArgs& args) {
  verb.add_option("--against", args.options.libraries,
                  "Libraries: openblas, mkl, onednn, torch; or cublaslt on a CUDA device")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--shapes", args.options.shapes,
                  "CSV with the columns op,dtype,m,n,k and optionally out and weights (default: 60 built-in shapes)")
      ->type_name("FILE.csv");
  verb.add_option(
          "--tune", args.options.tuned_candidates,
          "On a CUDA device: also time this many of the cost model's best plans and report the gain of the fastest")
      ->type_name("N")
      ->check(whole_number_between(1, 100));
}
static void add_vector_benchmark_options(CLI::App& verb, BenchArgs& args) {
  verb.add_option("--only", args.options.only_kernel,
                  "stream: the kernel to time (rmsnorm, softmax, affine, gelu, cosines, "
                  "compiled_affine, compiled_gelu; on cuda also silu_gate, cos_1, cos_4, cos_16, cos_64)")
      ->type_name("KERNEL");
  verb.add_option("--on", args.on, "stream, repeats, plans: cpu or cuda")->check(one_of({"cpu", "cuda"}));
  verb.add_option("--most", args.options.max_repeats, "repeats: largest number of cosines (default 256; on cuda 1024)")
      ->type_name("N")
      ->check(whole_number_between(1, 4096));
  verb.add_option("--elements", args.options.elements, "repeats: elements of the vector (default 2^24; on cuda 2^28)")
      ->type_name("N")
      ->check(whole_number_between(1, std::int64_t{1} << 32));
}
static void add_plan_timing_options(CLI::App& verb, BenchArgs& args) {
  verb.add_option("--seconds", args.plans.seconds,
                  "plans: stop starting products after this many seconds (default 400)")
      ->type_name("SECONDS")
      ->check(number_between(1.0, 1e6));
  verb.add_option("--plans", args.plans.plans_per_product,
                  "plans: plans to time of each product; half are the cost model's best (default 40)")
      ->type_name("N")
      ->check(whole_number_between(2, 1000));
  verb.add_option("--skip", args.plans.skip, "plans: skip this many products, which an earlier run has timed")
      ->type_name("N");
}

void add_bench(CLI::App& app, int& code) {
  auto args = std::make_shared<BenchArgs>();
  CLI::App* verb =
      app.add_subcommand("bench", "Compare products with other libraries, or kernels with the memory bandwidth");
  verb->footer(
      "Examples:\n  ridge bench matmul --against openblas,onednn --threads 2\n"
      "  ridge bench matmul --against cublaslt --shapes shapes.csv --json\n"
      "  ridge bench stream --threads 1 --only softmax\n"
      "  ridge bench stream --on cuda --json\n"
      "  ridge bench repeats --on cuda --svg repeats.svg\n"
      "  ridge bench plans --on cuda --shapes data/matmul_fit_shapes.csv --seconds 400 > timings.csv\n");
  args->verb = verb;
  verb->add_option("WHAT", args->what, "Benchmark: matmul, stream, repeats or plans")
      ->check(one_of({"matmul", "stream", "repeats", "plans"}))
      ->required();
  verb->add_option("--threads", args->options.threads, "Number of threads")
      ->type_name("N")
      ->check(whole_number_between(1, 1024));
  verb->add_option("--rounds", args->options.rounds, "Measurements of each library at each shape")
      ->type_name("N")
      ->check(whole_number_between(1, 1000));
  add_product_benchmark_options(*verb, *args);
  add_vector_benchmark_options(*verb, *args);
  add_plan_timing_options(*verb, *args);
  add_format_options(*verb, args->format, "ridge.benchmark/1");
  verb->add_option("--svg", args->svg, "repeats: plot time, FLOP/s and bytes/s into this file")->type_name("FILE");
  group_options(*verb, {{"Every benchmark", "WHAT --on --threads --rounds"},
                        {"matmul", "--against --shapes --tune"},
                        {"stream", "--only"},
                        {"repeats", "--most --elements --svg"},
                        {"plans", "--seconds --plans --skip"}});
  verb->callback([args, &code] { code = exit_code_of(run_bench(*args)); });
}

void add_kernels(CLI::App& app, int& code) {
  auto args = std::make_shared<KernelsArgs>();
  CLI::App* verb = app.add_subcommand("kernels", "List the CUDA kernels of the planner, or print the code of one");
  verb->footer(
      "Examples:\n  ridge kernels\n  ridge kernels sm90_128x192x64 --json\n"
      "  ridge kernels sm90_128x192x64_pingpong --sass | less\n"
      "  ridge kernels sm90_128x192x64_pingpong --ptx --dtype f16\n");
  verb->add_option("NAME", args->name, "Name of a kernel, or part of it")->type_name("");
  auto* sass = verb->add_flag("--sass", args->sass, "Print its machine code (needs the CUDA toolkit's cuobjdump)");
  verb->add_flag("--ptx", args->ptx, "Print its PTX (needs the CUDA toolkit's cuobjdump)")->excludes(sass);
  verb->add_option("--dtype", args->dtype, "With --sass or --ptx: dtype of the kernel, bf16 (default) or f16")
      ->type_name("DTYPE");
  add_format_options(*verb, args->format, "ridge.kernels/2");
  verb->callback([args, &code] { code = exit_code_of(run_kernels(*args)); });
}

}  // namespace ridge::cli
