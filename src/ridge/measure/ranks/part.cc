#include "ridge/measure/ranks/part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ridge/base/text.h"
#include "ridge/device/run_generated.h"
#include "ridge/measure/device_machine.h"
#include "ridge/measure/device_steps.h"
#include "ridge/measure/inputs.h"
#include "ridge/measure/steps.h"
#include "ridge/measure/timer.h"
#include "ridge/plan/soonest.h"

namespace ridge::ranks {
namespace {

Bindings sizes_of(const Program& program) {
  Bindings out;
  for (const Dimension& dim : program.dims) out[dim.name] = static_cast<std::int64_t>(dim.value->real({}));
  return out;
}

// Fills the array with the identity of the reduction: 0, -inf or inf.
void fill_with_nothing(const Array& array, transport::Reduction how) {
  if (how == transport::Reduction::sum) {
    std::memset(array.data, 0, static_cast<std::size_t>(stored_bytes(array.dtype, array.elements)));
    return;
  }
  const float infinite = std::numeric_limits<float>::infinity();
  auto* const values = reinterpret_cast<float*>(array.data);  // partial results are f32
  std::fill_n(values, array.elements, how == transport::Reduction::max ? -infinite : infinite);
}

Error no_memory(std::int64_t bytes) {
  return input_error(fmt::format("the system refused {} of memory", engineering(static_cast<double>(bytes), "B")),
                     "give smaller dimensions with -d");
}

}  // namespace

Result<Plan> plan_part(const Program& program, const RunOptions& options) {
  const Bindings sizes = sizes_of(program);
  if (!options.cuda) return plan(program, sizes, {.target = Target::cpu, .fuse = options.fuse});
  const auto device = device_numbers_here();
  if (!device) return device.error();
  const FuseOptions how{.target = Target::cuda, .fuse = options.fuse, .generate = !ops::cuda::interpreted()};
  return soonest_plan(program, sizes, how, *device);
}

const Plan* Part::plan_of(std::size_t act) const {
  const auto* const compute = std::get_if<Compute>(&acts_.acts[act]);
  return compute == nullptr || compute->empty ? nullptr : &std::get<Ready>(ready_[act]).plan;
}

Result<Part> Part::make(const Program& program, const Bindings& sizes, const Device& device,
                        const RunOptions& options) {
  std::vector<int> wanted;
  for (const auto& [name, path] : options.out)
    if (const auto tensor = tensor_named(program, name)) wanted.push_back(*tensor);
  auto acts = acts_of(program, sizes, device, wanted);
  if (!acts) return acts.error();
  Part out;
  out.device_ = &device;
  out.acts_ = *std::move(acts);
  out.threads_ = options.threads;
  out.cuda_ = options.cuda;
  out.statements_ = program.statements.size();
  if (const Status planned = out.plan_all(options); !planned) return planned.error();
  out.find_stored(program);
  return out;
}

Status Part::plan_all(const RunOptions& options) {
  for (const auto& act : acts_.acts) {
    if (const auto* shift = std::get_if<Shift>(&act)) {
      const Slot& slot = acts_.slots[static_cast<std::size_t>(shift->from)];
      const Tensorial moved{slot.extents, slot.dtype, shift->how};
      ready_.emplace_back(Mover(Route(shift->move, moved, device_->mesh, device_->number)));
      continue;
    }
    const auto& compute = std::get<Compute>(act);
    Ready ready;
    if (!compute.empty) {
      auto made = plan_part(compute.program, options);
      if (!made) return made.error();
      for (const Step& step : made->steps)
        if (const auto why = options.cuda ? refuse_on_device(step) : refuse(step))
          return input_error(fmt::format("cannot run '{}': {}", compute.program.statements.front().text, *why));
      ready.plan = *std::move(made);
    }
    ready_.emplace_back(std::move(ready));
  }
  return Done{};
}

void Part::find_stored(const Program& program) {
  is_stored_.assign(acts_.slots.size(), false);
  for (std::size_t t = 0; t < program.tensors.size(); ++t)
    if (program.tensors[t].role == Role::input) is_stored_[t] = true;
  for (std::size_t i = 0; i < acts_.acts.size(); ++i) {
    if (const auto* shift = std::get_if<Shift>(&acts_.acts[i])) {
      is_stored_[static_cast<std::size_t>(shift->from)] = is_stored_[static_cast<std::size_t>(shift->to)] = true;
      continue;
    }
    const auto& compute = std::get<Compute>(acts_.acts[i]);
    const Plan& plan = std::get<Ready>(ready_[i]).plan;
    for (std::size_t t = 0; t < compute.slots.size(); ++t)
      if (compute.empty || plan.buffers[t].elements > 0) is_stored_[static_cast<std::size_t>(compute.slots[t])] = true;
  }
}

std::vector<int> Part::kernel_of_statements() const {
  std::vector<int> out(statements_, -1);
  for (std::size_t i = 0; i < acts_.acts.size(); ++i) {
    const auto* const compute = std::get_if<Compute>(&acts_.acts[i]);
    if (compute == nullptr || compute->empty) continue;
    for (const Group& group : std::get<Ready>(ready_[i]).plan.fusion.groups)
      for (const int s : group.statements)
        out[static_cast<std::size_t>(compute->statements[static_cast<std::size_t>(s)])] =
            compute->statements[static_cast<std::size_t>(group.statements.front())];
  }
  return out;
}

Block Part::block(int slot) const {
  const Slot& of = acts_.slots[static_cast<std::size_t>(slot)];
  return block_of(of.extents, of.layout, device_->mesh, device_->number);
}

std::int64_t Part::memory_bytes() const {
  std::int64_t out = 0;
  for (std::size_t s = 0; s < acts_.slots.size(); ++s)
    if (is_stored_[s]) out += stored_bytes(acts_.slots[s].dtype, words_in(block(static_cast<int>(s))));
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (const auto* mover = std::get_if<Mover>(&ready_[i])) {
      out += static_cast<std::int64_t>(mover->route().staging_bytes());
      continue;
    }
    const Plan& plan = std::get<Ready>(ready_[i]).plan;
    for (std::size_t b = std::get<Compute>(acts_.acts[i]).slots.size(); b < plan.buffers.size(); ++b)
      out += plan.buffers[b].bytes();
  }
  return out;
}

