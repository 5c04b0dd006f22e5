// Programs on a mesh, and collectives by themselves.
#include "ridge/api/task.h"

namespace ridge::api {

Result<ShardAnswer> shard(const Request& request, const ShardOptions& options) {
  const auto task = understood(request);
  if (!task) return task.error();
  return ridge::shard(task->program, task->machine, request.dims, options);
}

Result<bool> is_sharded(const Request& request) {
  const auto task = read(request);
  return task ? Result<bool>(!task->program.mesh.empty()) : task.error();
}

Result<OpenMesh> open_mesh(const Request& request, std::int64_t chips) {
  const auto task = understood(request);
  if (!task) return task.error();
  return ridge::open_mesh(task->program, task->machine, request.dims, chips);
}

}  // namespace ridge::api
