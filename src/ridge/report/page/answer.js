// The summary of the command line, as a sentence and three cards: limiter, the size from which the program is
// compute-bound, the largest operation, and memory use.

const thresholdText = (name, t) => {
  if (t.relation === 'never') return 'never';
  if (t.relation === 'always') return `every ${name}`;
  return `${name}\u00a0${t.relation === '>=' ? '≥' : '≤'}\u00a0${grouped(t.value)}`;
};

const limiterWords = {
  compute: 'compute-bound', memory: 'memory-bound', network: 'network-bound', overhead: 'launch-bound',
};

const upperFirst = (text) => text[0].toUpperCase() + text.slice(1);

function cacheAt(state, sizeIndex) {
  state.shared = state.shared ?? {};
  return state.shared[sizeIndex] = state.shared[sizeIndex] ?? {};
}

// Returns where compute time exceeds memory time: [{relation, value}]; empty if it does not depend on the size.
function computeThresholds(state, sizeIndex) {
  const pair = roofPairsOfTotal(state.context).find((m) => m.roofs === 'compute memory');
  return pair && sizeIndex >= 0 ? solveThresholds(state, pair, sizeIndex, cacheAt(state, sizeIndex)) : [];
}

// Returns the indices of the free sizes, which have sliders.
function freeSizes(program) {
  return program.sizes.map((s, i) => (s.follows || s.part || s.mask ? -1 : i)).filter((i) => i >= 0);
}

function largestKernel(state) {
  return state.kernels.reduce((a, b) => ((b.share ?? 0) > (a.share ?? 0) ? b : a));
}

function sizesText(state) {
  const {program} = state.context;
  return freeSizes(program).map((i) => `${program.sizes[i].name}\u00a0=\u00a0${state.sizes.integers[i]}`).join(', ');
}

// `measured`: {median} of a run at these sizes, or null.
function summaryText(state, sizeIndex, measured = null) {
  const {total, context} = state, machine = context.machine.title || context.machine.name;
  const sizes = sizesText(state), from = computeThresholds(state, sizeIndex);
  let out = `${upperFirst(limiterWords[total.limiter])} on ${machine}${sizes ? ` at ${sizes}` : ''}: ` +
    `at least ${engineering(total.lower, 's')} (perfect overlap); ${engineering(total.upper, 's')} without overlap`;
  if (state.kernels.length > 1) {
    const largest = largestKernel(state);
    out += `; largest: ${largest.called} (${percent(largest.share)})`;
  }
  out += '.';
  if (measured) out += ` Measured: ${engineering(measured.median, 's')}, ${percent(total.lower / measured.median)} of the roof.`;
  if (from.length === 0) return out;
  const name = context.program.sizes[sizeIndex].name, [first] = from;
  if (first.relation === 'never') return `${out} Memory time exceeds compute time for every ${name}.`;
  if (first.relation === 'always') return `${out} Compute time exceeds memory time for every ${name}.`;
  return `${out} Compute time exceeds memory time for ${from.map((t) => thresholdText(name, t)).join(' and ')}.`;
}

function computeCard(state, sizeIndex) {
  if (sizeIndex < 0) return {title: 'Compute-bound', value: '–', notes: ['there is no size to vary']};
  const name = state.context.program.sizes[sizeIndex].name, from = computeThresholds(state, sizeIndex);
  const value = from.map((t) => thresholdText(name, t)).join(', ') || `does not depend on ${name}`, notes = [];
  if (state.kernels.length > 1) {
    const every = everyProductThreshold(state, sizeIndex, cacheAt(state, sizeIndex));
    if (every) notes.push(`every product: ${thresholdText(name, every)}`);
  }
  notes.push(`now ${name} = ${grouped(state.sizes.integers[sizeIndex])}: ${limiterWords[state.total.limiter]}`);
  return {title: 'Compute-bound for', value, notes};
}

function largestCard(state) {
  const largest = largestKernel(state);
  return {
    title: 'Largest', value: `${largest.called}, ${percent(largest.share ?? 1)}`,
    notes: [`${engineering(largest.lower, 's')} of ${engineering(state.total.lower, 's')}, ${limiterWords[largest.limiter]}`],
  };
}

function memoryCard(state, sizeIndex) {
  const {context, peakMemory} = state, {capacity, level} = context;
  if (capacity === null)
    return {title: 'Memory', value: engineering(peakMemory.bytes, 'B'), notes: ["the memory's capacity is unknown"]};
  const fits = peakMemory.bytes <= capacity, most = sizeIndex < 0 ? null : maxSizeThatFits(state, sizeIndex);
  const notes = [fits ? 'fits' : `does not fit: ${Math.ceil(peakMemory.bytes / capacity)} times too large`];
  if (fits) notes[0] += ` into ${level}`;
  if (most !== null && sizeIndex >= 0) notes[0] += `; up to ${context.program.sizes[sizeIndex].name} = ${grouped(most)}`;
  return {
    title: fits ? 'Fits' : 'Does not fit', value: `${engineering(peakMemory.bytes, 'B')} of ${engineering(capacity, 'B')}`,
    notes, share: peakMemory.bytes / capacity,
  };
}

const makeCards = (state, sizeIndex) => [computeCard(state, sizeIndex), largestCard(state), memoryCard(state, sizeIndex)];
