// ridge bench matmul: ours against the libraries, in one run.
#include <fmt/format.h>

#include "ridge/base/file.h"
#include "ridge/cli/door.h"

namespace ridge::cli {

void add_bench(CLI::App& app, int& code) {
  struct Options {
    std::string what = "matmul", shapes = "data/cpu_shapes.csv";
    std::vector<std::string> against = {"openblas", "onednn"};
    int threads = 1, rounds = 7;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("bench", "Time products beside other libraries, in one run");
  verb->footer("Examples:\n  ridge bench matmul --against openblas,onednn --shapes data/cpu_shapes.csv --threads 2\n");
  verb->add_option("what", options->what, "What to time")->check(CLI::IsMember({"matmul"}))->required();
  verb->add_option("--against", options->against, "Libraries: openblas, onednn")->delimiter(',');
  verb->add_option("--shapes", options->shapes, "CSV with the columns op,dtype,m,n,k and optionally out");
  verb->add_option("--threads", options->threads, "Threads")->check(CLI::Range(1, 1024));
  verb->add_option("--rounds", options->rounds, "Turns that everybody gets at every shape")->check(CLI::Range(1, 1000));
  verb->add_flag("--json", options->json, "JSON on stdout");
  verb->callback([options, &code] {
    const auto bar = progress_bar();
    const auto result =
        bench({.shapes = options->shapes,
               .libraries = options->against,
               .threads = options->threads,
               .rounds = options->rounds,
               .json = options->json},
              [&](std::size_t done, std::size_t of) {
                if (bar)
                  bar(static_cast<double>(done) / static_cast<double>(of), fmt::format("shape {} of {}", done, of));
              });
    end_progress();
    code = result ? print(*result) : fail(result.error());
  });
}

}  // namespace ridge::cli
