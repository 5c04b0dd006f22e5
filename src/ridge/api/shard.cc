// Shardings of programs on a mesh.
#include "ridge/api/resolve_request.h"

namespace ridge::api {

Result<ShardingReport> find_shardings(const Request& request, const ShardOptions& options) {
  RIDGE_TRY(resolved, resolve_request(request));
  return ridge::search_shardings(resolved.program, resolved.machine, request.dims, options);
}

Result<bool> is_sharded(const Request& request) {
  const auto resolved = load_without_machine(request);
  return resolved ? Result<bool>(!resolved->program.mesh.empty()) : resolved.error();
}

Result<MeshSizing> analyze_mesh_sizes(const Request& request, std::int64_t chips) {
  RIDGE_TRY(resolved, resolve_request(request));
  return ridge::solve_mesh_sizes(resolved.program, resolved.machine, request.dims, chips);
}

}  // namespace ridge::api
