// Evaluates the formulas of a language model's steps that model_data.cc emits: bounds of modules, memory of a chip, and
// the largest batch and context that fit, as plan/model/step.cc and machine.cc compute them.

const MAX_SEQUENCES = 2 ** 24, MAX_TOKENS = 2 ** 32;  // Limits of machine.cc

function parseModel(data) {
  return {...data, counts: data.counts.map(toTerms), bySizes: new Map(data.chips.map((c) => [c.chips, c]))};
}

// True if the last chunk of a recurrence has elements after the last token of prefill.
const hasRest = ({recurrent_chunk: chunk}, phase, context) => phase === 'prefill' && chunk > 0 && context > chunk && context % chunk > 0;

// Returns the formulas of a phase: those with a limit are first.
function findStep(model, phase, {weights, cache, context}) {
  const rest = hasRest(model, phase, context), holds = (s) => s.has_rest === rest && (s.max_context === 0 || context <= s.max_context);
  return model.steps.find((s) => s.phase === phase && s.weights === weights && s.cache === cache && holds(s));
}

// Returns the pairs of tokens of which the second sees the first, in chunks of the window.
function countChunkPairs(tokens, window) {
  const rest = tokens % window, triangle = (n) => n * (n + 1) / 2;
  return (tokens - rest) / window * triangle(window) + triangle(rest);
}

// Returns the thousandths of experts that are expected to get one of the tokens.
const expectedExperts = (experts, each, tokens) => Math.round(1000 * experts * (1 - (1 - each / experts) ** tokens));

// Returns the values that a part's counts contain: sizes, then what follows from them.
function computePartValues({counts, window}, part, sizes) {
  const values = [...sizes], at = (i) => evaluateAsDouble(counts[i], values);
  for (const v of part.values) {
    if (v.tokens !== undefined) {
      values.push(expectedExperts(at(v.experts), at(v.each), at(v.tokens)));
      continue;
    }
    if (v.chunked !== undefined) {
      values.push(countChunkPairs(at(v.chunked), window));
      continue;
    }
    let value = Math.ceil(at(v.count));
    if (v.low !== undefined) value = Math.max(value, Math.ceil(at(v.low)));
    if (v.high !== undefined) value = Math.min(value, Math.ceil(at(v.high)));
    values.push(value);
  }
  return values;
}

// Returns the first rate that the machine has, or null. Work without FLOPs needs none.
const findRate = (machine, peaks) => peaks.find((name) => machine.peaks[name]) ?? null;

// Returns a module as one kernel: its units compute concurrently, each one statement after another.
function evaluateModule({counts}, module, values, machine) {
  const at = (i) => evaluateAsDouble(counts[i], values), [, bandwidth] = machine.memory[0];
  const moved = at(module.bytes);  // int4 gives halves
  const out = {name: module.name, flops: 0, bytes: Math.ceil(moved - 1e-6), parameters: at(module.parameters), cache: at(module.cache), missing: [], peak: null};
  const times = {matrix: 0, vector: 0};
  let longest = -1;
  for (const unit of module.units) {
    const flops = at(unit.flops), name = findRate(machine, unit.peaks);
    out.flops += flops;
    if (!name && unit.required) out.error = `${machine.name} has no ${unit.peaks[0]} peak`;
    if (!name && flops > 0) out.missing.push(`${unit.peaks.at(-1)} peak of ${machine.name}`);
    if (!name) continue;
    const load = Object.entries(unit.calls).reduce((sum, [called, i]) => sum + at(i) * ((machine.functions[called] ?? 1) - 1), flops);
    const time = load / machine.peaks[name];
    times[name.split(' ')[0]] += time;
    if (time > longest) [longest, out.peak] = [time, {name, rate: machine.peaks[name]}];
  }
  const launch = machine.launch ?? 0, compute = Math.max(times.matrix, times.vector), memory = moved / bandwidth;
  out.bound = Math.max(compute, memory, launch);
  out.limiter = compute === out.bound ? 'compute' : memory === out.bound ? 'memory' : 'overhead';
  return out;
}

