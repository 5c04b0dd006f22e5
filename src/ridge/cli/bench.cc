// ridge bench: products against the libraries, what hardly computes against the memory, and one kernel against many,
// each in one run.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"
#include "ridge/measure/contest/bench.h"
#include "ridge/measure/contest/time_plans.h"
#include "ridge/report/contest/contest.h"
#include "ridge/report/contest/device_contest.h"
#include "ridge/report/contest/device_stream.h"
#include "ridge/report/contest/repeats.h"
#include "ridge/report/contest/stream_contest.h"

namespace ridge::cli {
namespace {

struct Bench {
  std::string what = "matmul", shapes;
  ContestOptions options;
  std::string only, on = "cpu";
  int tune = 0;
  int rounds = 0;  // 0: as many as the contest's own default
  RepeatsOptions repeats;
  TimePlansOptions plans;
  std::string svg;
  OutputForm form;
  const CLI::App* verb = nullptr;
};

int perform_stream(const Bench& asked) {
  StreamOptions options{.threads = asked.options.threads, .only = asked.only};
  if (asked.rounds > 0) options.rounds = asked.rounds;
  options.progress = [bar = progress_bar()](std::size_t done, std::size_t of) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(of), fmt::format("{} of {} kernels", done, of));
  };
  const auto contest = stream_contest(options);
  end_progress();
  if (!contest) return fail(contest.error());
  return print(asked.form, stream_text(*contest), stream_json(*contest).dump(1) + "\n", "rows");
}

int perform_device_stream(const Bench& asked) {
  DeviceStreamOptions options{.only = asked.only};
  if (asked.rounds > 0) options.rounds = asked.rounds;
  options.progress = [bar = progress_bar()](std::size_t done, std::size_t of) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(of), fmt::format("{} of {} kernels", done, of));
  };
  const auto contest = device_stream(options);
  end_progress();
  if (!contest) return fail(contest.error());
  return print(asked.form, device_stream_text(*contest), device_stream_json(*contest).dump(1) + "\n", "rows");
}

int perform_repeats(const Bench& asked) {
  RepeatsOptions options = asked.repeats;
  options.cuda = where(asked.on) == Where::cuda;
  options.threads = asked.options.threads;
  if (asked.rounds > 0) options.rounds = asked.rounds;
  options.progress = [bar = progress_bar()](std::size_t done, std::size_t of) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(of), fmt::format("{} of {} repeats", done, of));
  };
  const auto figure = repeats(options);
  end_progress();
  if (!figure) return fail(figure.error());
  if (!asked.svg.empty())
    if (const Status written = write_file(asked.svg, repeats_svg(*figure)); !written) return fail(written.error());
  return print(asked.form, repeats_text(*figure), repeats_json(*figure).dump(1) + "\n", "rows");
}

int perform_device(const Bench& asked) {
  if (asked.options.libraries.size() > 1)
    return fail(
        usage_error("expected cublaslt alone after --against: it runs on a CUDA device, the others on this CPU"));
  DeviceContestOptions options{.tune = asked.tune};
  if (asked.rounds > 0) options.rounds = asked.rounds;
  options.progress = asked.options.progress;
  const auto contest = bench_device(asked.shapes, options);
  end_progress();
  if (!contest) return fail(contest.error());
  const int code = print(asked.form, device_contest_text(*contest), device_contest_json(*contest), "rows");
  const auto wrong =
      std::find_if(contest->rows.begin(), contest->rows.end(), [](const auto& row) { return !row.right; });
  if (code != 0 || wrong == contest->rows.end()) return code;
  return fail({.kind = ErrorKind::mismatch, .message = fmt::format("ridge is wrong at {}", wrong->shape.text())});
}

// CSV alone, line by line: what was timed when somebody stops it is there.
int perform_plans(const Bench& asked) {
  if (asked.shapes.empty() || asked.form.json || where(asked.on) != Where::cuda)
    return fail(usage_error("expected --on cuda and --shapes with plans, and no --json: it writes CSV",
                            "ridge bench plans --on cuda --shapes FILE.csv > timings.csv"));
  const auto shapes = read_shapes(asked.shapes, Contested::device);
  if (!shapes) return fail(shapes.error());
  const auto device = timed_device();
  if (!device) return fail(device.error());
  const auto write = [](const std::string& text) {
    fmt::print("{}", text);
    std::fflush(stdout);
  };
  write(timings_header(*device));
  TimePlansOptions options = asked.plans;
  options.timed = [&, bar = progress_bar()](const TimedProduct& product, std::size_t done, std::size_t of) {
    write(timings_line(product));
    if (bar) bar(static_cast<double>(done) / static_cast<double>(of), fmt::format("{} of {} shapes", done, of));
  };
  const Status timed = time_plans(*shapes, options);
  end_progress();
  return timed ? 0 : fail(timed.error());
}

