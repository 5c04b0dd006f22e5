// The summary of the command line, as a sentence and three cards: limiter, the size from which the program is
// compute-bound, the largest operation, and memory use.

function thresholdText(name, t) {
  if (t.relation === 'never') return 'never';
  if (t.relation === 'always') return `every ${name}`;
  return `${name}\u00a0${t.relation === '>=' ? '≥' : '≤'}\u00a0${grouped(t.value)}`;
}

const limiterWords = {compute: 'compute-bound', memory: 'memory-bound', network: 'network-bound', overhead: 'launch-bound'};

// Returns the indices of the free sizes, which have sliders.
const freeSizes = (program) => program.values.flatMap((v, i) => (v.free ? [i] : []));
const largestKernel = (state) => state.kernels.reduce((a, b) => ((b.share ?? 0) > (a.share ?? 0) ? b : a));

// `measured`: {median} of a run at these sizes, or null.
function summaryText(state, sizeIndex, measured = null) {
  const {total, fused, context, kernels} = state, {program, machine} = context;
  const sizes = freeSizes(program).map((i) => `${program.values[i].name}\u00a0=\u00a0${state.sizes.integers[i]}`).join(', ');
  const limiter = limiterWords[total.limiter], from = computeThresholds(state, context.total, sizeIndex);
  let out = `${limiter[0].toUpperCase()}${limiter.slice(1)} on ${machine.title || machine.name}${sizes ? ` at ${sizes}` : ''}: ` +
    `at least ${seconds(total.lower)} (perfect overlap)${fused && kernels.length > 1 ? `, ${seconds(fused.lower)} in one kernel` : ''}; ` +
    `${seconds(total.upper)} without overlap.`;
  if (measured) out += ` Measured: ${seconds(measured.median)}, ${percent(total.lower / measured.median)} of the roof.`;
  if (from.length === 0) return out;
  const {name} = program.values[sizeIndex], [{relation}] = from;
  if (relation === 'never') return `${out} Memory time exceeds compute time for every ${name}.`;
  return `${out} Compute time exceeds memory time for ${from.map((t) => thresholdText(name, t)).join(' and ')}.`;
}

function computeCard(state, sizeIndex) {
  if (sizeIndex < 0) return {title: 'Compute-bound', value: '–', notes: ['there is no size to vary']};
  const {name} = state.context.program.values[sizeIndex], from = computeThresholds(state, state.context.total, sizeIndex);
  const every = state.kernels.length > 1 && everyProductThreshold(state, sizeIndex);
  const notes = every ? [`every product: ${thresholdText(name, every)}`] : [];
  notes.push(`now ${name} = ${grouped(state.sizes.integers[sizeIndex])}: ${limiterWords[state.total.limiter]}`);
  return {title: 'Compute-bound for', value: from.map((t) => thresholdText(name, t)).join(', ') || `does not depend on ${name}`, notes};
}

function largestCard(state) {
  const {called, share, lower, limiter} = largestKernel(state);
  return {
    title: 'Largest', value: `${called}, ${percent(share ?? 1)}`,
    notes: [`${seconds(lower)} of ${seconds(state.total.lower)}, ${limiterWords[limiter]}`],
  };
}

function memoryCard(state, sizeIndex) {
  const {peakMemory, context: {capacity, level, program}} = state, value = engineering(peakMemory, 'B');
  if (capacity === null) return {title: 'Memory', value, notes: ["the memory's capacity is unknown"]};
  const fits = peakMemory <= capacity, most = sizeIndex < 0 ? null : maxSizeThatFits(state, sizeIndex);
  const note = fits ? `fits into ${level}` : `does not fit: ${Math.ceil(peakMemory / capacity)} times too large`;
  return {
    title: fits ? 'Fits' : 'Does not fit', value: `${value} of ${engineering(capacity, 'B')}`, share: peakMemory / capacity,
    notes: [most === null ? note : `${note}; up to ${program.values[sizeIndex].name} = ${grouped(most)}`],
  };
}

const makeCards = (state, sizeIndex) => [computeCard(state, sizeIndex), largestCard(state), memoryCard(state, sizeIndex)];
