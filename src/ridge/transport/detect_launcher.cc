#include "ridge/transport/detect_launcher.h"

#include <array>

#include "ridge/base/string_util.h"

namespace ridge::transport {
namespace {

// Environment variables of each launcher. For srun these are the step's: a batch script has the job's but is no rank.
struct LauncherVariables {
  const char *name, *rank, *size, *local_size, *local_rank;
};
constexpr std::array launchers{
    LauncherVariables{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                      "OMPI_COMM_WORLD_LOCAL_RANK"},
    LauncherVariables{"MPICH's mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    LauncherVariables{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"},
    LauncherVariables{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
};

// Parses the integer at the start of a text: srun writes "4(x2)" for four ranks on each of two nodes.
std::optional<int> parse_leading_number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string all(text);
  const auto value = parse_whole_number(all.substr(0, all.find_first_of("(,")));
  if (!value || *value > (1 << 20)) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<Launcher> detect_launcher(const std::function<const char*(const char*)>& get_variable) {
  for (const LauncherVariables& one : launchers) {
    const auto rank = parse_leading_number(get_variable(one.rank)), size = parse_leading_number(get_variable(one.size));
    if (!rank || !size) continue;
    if (*size < 2 || *rank >= *size) return std::nullopt;
    const int reported_size = parse_leading_number(get_variable(one.local_size)).value_or(1);
    const int local_size = std::max(1, std::min(reported_size, *size));
    const int local_rank = parse_leading_number(get_variable(one.local_rank)).value_or(*rank % local_size);
    return Launcher{one.name, *rank, *size, local_size, std::min(local_rank, local_size - 1)};
  }
  return std::nullopt;
}

}  // namespace ridge::transport
