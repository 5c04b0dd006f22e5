// ridge sweep: one program at many sizes, on several machines, in several dtypes.
#include <memory>

#include "ridge/base/file.h"
#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"
#include "ridge/report/sweep.h"

namespace ridge::cli {
namespace {

struct Asked {
  SpelledSweep spelled;
  OutputForm form;
  std::string svg, html;
  bool stripes = false;
  api::StripesRequest how;
  const CLI::App* verb = nullptr;
};

std::string rendered(const Sweep& sweep, const OutputForm& form) {
  if (form.json) return render_json(sweep);
  if (form.csv) return render_csv(sweep);
  return form.md ? render_markdown(sweep) : render_text(sweep, style());
}

int in_stripes(const Asked& asked, const SweepRequest& request) {
  if (const auto refused =
          refuse_beside(*asked.verb, "--stripes", "-d --on --dtype --tile --measure --svg --json --csv --md"))
    return fail(*refused);
  const auto found = api::stripes(request, asked.how);
  if (!found) return fail(found.error());
  const Status drawn = write_if_asked(asked.svg, [&] { return render_svg(*found); });
  if (!drawn) return fail(drawn.error());
  return print(asked.form, render_text(*found), render_json(*found), "sizes");
}

int perform(Asked& asked) {
  const auto words = sorted(asked.spelled.words, "sweep");
  if (!words) return fail(words.error());
  asked.spelled.program = words->program;
  asked.spelled.dims.insert(asked.spelled.dims.end(), words->dims.begin(), words->dims.end());
  auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  if (asked.stripes) return in_stripes(asked, *request);
  if (const auto refused = refuse_without(*asked.verb, "--tile --measure", "--stripes")) return fail(*refused);
  request->curves = !asked.svg.empty() || !asked.html.empty();
  const auto bar = progress_bar();
  const auto swept = sweep(*request, bar ? [&](double done) { bar(done, "sweep"); } : std::function<void(double)>());
  end_progress();
  if (!swept) return fail(swept.error());
  const Status drawn = write_if_asked(asked.svg, [&] { return render_svg(*swept); });
  if (!drawn) return fail(drawn.error());
  const Status page = write_page(asked.html, [&] { return api::page_of(*request, *swept); });
  return page ? print(rendered(*swept, asked.form)) : fail(page.error());
}

}  // namespace

void add_sweep(CLI::App& app, int& code) {
  auto asked = std::make_shared<Asked>();
  CLI::App* verb =
      app.add_subcommand("sweep", "The same at many sizes, on several machines: where the limiter changes");
  verb->footer(
      "Examples:\n"
      "  ridge sweep 'bf16[B, D] * bf16[D, F] -> bf16[B, F]' --on tpu_v5e,h100 -d B=1..4096:*2 D=8192 F=8192\n"
      "  ridge sweep examples/mlp.ridge --on h100,h200,b200 -d B=1..1024 --csv\n"
      "  ridge sweep 'A[B, D] * W[D, F] -> C[B, F]' --on h100 --dtype bf16,int8 -d B=1..4096:*2 D=4096 F=4096 --svg "
      "s.svg\n"
      "  ridge sweep 'bf16[N, K] * bf16[K, N2] -> bf16[N, N2]' --stripes --on a100_40 -d N=1664..1920:32 K=1792 "
      "N2=1792 "
      "--tile 256x128\n");
  SpelledSweep& r = asked->spelled;
  add_words(*verb, r.words);
  verb->add_option("--on", r.on, "Machines: catalog names, .toml files, or cpu (default)")
      ->type_name("A,B,C")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("-d", r.dims, "A dimension's values: B=256, B=1,8,64, B=1..4096:*2, B=128..512:128; may be repeated")
      ->type_name("NAME=VALUES")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--dtype", r.dtypes, "Dtypes of tensors that name none (default bf16)")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--split", r.split, "Cut a dimension over chips: D=2, D=1,2,4, D=1..16:*2; numbers are one chip's")
      ->type_name("NAME=CHIPS");
  verb->add_option("--link", r.link, "Link between them: a name, or B/s one way (default: the first)")
      ->type_name("LINK");
  verb->add_flag("--stripes", asked->stripes, "A product's rate along one dimension, and where tiles and waves begin");
  verb->add_option_function<std::string>(
          "--tile",
          [asked](const std::string& tile) {
            asked->how.tile = tile;
            asked->how.is_tile_given = true;
          },
          "With --stripes: tiles of this many rows and columns (default: the plan's; 256x128 where there is no "
          "planner)")
      ->type_name("ROWSxCOLUMNS");
  verb->add_flag("--measure", asked->how.measure, "With --stripes: run each size here, too");
  asked->verb = verb;
  add_form(*verb, asked->form, "ridge.sweep/1");
  verb->add_option("--svg", asked->svg, "Draw the curves into this file")->type_name("FILE");
  verb->add_option("--html", asked->html, "Write one page to play with into this file, with the curves below")
      ->type_name("FILE");
  verb->callback([asked, &code] { code = perform(*asked); });
}

}  // namespace ridge::cli
