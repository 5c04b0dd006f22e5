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

// Returns the indices of the free sizes, which have sliders.
function freeSizes(program) {
  return program.values.map((v, i) => (v.free ? i : -1)).filter((i) => i >= 0);
}

function largestKernel(state) {
  return state.kernels.reduce((a, b) => ((b.share ?? 0) > (a.share ?? 0) ? b : a));
}

function sizesText(state) {
  const {program} = state.context;
  return freeSizes(program).map((i) => `${program.values[i].name}\u00a0=\u00a0${state.sizes.integers[i]}`).join(', ');
}

// `measured`: {median} of a run at these sizes, or null.
function summaryText(state, sizeIndex, measured = null) {
  const {total, context} = state, machine = context.machine.title || context.machine.name;
  const sizes = sizesText(state), from = computeThresholds(state, state.context.total, sizeIndex);
  let out = `${upperFirst(limiterWords[total.limiter])} on ${machine}${sizes ? ` at ${sizes}` : ''}: ` +
    `at least ${engineering(total.lower, 's')} (perfect overlap); ${engineering(total.upper, 's')} without overlap`;
  if (state.kernels.length > 1) {
    const largest = largestKernel(state);
    out += `; largest: ${largest.called} (${percent(largest.share)})`;
  }
  out += '.';
  if (measured) out += ` Measured: ${engineering(measured.median, 's')}, ${percent(total.lower / measured.median)} of the roof.`;
  if (from.length === 0) return out;
  const name = context.program.values[sizeIndex].name, [first] = from;
  if (first.relation === 'never') return `${out} Memory time exceeds compute time for every ${name}.`;
  if (first.relation === 'always') return `${out} Compute time exceeds memory time for every ${name}.`;
  return `${out} Compute time exceeds memory time for ${from.map((t) => thresholdText(name, t)).join(' and ')}.`;
}

function computeCard(state, sizeIndex) {
  if (sizeIndex < 0) return {title: 'Compute-bound', value: '–', notes: ['there is no size to vary']};
  const name = state.context.program.values[sizeIndex].name, from = computeThresholds(state, state.context.total, sizeIndex);
  const value = from.map((t) => thresholdText(name, t)).join(', ') || `does not depend on ${name}`, notes = [];
  if (state.kernels.length > 1) {
    const every = everyProductThreshold(state, sizeIndex);
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
    return {title: 'Memory', value: engineering(peakMemory, 'B'), notes: ["the memory's capacity is unknown"]};
  const fits = peakMemory <= capacity, most = sizeIndex < 0 ? null : maxSizeThatFits(state, sizeIndex);
  const notes = [fits ? 'fits' : `does not fit: ${Math.ceil(peakMemory / capacity)} times too large`];
  if (fits) notes[0] += ` into ${level}`;
  if (most !== null && sizeIndex >= 0) notes[0] += `; up to ${context.program.values[sizeIndex].name} = ${grouped(most)}`;
  return {
    title: fits ? 'Fits' : 'Does not fit', value: `${engineering(peakMemory, 'B')} of ${engineering(capacity, 'B')}`,
    notes, share: peakMemory / capacity,
  };
}

const makeCards = (state, sizeIndex) => [computeCard(state, sizeIndex), largestCard(state), memoryCard(state, sizeIndex)];
