#include "ridge/transport/launcher.h"

#include <array>

#include "ridge/base/text.h"

namespace ridge::transport {
namespace {

// Environment variables of each launcher. For srun these are the step's: a batch script has the job's but is no rank.
struct Known {
  const char *name, *rank, *size, *neighbours, *local_rank;
};
constexpr std::array known{
    Known{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
          "OMPI_COMM_WORLD_LOCAL_RANK"},
    Known{"MPICH's mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
    Known{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"},
    Known{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
};

// Parses the integer at the start of a text: srun writes "4(x2)" for four ranks on each of two nodes.
std::optional<int> number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string all(text);
  const auto value = whole_number(all.substr(0, all.find_first_of("(,")));
  if (!value || *value > (1 << 20)) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::optional<Launcher> launcher_of(const std::function<const char*(const char*)>& variable) {
  for (const Known& one : known) {
    const auto rank = number(variable(one.rank)), size = number(variable(one.size));
    if (!rank || !size) continue;
    if (*size < 2 || *rank >= *size) return std::nullopt;
    const int neighbours = number(variable(one.neighbours)).value_or(1);
    const int here = std::max(1, std::min(neighbours, *size));
    const int local_rank = number(variable(one.local_rank)).value_or(*rank % here);
    return Launcher{one.name, *rank, *size, here, std::min(local_rank, here - 1)};
  }
  return std::nullopt;
}

}  // namespace ridge::transport
