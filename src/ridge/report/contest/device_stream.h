// Report of `ridge bench stream --on cuda`: one line per kernel.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/measure/contest/device_stream.h"

namespace ridge {

std::string device_stream_text(const DeviceStream& contest);
nlohmann::ordered_json device_stream_json(const DeviceStream& contest);

}  // namespace ridge