// What each contest takes beside its name.
std::string_view takes(const std::string& what) {
  if (what == "plans") return "--shapes --on --seconds --plans --skip";
  if (what == "repeats") return "--on --threads --rounds --most --elements --svg --json --csv --md";
  if (what == "stream") return "--on --threads --rounds --only --json --csv --md";
  return "--against --shapes --threads --rounds --tune --json --csv --md";
}

int perform(Bench& asked) {
  if (const auto refused = refuse_beside(*asked.verb, asked.what, takes(asked.what))) return fail(*refused);
  if (asked.what == "plans") return perform_plans(asked);
  if (asked.what == "repeats") return perform_repeats(asked);
  if (asked.what == "stream")
    return where(asked.on) == Where::cuda ? perform_device_stream(asked) : perform_stream(asked);
  if (asked.rounds > 0) asked.options.rounds = asked.rounds;
  asked.options.progress = [bar = progress_bar()](std::size_t done, std::size_t of) {
    if (bar) bar(static_cast<double>(done) / static_cast<double>(of), fmt::format("{} of {} shapes", done, of));
  };
  const std::vector<std::string>& libraries = asked.options.libraries;
  if (std::find(libraries.begin(), libraries.end(), "cublaslt") != libraries.end()) return perform_device(asked);
  const auto contest = bench(asked.shapes, asked.options);
  end_progress();
  if (!contest) return fail(contest.error());
  return print(asked.form, contest_text(*contest), contest_json(*contest), "rows");
}

}  // namespace

void add_bench(CLI::App& app, int& code) {
  auto asked = std::make_shared<Bench>();
  CLI::App* verb =
      app.add_subcommand("bench", "Time products beside other libraries, or kernels beside the memory, in one run");
  verb->footer(
      "Examples:\n  ridge bench matmul --against openblas,onednn --threads 2\n"
      "  ridge bench matmul --against cublaslt --shapes shapes.csv --json\n"
      "  ridge bench stream --threads 1 --only softmax\n"
      "  ridge bench stream --on cuda --json\n"
      "  ridge bench repeats --on cuda --svg repeats.svg\n"
      "  ridge bench plans --on cuda --shapes data/matmul_fit_shapes.csv --seconds 400 > timings.csv\n");
  asked->verb = verb;
  verb->add_option("WHAT", asked->what, "What to time")
      ->check(one_of({"matmul", "stream", "repeats", "plans"}))
      ->required();
  verb->add_option("--against", asked->options.libraries,
                   "Libraries: openblas, onednn, torch; or cublaslt, on a CUDA device")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option(
      "--shapes", asked->shapes,
      "CSV with the columns op,dtype,m,n,k and optionally out and weights (default: 60 shapes that come with ridge)");
  verb->add_option("--threads", asked->options.threads, "Threads")->check(whole_number(1, 1024));
  verb->add_option("--rounds", asked->rounds, "Turns that everybody gets at every shape")->check(whole_number(1, 1000));
  verb->add_option("--tune", asked->tune,
                   "On a CUDA device: time that many of the model's best plans too, and say what the fastest gains")
      ->check(whole_number(1, 100));
  verb->add_option("--only", asked->only,
                   "stream: the kernel to time (rmsnorm, softmax, affine, gelu, cosines, "
                   "compiled_affine, compiled_gelu; on cuda also silu_gate, cos_1, cos_4, cos_16, cos_64)");
  verb->add_option("--on", asked->on, "stream, repeats, plans: cpu or cuda")->check(one_of({"cpu", "cuda"}));
  verb->add_option("--most", asked->repeats.most, "repeats: up to so many cosines (default 256; on cuda 1024)")
      ->check(whole_number(1, 4096));
  verb->add_option("--elements", asked->repeats.elements, "repeats: of the vector (default 2^24; on cuda 2^28)")
      ->check(whole_number(1, std::int64_t{1} << 32));
  verb->add_option("--seconds", asked->plans.seconds, "plans: begin no product after so many (default 400)")
      ->check(number(1.0, 1e6));
  verb->add_option("--plans", asked->plans.plans, "plans: of each product, half of them the model's best (default 40)")
      ->check(whole_number(2, 1000));
  verb->add_option("--skip", asked->plans.skip, "plans: so many products, which an earlier run has timed");
  add_form(*verb, asked->form,
           "ridge.contest/1, ridge.stream/2, ridge.repeats/1, ridge.device_contest/2 or ridge.device_stream/1");
  verb->add_option("--svg", asked->svg, "repeats: draw time, FLOP/s and bytes/s into this file")->type_name("FILE");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
