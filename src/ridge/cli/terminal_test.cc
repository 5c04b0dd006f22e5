// Output on a terminal: escape sequences and the width of tables.
#include <pty.h>

#include <sstream>

#include "ridge/base/string_util.h"
#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

class TerminalTest : public CliTest {
 protected:
  // Runs ridge on a pseudo terminal and returns what it prints on stdout and stderr.
  std::string on_terminal(const std::vector<std::string>& arguments, unsigned short columns,
                          const std::vector<std::string>& environment) const {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    int terminal = -1;
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      ::clearenv();
      ::setenv("XDG_DATA_HOME", folder.c_str(), 1);
      for (const std::string& variable : environment) ::putenv(const_cast<char*>(variable.c_str()));
      std::vector<char*> argv{const_cast<char*>("ridge")};
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ::execv(RIDGE_BINARY, argv.data());
      ::_exit(127);
    }
    std::string out;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(terminal, buffer, sizeof buffer)) > 0;) out.append(buffer, buffer + got);
    ::close(terminal);
    int status = 0;
    ::waitpid(child, &status, 0);
    return out;
  }
};

const std::string examples = std::string(RIDGE_SOURCE_DIR) + "/examples/";

// One command of each verb that ends within a second.
const std::vector<std::vector<std::string>> commands{
    {"explain", examples + "mlp.ridge", "--on", "h200", "B=64"},
    {"explain", examples + "mlp.ridge", "--on", "h200", "B=64", "--plan"},
    {"explain", examples + "mlp.ridge", "--on", "h100,h200", "B=64"},
    {"explain", examples + "mlp.ridge", "--on", "h100", "--against", "h200"},
    {"explain", examples + "mlp.ridge", "--on", "h200", "--lines", "64"},
    {"sweep", examples + "mlp.ridge", "--on", "h100,h200", "B=1..512"},
    {"shard", examples + "mlp.ridge", "--chips", "8", "--on", "h200", "B=4096"},
    {"simulate", examples + "mlp.ridge", "--on", "sn40l", "B=64"},
    {"simulate", "decode"},
    {"simulate", "weights"},
    {"advise", examples + "mlp.ridge", "--on", "h200", "B=1"},
    {"run", "f32[M, K] * f32[K, N] -> f32[M, N]", "M=64", "K=64", "N=64"},
    {"kernels"},
    {"machines"},
    {"machines", "h200"},
    {"help"},
    {"explian"},
    {"model", "gemma_2_2b", "--context", "8192"},
    {"trace", examples + "trace.json", "--on", "h200"},
    {"explain", examples + "mlp.onnx", "--on", "h200", "batch=8"},
};

bool has_escapes(const std::string& text) {
  for (std::size_t at = text.find('\r'); at != std::string::npos; at = text.find('\r', at + 1))
    if (at + 1 == text.size() || text[at + 1] != '\n') return true;  // A terminal writes \r\n for \n
  return text.find('\x1b') != std::string::npos || text.find('\b') != std::string::npos;
}

TEST_F(TerminalTest, NoColorAndDumbTerminalsGetNoEscapeSequence) {
  for (const auto& command : commands)
    for (const char* variable : {"NO_COLOR=1", "TERM=dumb"}) {
      const std::string out = on_terminal(command, 80, {variable});
      EXPECT_NE(out, "");
      EXPECT_FALSE(has_escapes(out)) << variable << " " << fmt::format("{}", fmt::join(command, " ")) << "\n" << out;
    }
  const std::string with_bar = on_terminal(commands[11], 80, {"TERM=xterm"});
  EXPECT_NE(with_bar.find("\r\x1b[K["), std::string::npos) << "a progress bar, else this test shows nothing";
}

// Returns the longest line of the tables: lines with two neighboring blanks between words, without prose.
std::size_t longest_table_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    while (line.ends_with('\r')) line.pop_back();
    longest = std::max(longest, count_characters(line));
  }
  return longest;
}

TEST_F(TerminalTest, TablesFitTheTerminal) {
  const std::vector<std::vector<std::string>> tables{
      {"machines"},
      {"machines", "h200"},
      {"explain", examples + "mlp.ridge", "--on", "h100", "--against", "h200"},
      {"explain", examples + "mlp.ridge", "--on", "h200", "--lines", "64"},
      {"explain", examples + "mlp.ridge", "--on", "h200", "--tile", "128x128"},
      {"explain", examples + "softmax.ridge", "--on", "h200", "--chain"},
      {"sweep", examples + "mlp.ridge", "--on", "h100,h200", "B=1..64:*2"},
      {"simulate", "metapipe", examples + "matmul.pipe"},
  };
  for (const auto& command : tables)
    for (const unsigned short width : {std::uint16_t{60}, std::uint16_t{80}}) {
      const std::string on_screen = on_terminal(command, width, {"NO_COLOR=1"});
      EXPECT_LE(longest_table_line(on_screen), width) << on_screen;
      std::string in_pipe = ridge(command, {.environment = {fmt::format("COLUMNS={}", width)}}).out;
      for (std::size_t at = 0; (at = in_pipe.find('\n', at)) != std::string::npos; at += 2) in_pipe.insert(at, "\r");
      EXPECT_EQ(in_pipe, on_screen) << "COLUMNS has the same effect in a pipe";
    }
}

TEST_F(TerminalTest, APipeHasNoLimitUnlessColumnsIsSet) {
  const std::vector<std::string> command{"machines"};
  const std::string whole = ridge(command).out;
  EXPECT_GE(longest_table_line(whole), 98u);  // The width of the catalog; the row of this CPU may be longer
  for (const char* columns : {"COLUMNS=0", "COLUMNS=200", "COLUMNS=", "COLUMNS=wide"})
    EXPECT_EQ(ridge(command, {.environment = {columns}}).out, whole) << columns;
  EXPECT_EQ(on_terminal(command, 60, {"NO_COLOR=1", "COLUMNS=0"}).size(),
            whole.size() + static_cast<std::size_t>(std::count(whole.begin(), whole.end(), '\n')));
  const std::string narrow = ridge(command, {.environment = {"COLUMNS=60"}}).out;
  EXPECT_TRUE(narrow.ends_with("\n(left out: size, ridge, title; --csv or COLUMNS=0 shows all)\n")) << narrow;
  EXPECT_EQ(ridge({"machines", "--csv"}, {.environment = {"COLUMNS=60"}}).out, ridge({"machines", "--csv"}).out);
  EXPECT_EQ(ridge({"machines", "--md"}, {.environment = {"COLUMNS=60"}}).out, ridge({"machines", "--md"}).out);
}

TEST_F(TerminalTest, EveryReportLeavesOutColumns) {
  for (const auto& command : commands) {
    if (command[0] == "help" || command[0] == "explian" || command[0] == "advise") continue;
    std::istringstream all(ridge(command, {.environment = {"COLUMNS=60"}}).out);
    for (std::string line; std::getline(all, line);) {
      const bool is_prose = line.find("; ") != std::string::npos || line.starts_with(' ');
      const bool is_row = !is_prose && line.find("   ") != std::string::npos;
      EXPECT_TRUE(!is_row || count_characters(line) <= 60) << command[0] << ": " << line;
    }
  }
}

}  // namespace
}  // namespace ridge