Status Part::allocate() {
  for (std::size_t s = 0; s < acts_.slots.size(); ++s) {
    storage_.emplace_back();
    if (!is_stored_[s]) continue;
    const std::int64_t elements = words_in(block(static_cast<int>(s)));
    storage_.back() = ArrayStorage::make(acts_.slots[s].dtype, elements);
    if (!storage_.back()) return no_memory(stored_bytes(acts_.slots[s].dtype, elements));
    poison(storage_.back()->array(), threads_);
  }
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    auto* const ready = std::get_if<Ready>(&ready_[i]);
    if (ready == nullptr) continue;
    const auto& compute = std::get<Compute>(acts_.acts[i]);
    if (compute.empty) put_nothing(compute);
    if (cuda_) continue;
    for (std::size_t b = compute.slots.size(); b < ready->plan.buffers.size(); ++b) {
      const Buffer& buffer = ready->plan.buffers[b];
      auto storage = ArrayStorage::make(buffer.dtype, buffer.elements);
      if (!storage) return no_memory(buffer.bytes());
      poison(storage->array(), threads_);
      if (buffer.counts) {
        const std::vector<float> counts = counts_of(buffer);
        std::copy(counts.begin(), counts.end(), reinterpret_cast<float*>(storage->array().data));
      }
      ready->copies.push_back(*std::move(storage));
    }
    bind(compute, *ready);
  }
  return Done{};
}

// The results of an empty step are the same in every pass, so they are written once: all its statements have the empty
// dimension, so that each result has no elements or is a reduction over none.
void Part::put_nothing(const Compute& compute) {
  for (const Statement& statement : compute.program.statements)
    fill_with_nothing(array(compute.slots[static_cast<std::size_t>(statement.result())]), compute.how);
}

