// Stubs of all CUDA functions for builds without CUDA. Each returns the error of device/device.cc that says so. They
// are compiled in place of the .cu files (CMakeLists.txt); a missing stub is a link error. Planning still works.
#include "ridge/device/device.h"
#include "ridge/device/peak.h"
#include "ridge/device/peers.h"
#include "ridge/device/run_generated.h"
#include "ridge/device/small_messages.h"
#include "ridge/device/stream.h"
#include "ridge/ops/attention/cuda.h"
#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/gated/cuda.h"
#include "ridge/ops/gated/gradient.h"
#include "ridge/ops/gated/input_gradient.h"
#include "ridge/ops/judge/cuda.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/routing/cuda.h"
#include "ridge/ops/rows/cuda.h"

namespace ridge::ops::cuda {
namespace {
Error absent() { return *refusal({}); }
}  // namespace

int current_device() { return -1; }
Status use_device(int) { return absent(); }
int multiprocessors() { return 0; }
int clusters_at_once_of_device(int) { return 0; }
std::optional<std::string> launch(const MatmulCall&, const MatmulPlan&, const Workspace&, CUstream_st*) {
  return absent().message;
}
std::optional<std::string> launch(const GatedCall&, const GatedPlan&, const Workspace&, CUstream_st*) {
  return absent().message;
}
std::optional<std::string> launch(const AttentionCall&, const AttentionPlan&, const Workspace&, CUstream_st*) {
  return absent().message;
}
std::optional<std::string> launch(const AttentionBackwardCall&, const AttentionBackwardPlan&, const Workspace&,
                                  CUstream_st*) {
  return absent().message;
}
std::optional<std::string> launch(const GatedGradient&, const Workspace&, CUstream_st*) { return absent().message; }
std::optional<std::string> launch(const InputGradient&, const InputGradientPlan&, CUstream_st*) {
  return absent().message;
}
std::optional<ConfigFacts> config_facts(int, DType) { return std::nullopt; }

DeviceAnswers ask_device() { return {}; }
Result<DeviceFacts> device_facts() { return absent(); }
Result<Memory> Memory::make(std::int64_t, Location) { return absent(); }
Result<Queue> Queue::make(Turn) { return absent(); }
Status Queue::copy(void*, const void*, std::int64_t) const { return absent(); }
Status Queue::copy_rows(const Rows&, const Rows&, std::int64_t, std::int64_t) const { return absent(); }
Status Queue::follow(const Queue&) const { return absent(); }
Status Queue::set(void*, int, std::int64_t) const { return absent(); }
Status Queue::fill_normal(void*, DType, std::int64_t, std::uint32_t) const { return absent(); }
Status Queue::wait() const { return absent(); }
Result<Recording> Queue::record(const std::function<Status()>&) const { return absent(); }
Status Queue::replay(const Recording&) const { return absent(); }
Result<double> Queue::elapsed(const std::function<Status()>&) const { return absent(); }

Status copy_on(CUstream_st*, void*, const void*, std::int64_t) { return absent(); }
Status clear_on(CUstream_st*, void*, std::int64_t) { return absent(); }
OutsideCapture::OutsideCapture() = default;
OutsideCapture::~OutsideCapture() = default;

Result<MemoryName> name_of(const Memory&) { return absent(); }
Result<PeerMemory> PeerMemory::open(const MemoryName&) { return absent(); }
Status ring(const Queue&, std::span<Bell* const>) { return absent(); }
Status hear(const Queue&, std::span<Bell* const>) { return absent(); }
Status ring_then_hear(const Queue&, std::span<Bell* const>, std::span<const Heard>) { return absent(); }
std::int64_t SmallRoom::bytes() const { return data_bytes(); }
Status send_small(const Queue&, const SmallRoom&, const SmallMessage&) { return absent(); }

std::optional<std::string> interpreted() { return absent().message; }
std::optional<std::string> refuse(const ChainProgram&) { return absent().message; }
std::optional<std::string> refuse(const RowProblem&) { return absent().message; }
std::optional<std::string> refuse(const RowProgram&) { return absent().message; }
std::optional<std::string> refuse(const ReduceProblem&) { return absent().message; }
std::optional<std::string> chain(const ChainProgram&, std::span<void* const>, CUstream_st*) { return absent().message; }
std::size_t workspace_bytes(const RowProblem&) { return 0; }
std::optional<std::string> rows(const RowProblem&, const RowData&, const Workspace&, CUstream_st*) {
  return absent().message;
}
std::optional<std::string> rows(const RowProgram&, std::span<void* const>, CUstream_st*) { return absent().message; }
std::size_t workspace_bytes(const ReduceProblem&) { return 0; }
std::optional<std::string> reduce(const ReduceProblem&, const void*, void*, const Workspace&, CUstream_st*) {
  return absent().message;
}

std::optional<std::string> routed_rows(const RoutedRows&, std::span<void* const>, CUstream_st*) {
  return absent().message;
}

std::optional<std::string> read_all(const Streamed&, int, CUstream_st*) { return absent().message; }
std::optional<std::string> write_all(const Streamed&, int, CUstream_st*) { return absent().message; }
std::optional<std::string> copy_all(const Streamed&, int, CUstream_st*) { return absent().message; }
std::optional<std::string> multiply_add(int, int, CUstream_st*) { return absent().message; }
std::optional<std::string> judge_samples(const JudgedProduct&, const void*, Comparison*, CUstream_st*) {
  return absent().message;
}
std::optional<std::string> judge_all(const JudgedProduct&, const void*, const void*, Comparison*, CUstream_st*) {
  return absent().message;
}
std::optional<std::string> nothing(CUstream_st*) { return absent().message; }

}  // namespace ridge::ops::cuda
