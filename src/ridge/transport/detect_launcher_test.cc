#include "ridge/transport/launch_ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "ridge/transport/mpi.h"

namespace ridge::transport {
namespace {

using Variables = std::map<std::string, std::string>;

std::string describe_launcher(const Variables& variables) {
  const auto found = detect_launcher([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
  return found ? fmt::format("{}: {} of {}, {} of {} here", found->name, found->rank, found->size, found->local_rank,
                             found->local_size)
               : "none";
}

TEST(Launcher, is_detected_from_environment_variables) {
  EXPECT_EQ(describe_launcher({}), "none");
  EXPECT_EQ(describe_launcher(
                {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
            "mpirun: 3 of 4, 1 of 2 here");
  EXPECT_EQ(describe_launcher({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}),
            "torchrun: 3 of 4, 0 of 2 here");
  EXPECT_EQ(describe_launcher({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), "MPICH's mpiexec: 0 of 2, 0 of 1 here");
  EXPECT_EQ(
      describe_launcher({{"SLURM_PROCID", "7"}, {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}}),
      "srun: 7 of 8, 3 of 4 here");
  EXPECT_EQ(describe_launcher({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}}),
            "torchrun: 1 of 2, 1 of 2 here");
  // A batch script has the job's variables and is no rank; one rank alone is an ordinary run.
  EXPECT_EQ(describe_launcher({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}), "none");
  EXPECT_EQ(describe_launcher({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}), "none");
}

TEST(Launcher, inconsistent_variables_give_none) {
  EXPECT_EQ(describe_launcher({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "none");
  EXPECT_EQ(describe_launcher({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), "none");
  EXPECT_EQ(describe_launcher({{"RANK", "one"}, {"WORLD_SIZE", "2"}}), "none");
  EXPECT_EQ(describe_launcher({{"RANK", "0"}, {"WORLD_SIZE", "99999999999999999999"}}), "none");
  EXPECT_EQ(describe_launcher({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "0"}}),
            "torchrun: 0 of 2, 0 of 1 here");
}

constexpr const char* install_hint =
    "install Open MPI (on Debian: apt install openmpi-bin), or name its library in RIDGE_MPI; on one machine --ranks "
    "needs no MPI";

TEST(Launcher, other_MPI_libraries_are_rejected) {
  const auto found = connect_mpi({"mpirun", 0, 2, 2}, {.library_path = RIDGE_NOT_OPEN_MPI});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error(),
            absent_error(std::string(RIDGE_NOT_OPEN_MPI) +
                             " is MPICH Version: 4.0.2, whose binary interface differs; expected Open MPI",
                         install_hint));
}

TEST(Launcher, a_missing_library_gives_an_install_hint) {
  const auto none = connect_mpi({"mpirun", 0, 2, 2}, {.library_path = "/nowhere/libmpi.so"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error(), absent_error("MPI was not found: /nowhere/libmpi.so: cannot open shared object file: No such "
                                       "file or directory",
                                       install_hint));
  const auto other = connect_mpi({"mpirun", 0, 2, 2}, {.library_path = "libm.so.6"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error(), absent_error("libm.so.6 is no MPI library", install_hint));
}

}  // namespace
}  // namespace ridge::transport
