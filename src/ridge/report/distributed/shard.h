// Shardings, meshes and collectives as text and JSON.
#pragma once

#include <string>

#include "ridge/distributed/collective.h"
#include "ridge/distributed/mesh_sizing.h"
#include "ridge/distributed/shard.h"
#include "ridge/report/table.h"

namespace ridge {

std::string render_text(const ShardingReport& answer, const TextStyle& style = {});
std::string render_json(const ShardingReport& answer);  // "ridge.shard/1"
std::string render_text(const MeshSizing& open, const TextStyle& style = {});
std::string render_json(const MeshSizing& open);            // "ridge.meshes/1"
std::string render_json(const CollectiveTime& collective);  // "ridge.collective/1"

}  // namespace ridge
