// The summary of the command line, as a sentence and three cards: limiter, the size from which the program is
// compute-bound, the largest operation, and memory use.

function thresholdText(name, t) {
  if (t.value === undefined) return `${t.relation === 'never' ? 'no' : 'every'} ${name}`;
  return `${name}\u00a0${t.relation === '>=' ? '≥' : '≤'}\u00a0${grouped(t.value)}`;
}

// Returns for which sizes a row's compute time exceeds its memory time: "S from 586 to 6590"; '' if no size matters.
function thresholdsText(state, row, index) {
  const all = [...computeThresholds(state, row, index)].sort((a, b) => (a.value < b.value ? -1 : 1));
  const text = all.map((t) => thresholdText(state.context.program.values[index].name, t)).join(', ');
  return text.replace(/(\S+)\u00a0≥\u00a0([^,]+), \1\u00a0≤\u00a0([^,]+)/g, '$1 from $2 to $3').replaceAll(', ', ' or ');
}

// Returns the indices of the free sizes, which have sliders.
const freeSizes = (program) => program.values.flatMap((v, i) => (v.free ? [i] : []));

// `measured`: {median} of a run at these sizes, or null.
function summaryText(state, sizeIndex, measured = null) {
  const {total, fused, context, kernels} = state, {program, machine} = context;
  const sizes = freeSizes(program).map((i) => `${program.values[i].name}\u00a0=\u00a0${state.sizes.integers[i]}`).join(', ');
  const {limiter} = total, [from, fusedFrom] = programThresholds(state, sizeIndex);
  let out = `${limiter[0].toUpperCase()}${limiter.slice(1)}-bound on ${machine.title || machine.name}${sizes ? ` at ${sizes}` : ''}: ` +
    `at least ${seconds(total.lower)} (perfect overlap)${fused && kernels.length > 1 ? `, ${seconds(fused.lower)} in one kernel` : ''}; ` +
    `${seconds(total.upper)} without overlap.`;
  if (measured) out += ` Measured: ${seconds(measured.median)}, of roof: ${roofText(measured)}.`;
  if (from) out += ` Compute time exceeds memory time for ${from}${fusedFrom ? `, in one kernel for ${fusedFrom}` : ''}.`;
  return out;
}

// Returns the thresholds of the kernels in sequence and, if they differ, those of all statements in one kernel.
function programThresholds(state, index) {
  const [from, fused] = [state.context.total, state.context.fused].map((row) => (row ? thresholdsText(state, row, index) : ''));
  return [from, fused === from ? '' : fused];
}

function computeCard(state, sizeIndex) {
  const {name} = state.context.program.values[sizeIndex] ?? {}, [from, fusedFrom] = programThresholds(state, sizeIndex), notes = [];
  const every = name && state.kernels.length > 1 && everyProductThreshold(state, sizeIndex);
  if (fusedFrom) notes.push(`in one kernel: ${fusedFrom}`);
  if (every) notes.push(`every product compute-bound: ${thresholdText(name, every)}`);
  notes.push(name ? `now ${name} = ${grouped(state.sizes.integers[sizeIndex])}: ${state.total.limiter}-bound` : 'there is no size to vary');
  return {title: 'Compute time exceeds memory time for', value: from || (name ? `does not depend on ${name}` : '–'), notes};
}

function largestCard(state) {
  const {called, share, lower, limiter} = state.kernels.reduce((a, b) => ((b.share ?? 0) > (a.share ?? 0) ? b : a));
  return {
    title: 'Largest', value: `${called}, ${percent(share ?? 1)}`,
    notes: [`${seconds(lower)} of ${seconds(state.total.lower)}, ${limiter}-bound`],
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
