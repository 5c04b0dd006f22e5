// Loops that do one thing as fast as a CUDA device can: what `probe` times there. Queued on the caller's stream; a
// sentence if the driver refuses. Nothing waits. All of them use `blocks` blocks of 512 threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

struct CUstream_st;

namespace ridge::ops::cuda {

struct Streamed {  // device memory at multiples of 16 bytes; the size too
  void* to = nullptr;
  const void* from = nullptr;
  std::int64_t bytes = 0;
  int times = 1;  // read_all: within one launch, past the L1
};
std::optional<std::string> read_all(const Streamed& x, int blocks, CUstream_st* stream);  // `to`: 4 bytes
std::optional<std::string> write_all(const Streamed& x, int blocks, CUstream_st* stream);
std::optional<std::string> copy_all(const Streamed& x, int blocks, CUstream_st* stream);

// rounds * multiply_adds_a_round fused multiply-adds in f32 by every thread.
inline constexpr int multiply_adds_a_round = 128;
std::optional<std::string> multiply_add(int rounds, int blocks, CUstream_st* stream);
std::optional<std::string> nothing(CUstream_st* stream);  // an empty kernel

}  // namespace ridge::ops::cuda
