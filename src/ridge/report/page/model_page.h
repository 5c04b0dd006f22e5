// The page of a language model (docs/page.md): sliders for batch and context, lists of chips, formats and machines. The
// answer, the times of the modules, the roofline, the memory and the front of throughput and latency follow, because
// the page holds the counts as formulas (plan/model/step_formulas.h). One file that loads nothing else.
#pragma once

#include <string>
#include <vector>

#include "ridge/model/count.h"
#include "ridge/plan/model/machine.h"
#include "ridge/plan/model/step_formulas.h"

namespace ridge {

struct ModelPage {
  model::ModelCount count;
  ModelRequest request;
  std::vector<ModelOnMachine> answers = {};  // Answers of the requested machines; one at least has numbers
  ModelFormulas formulas = {};
  std::vector<Machine> machines = {};  // The requested machines, then others to select from
};

// Returns the page. Without scripts it shows the text of the command line.
std::string render_page(const ModelPage& page);

// Returns the data that the page evaluates, "ridge.model_page/1".
std::string model_page_data(const ModelPage& page);

}  // namespace ridge
