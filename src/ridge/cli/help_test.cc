// Help pages of every verb, and hints for wrong machines and rates.
#include <sstream>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

const std::string matmul = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";

// Every verb with a help page, as the words of the command line.
const std::vector<std::vector<std::string>> verb_paths{{},
                                                       {"explain"},
                                                       {"run"},
                                                       {"advise"},
                                                       {"sweep"},
                                                       {"shard"},
                                                       {"simulate"},
                                                       {"simulate", "systolic"},
                                                       {"simulate", "weights"},
                                                       {"simulate", "metapipe"},
                                                       {"simulate", "decode"},
                                                       {"simulate", "kernel"},
                                                       {"model"},
                                                       {"trace"},
                                                       {"probe"},
                                                       {"calibrate"},
                                                       {"bench"},
                                                       {"kernels"},
                                                       {"machines"},
                                                       {"completion"},
                                                       {"man"}};

std::vector<std::string> concat(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Returns the lines after the examples, which are never broken.
std::vector<std::string> body_lines(const std::string& page) {
  const std::size_t start = page.starts_with("Examples:") ? page.find("\n\n") + 2 : 0;
  std::istringstream text(page.substr(start));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

TEST_F(CliTest, HelpIsTheSameByVerbAndByOption) {
  for (const auto& path : verb_paths) {
    const ProcessResult by_verb = ridge(concat({"help"}, path)), by_option = ridge(concat(path, {"--help"}));
    EXPECT_EQ(by_verb.out, by_option.out);
    EXPECT_EQ(by_verb.code, 0) << by_verb.err;
    EXPECT_NE(by_verb.out.find("Usage: ridge"), std::string::npos);
  }
}

TEST_F(CliTest, HelpFitsTheWidthAndHasNoLibraryTerms) {
  for (const auto& path : verb_paths)
    for (const std::size_t width : {60u, 80u}) {
      const std::string page = ridge(concat(path, {"--help"}), {.environment = {fmt::format("COLUMNS={}", width)}}).out;
      for (const std::string& line : body_lines(page)) EXPECT_LE(line.size(), width) << line;
      for (const char* term : {"Excludes", "Needs", "TEXT", "INT", "FLOAT", "REQUIRED", "{", "OPTIONS", "SUBCOMMAND"})
        EXPECT_EQ(page.substr(page.find("Usage:")).find(term), std::string::npos) << term << " in\n" << page;
    }
}

TEST_F(CliTest, HelpGroupsOptions) {
  const auto headings = [&](const std::string& verb) {
    std::string out;
    for (const std::string& line : body_lines(ridge({verb, "--help"}).out))
      if (line.ends_with(':') && line.find(' ') != 0 && line.find("  ") == std::string::npos) out += line;
    return out;
  };
  EXPECT_NE(ridge({"help", "shard"})
                .out.find("  --collective PATTERN  Predict a single collective, without a PROGRAM:\n"
                          "                        all-gather, reduce-scatter, all-reduce, all-to-all,\n"),
            std::string::npos);
  EXPECT_EQ(headings("explain"), "Program:Machine:What if:Kernel plan:What to show:Output:");
  EXPECT_EQ(headings("run"), "Program:Machine:Timing:Kernels:Several processes:Output:");
  EXPECT_EQ(headings("sweep"), "Program:Machine:What if:Rate of a product:Output:");
  EXPECT_EQ(headings("shard"), "Program:Machine:Chips:A single collective:Output:");
  EXPECT_EQ(headings("advise"), "Program:Machine:Advice:Output:");
  EXPECT_EQ(headings("simulate"), "Program:Machine:Mapping:Output:Verbs:");
  EXPECT_EQ(headings("model"), "Model:Machines:Layouts:Serving:Speculative decoding:Images:Training:Program:Output:");
  EXPECT_EQ(headings("trace"), "Trace:Machine:What to show:Output:");
  EXPECT_EQ(headings("calibrate"), "Timings:Machine:Output:");
  EXPECT_EQ(headings("bench"), "Every benchmark:matmul:stream:repeats:plans:Output:");
  EXPECT_EQ(ridge({"help", "completion"}).out,
            "Examples:\n  eval \"$(ridge completion bash)\"\n\n"
            "Print the completion script for bash, zsh or fish.\n"
            "Usage: ridge completion [options] SHELL\n\n"
            "Options:\n"
            "  SHELL                 Shell: bash, zsh or fish (required)\n"
            "  -h, --help            Print this page\n");
  const std::string explain = ridge({"help", "explain"}).out;
  for (const char* entry : {"  PROGRAM ...           A file, - for", "  --library ridge|cublaslt\n",
                            "  --on MACHINE          Machine: a catalog name, a .toml file, cuda, or cpu\n"
                            "                        (default)\n"})
    EXPECT_NE(explain.find(entry), std::string::npos) << entry;
}

// A reader of one entry knows what happens without the option.
TEST_F(CliTest, HelpOfModelNamesEveryDefault) {
  const std::string page = ridge({"model", "--help"}, {.environment = {"COLUMNS=0"}}).out;
  std::string entry, name;
  int checked = 0;
  const auto check = [&] {
    constexpr std::string_view formats = "--json --csv --md --schema -h, --help";
    if (!name.empty() && formats.find(name) == std::string_view::npos) {
      EXPECT_TRUE(entry.find("(default:") != std::string::npos || entry.find(", which needs it: ") != std::string::npos)
          << entry;
      ++checked;
    }
    entry.clear();
    name.clear();
  };
  for (const std::string& line : body_lines(page)) {
    if (line.starts_with("  -")) {
      check();
      name = line.substr(2, line.find(' ', 2) - 2);
    }
    if (!line.starts_with(' ') && line.ends_with(':')) check();
    entry += line + " ";
  }
  check();
  EXPECT_GT(checked, 30);
}

TEST_F(CliTest, HelpSuggestsTheNearestVerb) {
  const std::string verbs =
      "explain, run, advise, sweep, shard, simulate, model, trace, probe, calibrate, bench, kernels, machines, "
      "help, completion or man";
  expect_rejected({"help", "rnu"}, 2, "ridge: unknown verb 'rnu'; expected " + verbs + "\n  hint: did you mean run?\n");
  expect_rejected({"hlep"}, 2, "ridge: unknown verb 'hlep'; expected " + verbs + "\n  hint: did you mean help?\n");
  expect_rejected({"help", "simulate", "systolc"}, 2,
                  "ridge: unknown verb 'simulate systolc'; expected systolic, weights, metapipe, decode or kernel\n"
                  "  hint: did you mean systolic?\n");
  expect_rejected({"help", "run", "fast"}, 2,
                  "ridge: unknown verb 'run fast'; run has no verbs\n  hint: ridge help run\n");
  const ProcessResult none = ridge({});
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err,
            ridge({"help"}).out + "\nridge: expected a verb: " + verbs + "; found none\n  hint: ridge --help\n");
}

TEST_F(CliTest, CompletionAndManualHaveGroupsAndNoLibraryTerms) {
  const std::string page = ridge({"man"}).out, bash = ridge({"completion", "bash"}).out;
  for (const char* text : {".SS What if\n", ".SS Kernel plan\n", "\\fB\\-\\-library\\fR \\fIridge|cublaslt\\fR",
                           "\\fBCOLUMNS\\fR", ".SH HELP\n"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  for (const char* term : {"TEXT", "{8}", ":{", "\\fIINT"}) EXPECT_EQ(page.find(term), std::string::npos) << term;
  EXPECT_NE(bash.find("    'help') words='explain run advise"), std::string::npos);
  EXPECT_NE(ridge({"completion", "fish"}).out.find("'__fish_seen_subcommand_from help' -a explain -d "),
            std::string::npos);
  EXPECT_NE(bash.find("    'explain --library') words='ridge cublaslt' ;;"), std::string::npos);
}

TEST_F(CliTest, SuggestsMachinesByPrefix) {
  const std::string unknown = "; expected a name of the catalog, a .toml file, cpu or cuda\n  hint: ",
                    list = "? `ridge machines` lists the catalog\n";
  expect_rejected(
      {"explain", matmul, "--on", "A100"}, 4,
      "ridge: unknown machine 'A100'" + unknown + "did you mean a100_40, a100_80, a100_pcie_40, a100_pcie_80" + list);
  expect_rejected({"explain", matmul, "--on", "gpu"}, 4,
                  "ridge: unknown machine 'gpu'" + unknown +
                      "the catalog has the GPUs a100_40, a100_80, a100_pcie_40, a100_pcie_80, b200, gb200, h100, "
                      "h100_pcie, h200, l4, l40s, mi100, mi210, mi250x, mi300x, mi325x, mi355x, p100, p4, rtx4090, t4, "
                      "v100, v100_pcie; cuda is the GPU of this computer; `ridge machines` lists all\n");
  expect_rejected({"machines", "4090"}, 4, "ridge: unknown machine '4090'" + unknown + "did you mean rtx4090" + list);
  expect_rejected({"machines", "h100_sxm"}, 4,
                  "ridge: unknown machine 'h100_sxm'" + unknown + "did you mean h100" + list);
  EXPECT_EQ(ridge({"explain", matmul, "--on", "h100, h200"}).out, ridge({"explain", matmul, "--on", "h100,h200"}).out);
  EXPECT_EQ(ridge({"explain", matmul, "--on", "h100,H100,h200"}).out,
            ridge({"explain", matmul, "--on", "h100,h200"}).out);
}

TEST_F(CliTest, SuggestsRatesWithTheirUnit) {
  const std::vector<std::string> sent{"explain", matmul, "--on", "h200", "--split", "D=2", "--link"};
  expect_rejected(concat(sent, {"450"}), 2,
                  "ridge: expected at least 1e6 B/s after --link, found '450'\n"
                  "  hint: did you mean 450e9 (450.0 GB/s)?\n");
  expect_rejected(concat(sent, {"nvlink=450"}), 2,
                  "ridge: expected at least 1e6 B/s after --link, found '450'\n"
                  "  hint: did you mean 450e9 (450.0 GB/s)?\n");
  expect_rejected(concat(sent, {"100000"}), 2,
                  "ridge: expected at least 1e6 B/s after --link, found '100000'\n"
                  "  hint: --link 450e9 or --link 450GB/s\n");
  expect_rejected(concat(sent, {"450Gb/s"}), 2,
                  "ridge: expected a rate in B/s after --link, found '450Gb/s'\n"
                  "  hint: --link 450e9 or --link 450GB/s\n");
  expect_rejected({"explain", matmul, "--on", "h200", "--memory", "3350"}, 2,
                  "ridge: expected at least 1e6 B/s after --memory, found '3350'\n"
                  "  hint: did you mean 3350e9 (3.350 TB/s)?\n");
  expect_rejected({"explain", matmul, "--on", "h200", "--memory", "4.8"}, 2,
                  "ridge: expected at least 1e6 B/s after --memory, found '4.8'\n"
                  "  hint: did you mean 4.8e12 (4.800 TB/s)?\n");
  expect_rejected({"explain", "--flops", "1e12", "--bytes", "1e9", "--on", "h200", "--memory", "3350"}, 2,
                  "ridge: expected at least 1e6 B/s after --memory, found '3350'\n"
                  "  hint: did you mean 3350e9 (3.350 TB/s)?\n");
  expect_rejected({"sweep", matmul, "--on", "h200", "--split", "D=2", "--link", "450", "B=1", "D=2", "F=1"}, 2,
                  "ridge: expected at least 1e6 B/s after --link, found '450'\n"
                  "  hint: did you mean 450e9 (450.0 GB/s)?\n");
}

TEST_F(CliTest, AcceptsRatesWithUnits) {
  const auto linked = [&](const std::string& rate) {
    return ridge({"explain", matmul, "--on", "h200", "--split", "D=2", "--link", rate}).out;
  };
  EXPECT_NE(linked("450e9").find("450.0 GB/s"), std::string::npos);
  for (const char* rate : {"450GB/s", "450 GB/s", "0.45TB/s", "450000MB/s", "4.5e11B/s"})
    EXPECT_EQ(linked(rate), linked("450e9")) << rate;
  EXPECT_EQ(linked("nvlink=20GB/s"), linked("nvlink=20e9"));
  const auto in_memory = [&](const std::string& rate) {
    return ridge({"explain", matmul, "--on", "h200", "--memory", rate}).out;
  };
  EXPECT_EQ(in_memory("3350GB/s"), in_memory("3.35e12"));
  EXPECT_NE(in_memory("3350GB/s"), in_memory("hbm"));
}

}  // namespace
}  // namespace ridge