// Returns the values of the sizes of a step, in the order of step_size_names (step_formulas.h).
function listStepSizes(model, sequences, context, isPrefill) {
  const {window, has_chunks: hasChunks, recurrent_chunk: chunk} = model, tokens = isPrefill ? context : 1;
  const seen = hasChunks ? 1 + (context - 1) % window : window > 0 ? Math.min(context, window) : context;
  const each = Math.max(1, Math.min(chunk, tokens));
  const chunks = Math.ceil(tokens / each);
  return [sequences, tokens, context, isPrefill ? context : seen, tokens, chunks, chunks, each, each];
}

// Returns the step's modules and memory, or {error}. `sequences` are those of the step.
function evaluateStep(model, query, phase, sequences) {
  const {machine, chips, context} = query, layout = model.bySizes.get(chips), network = machine.network[chips];
  if (chips > 1 && !network) return {error: `the links of ${machine.name} do not join ${chips} chips`};
  const keptTokens = model.window > 0 ? Math.min(context, model.window) : context;
  const sizes = [...listStepSizes(model, sequences, context, phase === 'prefill'), ...layout.sizes];
  const out = {modules: [], flops: 0, bytes: 0, bound: 0, network: 0, parameters: 0, cache: 0, activations: 0, missing: '', error: ''};
  findStep(model, phase, query).parts.forEach((part, index) => {
    const values = computePartValues(model, part, sizes), at = (i) => evaluateAsDouble(model.counts[i], values);
    const add = (module) => out.modules.push({...module, part: part.name, layers: part.layers});
    for (const module of part.modules) add(evaluateModule(model, module, values, machine));
    const sent = layout[phase].filter((c) => c.part === index);
    if (sent.length > 0) {
      const time = ({bytes, kind}) => timeTransfer({bytes: model.counts[bytes], links: network[kind][0], protocols: network[kind][1]}, sizes);
      const bound = sumOf(sent.map(time));
      add({name: 'network', flops: 0, bytes: 0, parameters: 0, cache: 0, bound, limiter: 'network', missing: [], peak: null});
      out.network += part.layers * bound;
    }
    const cache = at(part.cache), kept = part.slides ? keptTokens / sizes[3] : 1;
    out.parameters += part.layers * at(part.parameters);
    out.cache += part.layers * kept * cache;
    out.activations = Math.max(out.activations, Math.max(...part.activations.map(at)) + (1 - kept) * cache);
  });
  for (const m of out.modules) {
    out.flops += m.layers * m.flops;
    out.bytes += m.layers * m.bytes;
    out.bound += m.layers * m.bound;
    out.error ||= m.error ?? '';
    out.missing ||= m.missing[0] ?? '';
  }
  for (const m of out.modules) m.share = m.layers * m.bound / out.bound;
  out.scales = model.encoder_bytes + model.scale_bytes / chips;
  out.memory = out.scales + out.parameters + out.cache + out.activations;
  return out;
}

// Returns the step of the query's phase.
const evaluatePhase = (model, query) => evaluateStep(model, query, query.phase, query.batch);

// Returns an encoder's time for images or clips, whole ones on each chip.
function evaluateEncoder(model, encoders, {machine, chips, weights, cache}, inputs) {
  const count = Math.ceil(inputs / chips), out = {count, bound: 0, flops: 0};
  for (const part of encoders.find((e) => e.weights === weights && e.cache === cache).parts) {
    const values = computePartValues(model, part, [count]);
    for (const m of part.modules.map((module) => evaluateModule(model, module, values, machine))) {
      out.bound += part.layers * m.bound;
      out.flops += part.layers * m.flops;
    }
  }
  return out;
}

