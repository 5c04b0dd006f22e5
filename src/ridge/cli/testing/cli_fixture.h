// Runs the ridge binary in a temporary folder and captures its exit code, stdout and stderr.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "ridge/base/file.h"
#include "ridge/base/testing/temporary_folder.h"

namespace ridge {

namespace fs = std::filesystem;

struct ProcessResult {
  int code = -1;
  std::string out, err;
};

struct ProcessSetup {
  std::vector<std::string> environment = {};
  std::string input = {};
  std::string output = {};  // File for stdout; empty: it is captured
  bool is_stdout_closed = false;
  rlim_t max_memory_bytes = RLIM_INFINITY;  // Limit of the address space
};

class CliTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::string file(const std::string& name, std::string_view content) const {
    EXPECT_TRUE(write_file(path(name), content).ok());
    return path(name);
  }

  ProcessResult ridge(const std::vector<std::string>& arguments, const ProcessSetup& setup = {}) const {
    file(".in", setup.input);
    const std::string out = setup.output.empty() ? path(".out") : setup.output;
    int broken[2] = {-1, -1};
    if (setup.is_stdout_closed) {
      EXPECT_EQ(::pipe(broken), 0);
      ::close(broken[0]);
    }
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(path(".in").c_str(), O_RDONLY), 0);
      ::dup2(setup.is_stdout_closed ? broken[1] : ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      ::dup2(::open(path(".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      ::clearenv();
      ::setenv("XDG_DATA_HOME", folder.c_str(), 1);
      const rlimit limit{setup.max_memory_bytes, setup.max_memory_bytes};
      ::setrlimit(RLIMIT_AS, &limit);
      for (const std::string& variable : setup.environment) ::putenv(const_cast<char*>(variable.c_str()));
      std::vector<char*> argv{const_cast<char*>("ridge")};
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ::execv(RIDGE_BINARY, argv.data());
      ::_exit(127);
    }
    if (setup.is_stdout_closed) ::close(broken[1]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ProcessResult outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), "",
                          *read_file(path(".err"))};
    if (!setup.is_stdout_closed && setup.output.empty()) outcome.out = *read_file(out);
    return outcome;
  }

  // Expects this exit code, exactly `message` on stderr, and nothing on stdout. FOLDER in `message` is the test's
  // folder.
  void expect_rejected(const std::vector<std::string>& arguments, int code, std::string message) const {
    for (std::size_t at = message.find("FOLDER"); at != std::string::npos; at = message.find("FOLDER"))
      message.replace(at, 6, folder.string());
    const ProcessResult outcome = ridge(arguments);
    EXPECT_EQ(outcome.err, message) << fmt::format("{}", fmt::join(arguments, " "));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }

  const TemporaryFolder temporary;
  fs::path folder = temporary.path();
};

}  // namespace ridge
