// What the first screen of the command line answers, in a sentence and three numbers: what binds the program, from
// which size on it is bound by compute, what is largest, and whether it fits.

const sizeText = (name, t) => {
  if (t.relation === 'never') return 'never';
  if (t.relation === 'always') return `every ${name}`;
  return `${name}\u00a0${t.relation === '>=' ? '≥' : '≤'}\u00a0${grouped(t.value)}`;
};

const limiterWords = {
  compute: 'compute-bound', memory: 'memory-bound', network: 'network-bound', overhead: 'bound by launches',
};

const upperFirst = (text) => text[0].toUpperCase() + text.slice(1);

function sharedAt(state, place) {
  state.shared = state.shared ?? {};
  return state.shared[place] = state.shared[place] ?? {};
}

// Where the whole program computes longer than it moves: [{relation, value}]; empty: the size moves nothing.
function computeBoundFrom(state, place) {
  const meeting = meetingsOfTotal(state.setting).find((m) => m.roofs === 'compute memory');
  return meeting && place >= 0 ? thresholdsOf(state, meeting, place, sharedAt(state, place)) : [];
}

// Sizes of their own that something moves: those with sliders.
function freePlaces(program) {
  return program.sizes.map((s, i) => (s.follows || s.part || s.mask ? -1 : i)).filter((i) => i >= 0);
}

function largestOf(state) {
  return state.kernels.reduce((a, b) => ((b.share ?? 0) > (a.share ?? 0) ? b : a));
}

function sizesText(state) {
  const {program} = state.setting;
  return freePlaces(program).map((i) => `${program.sizes[i].name}\u00a0=\u00a0${state.sizes.whole[i]}`).join(', ');
}

// `measured`: of a run at these sizes {median}.
function verdictText(state, place, measured = null) {
  const {total, setting} = state, machine = setting.machine.title || setting.machine.name;
  const sizes = sizesText(state), from = computeBoundFrom(state, place);
  let out = `${upperFirst(limiterWords[total.limiter])} on ${machine}${sizes ? ` at ${sizes}` : ''}: ` +
    `${engineering(total.lower, 's')} if all overlaps, ${engineering(total.upper, 's')} if nothing does`;
  if (state.kernels.length > 1) {
    const largest = largestOf(state);
    out += `; most of it in ${largest.called} (${percent(largest.share)})`;
  }
  out += '.';
  if (measured) out += ` Measured: ${engineering(measured.median, 's')}, ${percent(total.lower / measured.median)} of the roof.`;
  if (from.length === 0) return out;
  const name = setting.program.sizes[place].name, [first] = from;
  if (first.relation === 'never') return `${out} However large ${name} is, moving takes longer than computing.`;
  if (first.relation === 'always') return `${out} Computing takes longer than moving whatever ${name} is.`;
  return `${out} Computing takes longer than moving for ${from.map((t) => sizeText(name, t)).join(' and ')}.`;
}

function computeCard(state, place) {
  if (place < 0) return {title: 'Compute-bound', value: '–', notes: ['there is no size to move']};
  const name = state.setting.program.sizes[place].name, from = computeBoundFrom(state, place);
  const value = from.map((t) => sizeText(name, t)).join(', ') || `does not hang on ${name}`, notes = [];
  if (state.kernels.length > 1) {
    const every = everyProduct(state, place, sharedAt(state, place));
    if (every) notes.push(`every product by itself: ${sizeText(name, every)}`);
  }
  notes.push(`now ${name} = ${grouped(state.sizes.whole[place])}: ${limiterWords[state.total.limiter]}`);
  return {title: 'Compute-bound for', value, notes};
}

function largestCard(state) {
  const largest = largestOf(state);
  return {
    title: 'Largest', value: `${largest.called}, ${percent(largest.share ?? 1)}`,
    notes: [`${engineering(largest.lower, 's')} of ${engineering(state.total.lower, 's')}, ${limiterWords[largest.limiter]}`],
  };
}

function memoryCard(state, place) {
  const {setting, held} = state, {capacity, level} = setting;
  if (capacity === null)
    return {title: 'Memory', value: engineering(held.bytes, 'B'), notes: ["the memory's size is not on record"]};
  const fits = held.bytes <= capacity, most = place < 0 ? null : fitsUpTo(state, place);
  const notes = [fits ? 'fits' : `does not fit: ${Math.ceil(held.bytes / capacity)} times too large`];
  if (fits) notes[0] += ` into ${level}`;
  if (most !== null && place >= 0) notes[0] += `; up to ${setting.program.sizes[place].name} = ${grouped(most)}`;
  return {
    title: fits ? 'Fits' : 'Does not fit', value: `${engineering(held.bytes, 'B')} of ${engineering(capacity, 'B')}`,
    notes, share: held.bytes / capacity,
  };
}

const cardsOf = (state, place) => [computeCard(state, place), largestCard(state), memoryCard(state, place)];