// Returns the times of the encoders for the prompts; null for one that the model or the query does not have.
function evaluateEncoders(model, query, prompts) {
  const {images, audio} = model, hasImages = images && query.images > 0;
  return {
    images: hasImages ? evaluateEncoder(model, images.encoders, query, query.images * prompts) : null,
    audio: audio ? evaluateEncoder(model, audio.encoders, query, prompts) : null,
  };
}

// Returns why the prompt cannot hold its images, or nothing.
function findImageError({images}, {context, images: each}) {
  const tokens = images ? each * images.tokens : 0;
  return tokens > context ? `the images of a prompt have ${grouped(tokens)} tokens, more than its ${grouped(context)}` : '';
}

// Returns the fewest chips that hold the step, or the most that divide the model.
function chooseChips(model, query) {
  const {capacity} = machineMemory(query.machine);
  let found = null;
  for (const {chips} of model.chips) {
    const step = evaluatePhase(model, {...query, chips});
    if (step.error) continue;
    found = chips;
    if (capacity === null || step.memory <= capacity) break;
  }
  return found ?? model.chips[0].chips;
}

const machineMemory = ({memory: [[level, bandwidth, capacity]]}) => ({level, bandwidth, capacity});

function largestThat(fits, limit) {
  let low = 0, high = limit + 1;
  while (high - low > 1) {
    const middle = low + Math.floor((high - low) / 2);
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}

// Returns the largest batch and context that decoding holds; null if the capacity is not on record.
function findLimits(model, query, decode) {
  const {capacity} = machineMemory(query.machine);
  if (capacity === null) return {maxBatch: null, maxContext: null};
  const free = capacity - decode.parameters - decode.scales;
  const each = (decode.cache + decode.activations) / query.batch;
  const positions = model.learned_positions > 0 ? Math.min(model.learned_positions, MAX_TOKENS) : MAX_TOKENS;
  const cacheAt = (context) => evaluateStep(model, {...query, context}, 'decode', query.batch).cache;
  return {
    maxBatch: Math.trunc(Math.max(0, Math.min(free / each, MAX_SEQUENCES))),
    maxContext: !model.has_cache ? null : largestThat((context) => cacheAt(context) <= free - decode.activations, positions),
  };
}

// Answers a query {machine, chips or null, weights, cache, batch, context, phase}, or returns {error}.
function answerModel(model, asked) {
  const query = {...asked, chips: asked.chips ?? chooseChips(model, asked)}, {batch, phase} = query;
  const decode = evaluateStep(model, query, 'decode', batch);
  const sequences = phase === 'prefill' ? batch : 1, prefill = evaluateStep(model, query, 'prefill', sequences);
  const step = phase === 'prefill' ? prefill : decode, {capacity} = machineMemory(query.machine);
  const error = step.error || findImageError(model, query);
  if (error) return {query, error};
  const tokens = phase === 'prefill' ? sequences * query.context : batch;
  return {
    query, decode, prefill, ...evaluateEncoders(model, query, sequences), sequences, step, capacity, tokens, error: '', fits: capacity === null || step.memory <= capacity,
    notes: model.bySizes.get(query.chips).notes[phase], ...findLimits(model, query, decode),
  };
}

// Divides the bound by what limits it. Time at the memory's rate is divided in proportion to the bytes.
function divideModule({bound, limiter, bytes, parameters, cache}) {
  const out = {weights: 0, cache: 0, 'other bytes': 0, compute: 0, network: 0, launches: 0};
  if (limiter !== 'memory') out[limiter === 'overhead' ? 'launches' : limiter] = bound;
  else if (bytes > 0) Object.assign(out, {weights: bound * parameters / bytes, cache: bound * cache / bytes, 'other bytes': bound * (bytes - parameters - cache) / bytes});
  return out;
}

function divideBound(step) {
  const out = {};
  for (const m of step.modules)
    for (const [name, time] of Object.entries(divideModule(m))) out[name] = (out[name] ?? 0) + m.layers * time;
  return out;
}
