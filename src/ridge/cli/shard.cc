// ridge shard: the best shardings of a program, what open mesh sizes decide, and collectives by themselves.
#include <memory>

#include "ridge/base/text.h"
#include "ridge/cli/door.h"
#include "ridge/cli/refusal.h"
#include "ridge/report/distributed/shard.h"

namespace ridge::cli {
namespace {

struct Asked {
  Spelled spelled;
  OutputForm form;
  ShardOptions options;
  std::string collective, ragged;
  CollectiveRequest request;
  const CLI::App* verb = nullptr;
};

constexpr std::string_view collective_options =
    "--collective --bytes --chips --apart --ragged --compute --on --link --json --csv --md";

// "8/64"
Status read_ragged(const std::string& text, CollectiveRequest& request) {
  if (text.empty()) return Done{};
  const std::size_t slash = text.find('/');
  const auto to = ridge::whole_number(text.substr(0, slash));
  const auto of = slash == std::string::npos ? std::nullopt : ridge::whole_number(text.substr(slash + 1));
  if (!to || !of || *of == 0)
    return usage_error("expected --ragged TO/OF, of so many destinations, found '" + text + "'", "--ragged 8/64");
  request.to = *to;
  request.of = *of;
  return Done{};
}

int by_itself(Asked& asked) {
  if (const auto refused = refuse_beside(*asked.verb, "--collective", collective_options)) return fail(*refused);
  if (!asked.spelled.program.empty()) return fail(usage_error("expected --collective without a PROGRAM"));
  asked.request.pattern = *pattern_named(asked.collective);
  asked.request.chips = asked.options.chips;
  if (const Status read = read_ragged(asked.ragged, asked.request); !read) return fail(read.error());
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  const auto found = api::collective(request->on, request->link, asked.request);
  if (!found) return fail(found.error());
  return print(asked.form, text(*found), render_json(*found), "levels");
}

int perform(Asked& asked) {
  if (!asked.collective.empty()) return by_itself(asked);
  if (const auto refused = refuse_without(*asked.verb, "--bytes --apart --ragged --compute", "--collective"))
    return fail(*refused);
  const auto request = understood(asked.spelled);
  if (!request) return fail(request.error());
  const auto sharded = api::is_sharded(*request);
  if (!sharded) return fail(sharded.error());
  if (*sharded && asked.options.mesh.empty()) {
    const auto open = api::open_mesh(*request, asked.options.chips);
    const std::string list = asked.options.chips == 0 ? "thresholds" : "meshes";
    return open ? print(asked.form, render_text(*open), render_json(*open), list) : fail(open.error());
  }
  const auto found = api::shard(*request, asked.options);
  return found ? print(asked.form, render_text(*found), render_json(*found), "shardings") : fail(found.error());
}

void add_collective(CLI::App& verb, Asked& asked) {
  verb.add_option("--collective", asked.collective, "A collective by itself, without a PROGRAM")
      ->check(one_of({"all-gather", "reduce-scatter", "all-reduce", "all-to-all", "gather"}));
  verb.add_option("--bytes", asked.request.bytes,
                  "With --collective: of the whole array; of all-to-all and all-reduce what a chip has")
      ->type_name("BYTES");
  verb.add_option("--apart", asked.request.apart, "With --collective: every so many chips one takes part (default: 1)")
      ->type_name("N");
  verb.add_option("--ragged", asked.ragged, "With --collective all-to-all: each row goes to TO of OF destinations")
      ->type_name("TO/OF");
  verb.add_option("--compute", asked.request.compute_s, "With --collective: what may run beside it, in chunks")
      ->type_name("SECONDS");
}

}  // namespace

void add_shard(CLI::App& app, int& code) {
  auto asked = std::make_shared<Asked>();
  CLI::App* verb = app.add_subcommand("shard", "The best shardings of a program over many chips, and what they send");
  verb->footer(
      "Examples:\n"
      "  ridge shard examples/mlp.ridge --chips 8 --on h200 B=4096\n"
      "  ridge shard examples/llama_decoder.ridge --mesh X=8,Y=8 --on tpu_v5p B=512\n"
      "  ridge shard $'w: bf16[D_X, F]   x: bf16[B_X, D]\\ng[D, F] = w\\ny: bf16[B_X, F] = x * g' --on tpu_v5p\n"
      "  ridge shard --collective all-reduce --bytes 1e9 --chips 64 --on h100\n");
  asked->verb = verb;
  add_request(*verb, asked->spelled);
  verb->add_option("--chips", asked->options.chips, "How many; every mesh of one or two axes is searched")
      ->type_name("N");
  verb->add_option("--mesh", asked->options.mesh, "This mesh alone; chips side by side along its last axis")
      ->type_name("X=4,Y=2");
  verb->add_option("--link", asked->spelled.link, "Link between them: a name, or B/s one way (default: the first)")
      ->type_name("LINK");
  verb->add_flag("--sustained", asked->spelled.sustained,
                 "Compute with the rates that real programs reach, where known");
  add_collective(*verb, *asked);
  add_form(*verb, asked->form, "ridge.shard/1");
  verb->callback([asked, &code] {
    const Status sorted = sort_words(asked->spelled, "shard");
    code = sorted ? perform(*asked) : fail(sorted.error());
  });
}

}  // namespace ridge::cli
