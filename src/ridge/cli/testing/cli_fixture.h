// The real binary, run as a user runs it, in a folder of the test's own: what it printed, what it complained of and how
// it ended.
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

struct Outcome {
  int code = -1;
  std::string out, err;
};

struct RooflineContext {
  std::vector<std::string> environment = {};
  std::string input = {};
  std::string output = {};  // stdout goes to this file instead
  bool closed_pipe = false;
  rlim_t memory = RLIM_INFINITY;  // bytes of address space
};

class CliTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::string file(const std::string& name, std::string_view content) const {
    EXPECT_TRUE(write_file(path(name), content).ok());
    return path(name);
  }

  Outcome ridge(const std::vector<std::string>& arguments, const RooflineContext& setting = {}) const {
    file(".in", setting.input);
    const std::string out = setting.output.empty() ? path(".out") : setting.output;
    int broken[2] = {-1, -1};
    if (setting.closed_pipe) {
      EXPECT_EQ(::pipe(broken), 0);
      ::close(broken[0]);
    }
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(path(".in").c_str(), O_RDONLY), 0);
      ::dup2(setting.closed_pipe ? broken[1] : ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      ::dup2(::open(path(".err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
      ::clearenv();
      ::setenv("XDG_DATA_HOME", folder.c_str(), 1);
      const rlimit most{setting.memory, setting.memory};
      ::setrlimit(RLIMIT_AS, &most);
      for (const std::string& variable : setting.environment) ::putenv(const_cast<char*>(variable.c_str()));
      std::vector<char*> argv{const_cast<char*>("ridge")};
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ::execv(RIDGE_BINARY, argv.data());
      ::_exit(127);
    }
    if (setting.closed_pipe) ::close(broken[1]);
    int status = 0;
    ::waitpid(child, &status, 0);
    Outcome outcome{WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), "", *read_file(path(".err"))};
    if (!setting.closed_pipe && setting.output.empty()) outcome.out = *read_file(out);
    return outcome;
  }

  // Exit code, the whole of stderr, and nothing on stdout. FOLDER in `message` stands for the test's folder.
  void rejects(const std::vector<std::string>& arguments, int code, std::string message) const {
    for (std::size_t at = message.find("FOLDER"); at != std::string::npos; at = message.find("FOLDER"))
      message.replace(at, 6, folder.string());
    const Outcome outcome = ridge(arguments);
    EXPECT_EQ(outcome.err, message) << fmt::format("{}", fmt::join(arguments, " "));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }

  const TemporaryFolder temporary;
  fs::path folder = temporary.path();
};

}  // namespace ridge
