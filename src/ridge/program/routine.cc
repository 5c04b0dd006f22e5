// What the words of routine.h mean: the windows of a convolution and how often they fit, what sizes they ask for, and
// along what they can be cut.
#include "ridge/program/routine.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/parser.h"

namespace ridge {
namespace {

constexpr std::int64_t largest_size = std::int64_t{1} << 62;

const Tensor& tensor(const Program& program, int i) { return program.tensors[static_cast<std::size_t>(i)]; }

std::int64_t floored(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

// The value of an axis; none: it has none yet.
std::optional<std::int64_t> known(const Axis& axis, const Bindings& sizes) {
  if (!axis.named()) return axis.literal;
  const auto found = sizes.find(axis.dim);
  return found == sizes.end() ? std::nullopt : std::optional(found->second);
}

bool has(const std::vector<Axis>& axes, const std::string& dim) {
  return std::any_of(axes.begin(), axes.end(), [&](const Axis& a) { return a.dim == dim; });
}

std::string formula(const Window& w, std::int64_t in, std::int64_t kernel) {
  return fmt::format("({} + 2*{} - {}*({} - 1) - 1)/{} + 1", in, w.padding, w.dilation, kernel, w.stride);
}

struct Fault {
  Span span;
  std::string message, hint;
};

std::optional<Fault> window_fault(const Window& w, const Bindings& sizes) {
  const auto in = known(w.in, sizes), out = known(w.out, sizes), kernel = known(w.kernel, sizes);
  if (!in || !out || !kernel) return std::nullopt;
  if (*kernel > longest_window)
    return Fault{w.out.span, fmt::format("expected a window of at most {}, found {}", longest_window, *kernel),
                 "use a smaller one"};
  const auto fits = positions(w, *in, *kernel);
  if (fits == *out) return std::nullopt;
  if (!fits)
    return Fault{w.out.span,
                 fmt::format("a window of {} with dilation {} does not fit into {} with padding {}", *kernel,
                             w.dilation, *in, w.padding),
                 "use a larger padding or a smaller window"};
  return Fault{w.out.span,
               fmt::format("the result has {} = {} positions, the window takes {} = {}", notation::text(w.out), *out,
                           formula(w, *in, *kernel), *fits),
               w.out.named() ? fmt::format("dims {} = {}, or another stride or padding", w.out.dim, *fits)
                             : fmt::format("write {} there, or another stride or padding", *fits)};
}

std::optional<Fault> groups_fault(const Program& program, const Expression& conv, const Bindings& sizes) {
  const std::vector<int> in = operands_of(conv);
  const Axis &all = tensor(program, in[0]).axes[1], &own = tensor(program, in[1]).axes[1],
             &made = tensor(program, in[1]).axes[0];
  if (!conv.routine->groups.all_in(sizes)) return std::nullopt;
  const auto groups = conv.routine->groups.evaluate(sizes);
  const auto channels = known(all, sizes), each = known(own, sizes), results = known(made, sizes);
  const Span span = tensor(program, conv.result).span;
  if (!groups || *groups < 1) return Fault{span, "expected at least 1 group of channels, found fewer", "groups = 1"};
  std::int64_t together = 0;
  if (channels && each && (__builtin_mul_overflow(*groups, *each, &together) || together != *channels))
    return Fault{span,
                 fmt::format("{} groups of {} channels are not the {} that '{}' has", *groups, *each, *channels,
                             tensor(program, in[0]).name),
                 "groups times the second size of the weights is the second size of the input"};
  if (results && *results % *groups != 0)
    return Fault{span, fmt::format("{} channels of the result do not fall into {} groups", *results, *groups),
                 "every group makes as many channels"};
  return std::nullopt;
}

// Of a convolution: the batch always, channels where they are not mixed up with groups.
std::string uncuttable_conv(const Program& program, const Expression& conv, const std::string& dim) {
  for (const Window& w : windows(program, conv))
    if (w.in.dim == dim || w.out.dim == dim || w.kernel.dim == dim)
      return "windows reach over the edge of a part, and what neighbours send each other is not counted";
  const std::vector<Axis>&x = tensor(program, operands_of(conv)[0]).axes,
        &w = tensor(program, operands_of(conv)[1]).axes;
  const bool one_group = conv.routine->groups == Polynomial(1);
  const bool each_its_own = conv.routine->groups == Polynomial::symbol(dim) && x[1].dim == dim && w[0].dim == dim;
  if (one_group || each_its_own || x[0].dim == dim) return {};
  return "its groups would be cut";
}

}  // namespace

std::string_view name(Word word) {
  switch (word) {
    case Word::conv: return "conv";
    case Word::gather: return "gather";
    case Word::scatter: return "scatter";
    case Word::cumsum: return "cumsum";
    case Word::topk: return "topk";
    case Word::routed: return "routed";
    case Word::scan: return "scan";
    case Word::quantize: return "quantize";
  }
  return "";
}

bool operator==(const Routine& a, const Routine& b) {
  return a.word == b.word && a.over == b.over && a.stride == b.stride && a.padding == b.padding &&
         a.dilation == b.dilation && a.groups == b.groups && a.format == b.format && a.loads == b.loads &&
         a.capacity == b.capacity;
}

const Routine* routine_of(const Statement& statement) {
  const auto* expression = std::get_if<Expression>(&statement.op);
  return expression ? expression->routine.get() : nullptr;
}

std::vector<int> operands_of(const Expression& expression) {
  std::vector<int> out;
  for (const Node& node : expression.nodes)
    if (node.kind == Node::Kind::tensor) out.push_back(node.tensor);
  return out;
}

Routing routing_of(const Program& program, const Expression& routed) {
  return {tensor(program, operands_of(routed)[2]).axes, routed.routine->over.front(), routed.routine->loads,
          routed.routine->capacity};
}

std::vector<Window> windows(const Program& program, const Expression& conv) {
  const std::vector<int> in = operands_of(conv);
  const std::vector<Axis>&x = tensor(program, in[0]).axes, &w = tensor(program, in[1]).axes,
        &y = tensor(program, conv.result).axes;
  std::vector<Window> out;
  for (std::size_t i = conv_batch_and_channels; i < x.size(); ++i)
    out.push_back({x[i], y[i], w[i], conv.routine->stride, conv.routine->padding, conv.routine->dilation});
  return out;
}

std::optional<std::int64_t> positions(const Window& w, std::int64_t in, std::int64_t kernel) {
  if (in > largest_size || kernel > longest_window) return std::nullopt;
  const std::int64_t room = in + 2 * w.padding - w.dilation * (kernel - 1) - 1;
  if (room < 0) return std::nullopt;
  return room / w.stride + 1;
}

// in = stride*out + c with a c that does not hang on sizes, and floor((c + 2*padding - dilation*(kernel - 1) -
// 1)/stride) is -1.
bool always_fits(const Window& w) { return always_fits(w, w.in.extent(), w.out.extent(), w.kernel.extent()); }

bool always_fits(const Window& w, const Polynomial& in, const Polynomial& out, const Polynomial& kernel) {
  const Polynomial room = in - out * Polynomial(w.stride) + Polynomial(2 * w.padding - 1) -
                          (kernel - Polynomial(1)) * Polynomial(w.dilation);
  const auto constant = room.constant();
  return constant && constant->den() == 1 && floored(constant->num(), w.stride) == -1;
}

// The dimension that a topk adds in the place of the one that it runs over.
static Axis chosen(const Program& program, const Expression& topk) {
  const std::vector<Axis>& from = tensor(program, operands_of(topk)[0]).axes;
  for (const Axis& a : tensor(program, topk.result).axes)
    if (std::find(from.begin(), from.end(), a) == from.end()) return a;
  return {.dim = {}, .literal = 1};
}

static std::optional<Fault> routing_fault(const Program& program, const Expression& e, const Bindings& sizes) {
  const bool chooses = e.routine->word == Word::topk;
  const Span span = tensor(program, e.result).span;
  const std::vector<Axis> rows =
      chooses ? std::vector<Axis>{chosen(program, e)} : tensor(program, operands_of(e)[2]).axes;
  const auto experts = known(e.routine->over.front(), sizes), each = known(rows.back(), sizes);
  if (experts && each && *each > *experts)
    return Fault{
        span,
        fmt::format("cannot choose {} of the {} along {}", *each, *experts, notation::text(e.routine->over.front())),
        chooses ? "choose fewer"
                : "choose fewer: the last dimension of the indices holds a row's choices, as in i[N, 2]"};
  if (e.routine->loads.empty()) return std::nullopt;
  const auto given = static_cast<std::int64_t>(e.routine->loads.size());
  if (experts && *experts != given)
    return Fault{span, fmt::format("{} loads are given for {} experts", given, *experts),
                 "give each expert one, 0 where it has none"};
  std::int64_t loads = 0, all = 1;
  for (const std::int64_t load : e.routine->loads) loads += load;
  for (const Axis& axis : rows) {
    const auto size = known(axis, sizes);
    if (!size || __builtin_mul_overflow(all, *size, &all)) return std::nullopt;
  }
  if (all == loads) return std::nullopt;
  return Fault{span, fmt::format("the loads sum to {}, the indices have {}", loads, all),
               "every index goes to an expert; a capacity drops those beyond it"};
}

std::optional<Error> routine_fault(const Program& program, const Bindings& sizes) {
  const notation::Source place{program.text, program.source};
  for (const Statement& statement : program.statements) {
    const Routine* const routine = routine_of(statement);
    if (!routine) continue;
    const auto& e = std::get<Expression>(statement.op);
    std::optional<Fault> fault;
    if (routine->word == Word::topk || routine->word == Word::routed) fault = routing_fault(program, e, sizes);
    if (routine->word == Word::conv) {
      fault = groups_fault(program, e, sizes);
      for (const Window& w : windows(program, e))
        if (!fault) fault = window_fault(w, sizes);
    }
    if (fault) return place.error(fault->span, fault->message, fault->hint);
  }
  return std::nullopt;
}

bool takes_scaled(const Program& program, const Contraction& product) {
  return is_scaled(tensor(program, product.left).dtype) || is_scaled(tensor(program, product.right).dtype);
}

std::optional<Error> block_fault(const Program& program, const Bindings& sizes) {
  for (const Tensor& t : program.tensors) {
    if (!is_scaled(t.dtype) || t.axes.empty()) continue;
    const Axis& last = t.axes.back();
    auto size = known(last, sizes);
    std::int64_t parts = 1;
    for (const char letter : last.mesh)
      if (const auto axis = sizes.find(std::string(1, letter)); axis != sizes.end()) parts *= axis->second;
    const int block = info(t.dtype).block;
    if (!size || *size % (block * parts) == 0) continue;
    const std::string on_each = parts > 1 ? fmt::format(" on each of {} devices", parts) : "";
    return notation::Source{program.text, program.source}.error(
        t.span,
        fmt::format("'{}' is {}, whose blocks of {} do not fill the {} elements along {}{}", t.name, name(t.dtype),
                    block, *size, last.named() ? last.dim : notation::text(last), on_each),
        fmt::format("give it a multiple of {}", block * parts));
  }
  return std::nullopt;
}

std::string uncuttable(const Program& program, const Statement& statement, const std::string& dim) {
  const Routine* const routine = routine_of(statement);
  if (!routine) return {};
  const auto& expression = std::get<Expression>(statement.op);
  if (routine->word == Word::conv) return uncuttable_conv(program, expression, dim);
  const bool runs_along = routine->word == Word::cumsum || routine->word == Word::scan;
  if (runs_along && has(routine->over, dim)) return "each step needs the one before it";
  if (routine->word == Word::topk && (has(routine->over, dim) || chosen(program, expression).dim == dim))
    return "the largest of a part are not the largest of all";
  const bool routes = routine->word == Word::routed &&
                      (has(routine->over, dim) || has(tensor(program, operands_of(expression)[2]).axes, dim));
  return routes ? "which experts a part reaches, and what is sent to them, is not counted" : "";
}

std::optional<Error> refuse_routines(const Program& program, std::string_view verb) {
  for (const Statement& statement : program.statements) {
    const auto* product = std::get_if<Contraction>(&statement.op);
    if (product && product->grouped && verb == "simulate")
      return input_error(fmt::format("cannot simulate '{}': its operand has {} in the place of {}", statement.text,
                                     product->grouped->group, product->grouped->dim),
                         "write both dimensions apart: q[B, G, R, E] rather than q[B, H, E]");
    const Routine* const routine = routine_of(statement);
    if (routine && !(routine->word == Word::routed && verb == "run"))
      return input_error(fmt::format("cannot {} '{}': {} is plain loops on a CPU and nothing else yet", verb,
                                     statement.text, name(routine->word)),
                         "`ridge explain` counts it on every machine; `ridge run --on cpu` computes it");
  }
  return std::nullopt;
}

}  // namespace ridge