void Part::bind(const Compute& compute, Ready& ready) {
  const auto memory_of = [&](int buffer) -> void* {
    if (buffer < 0) return nullptr;
    const auto b = static_cast<std::size_t>(buffer);
    if (b >= compute.slots.size()) return ready.copies[b - compute.slots.size()].array().data;
    return lies_in_memory(compute.slots[b]) ? array(compute.slots[b]).data : nullptr;
  };
  for (const Step& step : ready.plan.steps) {
    ready.data.emplace_back();
    for (const int buffer : step.buffers) ready.data.back().push_back(memory_of(buffer));
  }
}

Status Part::fill(const Program& program, const std::function<Status(int tensor, const Array& whole)>& whole) {
  for (std::size_t t = 0; t < program.tensors.size(); ++t) {
    if (program.tensors[t].role != Role::input) continue;
    const Slot& slot = acts_.slots[t];
    const Block all = block_of(slot.extents, {.cut = std::vector<std::string>(slot.extents.size())}, {}, 0);
    const Block mine = block(static_cast<int>(t));
    const bool is_whole = words_in(all) == words_in(mine);
    auto memory = is_whole ? std::nullopt : ArrayStorage::make(slot.dtype, words_in(all));
    if (!is_whole && !memory) return no_memory(stored_bytes(slot.dtype, words_in(all)));
    const Array to = array(static_cast<int>(t));
    if (const Status filled = whole(static_cast<int>(t), is_whole ? to : memory->array()); !filled) return filled;
    if (!is_whole) pack(memory->array().data, all, mine, bits(slot.dtype) / 8, to.data);
  }
  return Done{};
}

void Part::compute(std::size_t act, PassTimes& times) {
  const auto& compute = std::get<Compute>(acts_.acts[act]);
  if (compute.empty) return;
  const Ready& ready = std::get<Ready>(ready_[act]);
  for (std::size_t i = 0; i < ready.plan.steps.size(); ++i) {
    const Step& step = ready.plan.steps[i];
    const Timer timer;
    ridge::perform(step, ready.data[i], threads_);
    const int local = ready.plan.fusion.groups[static_cast<std::size_t>(step.group)].statements.front();
    const double seconds = timer.seconds();
    times.statements[static_cast<std::size_t>(compute.statements[static_cast<std::size_t>(local)])] += seconds;
    times.compute_s += seconds;
  }
}

// The barrier separates waiting for slower ranks from network time.
Status Part::move(std::size_t act, transport::Ranks& ranks, const Timer& since, PassTimes& times) {
  const auto& shift = std::get<Shift>(acts_.acts[act]);
  PassTimes::Span& span = times.acts[act];
  if (const Status here = transport::barrier(ranks); !here) return here;
  span.begin = since.seconds();
  const Status moved = std::get<Mover>(ready_[act]).perform(ranks, array(shift.from).data, array(shift.to).data);
  span.end = since.seconds();
  times.wait_s += span.begin - span.wait;
  times.statements[static_cast<std::size_t>(shift.statement)] += span.end - span.begin;
  times.network_s += span.end - span.begin;
  return moved;
}

Result<PassTimes> Part::pass(transport::Ranks& ranks) {
  PassTimes out{.statements = std::vector<double>(statements_)};
  out.acts.resize(acts_.acts.size());
  if (const Status here = transport::barrier(ranks); !here) return here.error();
  const Timer timer;
  for (std::size_t i = 0; i < acts_.acts.size(); ++i) {
    out.acts[i].wait = out.acts[i].begin = timer.seconds();
    if (std::holds_alternative<Compute>(acts_.acts[i])) {
      compute(i, out);
      out.acts[i].end = timer.seconds();
    } else if (const Status moved = move(i, ranks, timer, out); !moved) {
      return moved.error();
    }
  }
  out.wall_s = timer.seconds();
  return out;
}

std::int64_t Part::words_sent() const {
  std::int64_t out = 0;
  for (const auto& ready : ready_)
    if (const auto* mover = std::get_if<Mover>(&ready)) out += mover->route().words_sent();
  return out;
}

std::vector<std::string> Part::copies() const {
  std::vector<std::string> out;
  for (const auto& ready : ready_)
    if (const auto* one = std::get_if<Ready>(&ready))
      for (const Step& step : one->plan.steps)
        if (!step.copy.empty()) out.push_back(step.copy);
  return out;
}

}  // namespace ridge::ranks
