// The verbs below `ridge simulate`, each in the file that its kind of machine has.
#pragma once

#include "ridge/cli/door.h"
#include "ridge/report/timeline.h"

namespace ridge::cli {

// Where a simulation is drawn: a page of SVG, and the JSON that Perfetto loads.
struct Pictures {
  std::string svg, trace;
  bool asked() const { return !svg.empty() || !trace.empty(); }
};
void add_pictures(CLI::App& verb, Pictures& pictures, const std::string& what);
// Writes what was asked for; the page is made only then.
Status draw(const Pictures& pictures, const std::function<std::string()>& page, const Timeline& timeline,
            const std::string& title);

void add_systolic(CLI::App& simulate, int& code);
void add_weights(CLI::App& simulate, int& code);
void add_metapipe(CLI::App& simulate, int& code);
void add_decode(CLI::App& simulate, int& code);
void add_kernel(CLI::App& simulate, int& code);

}  // namespace ridge::cli
