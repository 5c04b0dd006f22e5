// The verbs of `ridge simulate`, grouped by kind of machine.
#pragma once

#include "ridge/cli/output.h"
#include "ridge/report/timeline.h"

namespace ridge::cli {

// Files to draw a simulation into: an SVG picture and a Perfetto trace.
struct PictureFiles {
  std::string svg, trace;
  bool is_requested() const { return !svg.empty() || !trace.empty(); }
};
void add_picture_options(CLI::App& verb, PictureFiles& pictures, const std::string& what);
// Writes the requested files; `page` is called only if the SVG is requested.
Status write_pictures(const PictureFiles& pictures, const std::function<std::string()>& page, const Timeline& timeline,
                      const std::string& title);

void add_systolic(CLI::App& simulate, int& code);
void add_weight_loading(CLI::App& simulate, int& code);
void add_metapipe(CLI::App& simulate, int& code);
void add_decode(CLI::App& simulate, int& code);
void add_kernel_timeline(CLI::App& simulate, int& code);

}  // namespace ridge::cli
