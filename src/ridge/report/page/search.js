// Sizes at which one time overtakes another, with the other sizes fixed. Times are polynomials in values; if their
// difference changes sign at most once, bisection finds where. Otherwise it is searched for as in
// roofline/sizes/crossings.h: at sizes that grow by eight percent, then by bisection.

const multiply = (a, b) => makeTerm(a.n * b.n, a.d * b.d, [...a.factors, ...b.factors]);

// One size varies, the others keep their values; computed values follow.
class Line {
  constructor({context, sizes}, index) {
    Object.assign(this, {program: context.program, index, integers: sizes.integers, reduced: [], solved: new Map()});
    for (const [i, v] of this.program.values.entries()) {
      const varies = i === index || v.terms.some((terms) => terms?.some((t) => this.reduceTerm(t).factors.length > 0));
      // A value that is one product is replaced: F = 4*D, and ceil(D/4) where it is whole, because equal shards stay equal.
      const [[term, ...others] = [], ...limits] = v.terms, isProduct = term && others.length === 0 && !limits.some(Boolean);
      const isWhole = isProduct && evaluateExactly([term], this.integers).n % term.d === 0n;
      this.reduced.push(!varies ? makeTerm(this.integers[i], 1n, []) : isWhole ? this.reduceTerm(term) : makeTerm(1n, 1n, [i]));
    }
  }

  // Returns the values at a size, or null if one is invalid.
  at(size) {
    const given = this.integers.map((value, i) => (i === this.index ? size : this.reduced[i].factors.length > 0 ? null : value));
    const values = computeValues(this.program, given);
    return values.error ? null : values;
  }

  // Returns the term with all fixed values multiplied in.
  reduceTerm({n, d, factors}) { return factors.map((i) => this.reduced[i]).reduce(multiply, makeTerm(n, d, [])); }

  reduce(terms) {
    const sums = new Map();
    for (const {n, d, factors} of terms.map((t) => this.reduceTerm(t))) {
      const key = factors.sort().join(), sum = sums.get(key);
      if (!sum) sums.set(key, {n, d, factors});
      else if (sum.d === d) sum.n += n;
      else Object.assign(sum, {n: sum.n * d + n * sum.d, d: sum.d * d});
    }
    return [...sums.values()].filter((t) => t.n !== 0n).map((t) => makeTerm(t.n, t.d, t.factors));
  }

  // Returns the values at the sizes that a search begins with: all up to 16, then in steps of 8 %.
  get samples() {
    if (this.sampled) return this.sampled;
    this.sampled = [];
    for (let size = 1; size < 2 ** 62; size = size < 16 ? size + 1 : Math.trunc(size * 1.08)) {
      const values = this.at(BigInt(size));
      if (values) this.sampled.push({size, real: values.real});
      else if (this.sampled.length > 0) break;  // a count exceeds its limit, here and at all larger sizes
    }
    return this.sampled;
  }
}

const lineOf = (state, index) => state.lines[index] ??= new Line(state, index);

const always = (holds) => [{relation: holds ? 'always' : 'never'}];
// Returns the last size from `low` and the first up to `high` with different answers.
function bisect(low, high, isAbove) {
  const before = isAbove(low);
  while (high - low > 1n) {
    const middle = low + (high - low) / 2n;
    if (isAbove(middle) === before) low = middle;
    else high = middle;
  }
  return before ? {relation: '<=', value: low} : {relation: '>=', value: high};
}

// Returns where the roof `above` takes at least as long as `below` as a size varies: [{relation, value}], several if the
// times cross several times; empty if neither depends on the size.
function solveThresholds(state, above, below, index) {
  const line = lineOf(state, index), a = line.reduce(above.seconds), b = line.reduce(below.seconds);
  if (![...a, ...b].some((t) => t.factors.length > 0)) return [];
  const difference = line.reduce([...a, ...b.map((t) => makeTerm(-t.n, t.d, t.factors))]);
  if (difference.every((t) => t.factors.every((f) => f === index))) {
    const signs = difference.sort((x, y) => x.factors.length - y.factors.length).map((t) => t.n > 0n);
    const changes = signs.filter((sign, i) => i > 0 && sign !== signs[i - 1]).length;
    const last = (1n << 63n) - 1n, isAbove = (x) => evaluateExactly(difference, {[index]: x}).n >= 0n;
    if (changes <= 1) return isAbove(1n) === isAbove(last) ? always(isAbove(1n)) : [bisect(1n, last, isAbove)];
  }
  return searchThresholds(line, {a, b, difference});
}

function searchThresholds(line, {a, b, difference}) {
  const height = (real) => Math.log(evaluateAsDouble(a, real) / evaluateAsDouble(b, real));
  const distance = (size) => Math.abs(height(line.at(size).real)), isPastMinimum = (size) => distance(size) <= distance(size + 1n);
  const isAbove = (size) => {
    const values = line.at(size), h = values ? height(values.real) : -1;
    return Math.abs(h) > 1e-9 ? h > 0 : evaluateExactly(difference, values.integers).n >= 0n;
  };
  const all = line.samples.map(({size, real}) => ({size, height: height(real)})), curve = [];
  all.forEach((sample, i) => {
    curve.push(sample);
    if (i === 0 || i + 1 === all.length || all[i + 1].size - all[i - 1].size < 3) return;
    const [before, current, after] = all.slice(i - 1, i + 2).map((s) => Math.abs(s.height));
    if (current > 0.2 || current > before || current > after) return;  // no minimum close to equal times
    const {value} = bisect(BigInt(all[i - 1].size), BigInt(all[i + 1].size), isPastMinimum);
    curve.push({size: Number(value), height: height(line.at(value).real)});
  });
  curve.sort((x, y) => x.size - y.size);
  const out = [], answers = curve.map((s) => (Math.abs(s.height) > 1e-9 ? s.height > 0 : isAbove(BigInt(s.size))));
  for (let i = 1; i < curve.length; ++i)
    if (answers[i] !== answers[i - 1]) out.push(bisect(BigInt(curve[i - 1].size), BigInt(curve[i].size), isAbove));
  return out.length > 0 || curve.length < 2 ? out : always(answers[0]);
}

// Returns the threshold from which both conditions hold or, with `either`, one of them; null if no single one says it.
function combineThresholds(a, b, either) {
  const [absorbing, neutral] = either ? ['always', 'never'] : ['never', 'always'];
  if (a.relation === absorbing || b.relation === neutral) return a;
  if (b.relation === absorbing || a.relation === neutral) return b;
  if (a.relation !== b.relation) {
    const [last, first] = a.relation === '<=' ? [a.value, b.value] : [b.value, a.value];
    return either && last + 1n >= first ? {relation: 'always'} : null;
  }
  return (a.relation === '>=') === (a.value < b.value) === either ? a : b;
}

// Returns where the longer of two units, which run concurrently, takes at least as long as another roof.
function combineUnits([first = [], second = []]) {
  const is = (relation, list) => list.length === 1 && list[0].relation === relation;
  if (!second.length || is('never', second) || is('always', first)) return first;
  if (!first.length || is('never', first) || is('always', second)) return second;
  const both = first.length === 1 && second.length === 1 ? combineThresholds(first[0], second[0], true) : null;
  return both ? [both] : [...first, ...second];
}

// Returns the thresholds at the next sizes of which all derived sizes are whole; those without one nearby are left out.
function moveToWholeSizes(state, index, thresholds) {
  const line = lineOf(state, index), isWhole = (values) => values && !findFraction(state.context.program, values.integers);
  return thresholds.flatMap((t) => {
    if (t.value === undefined) return [t];
    const step = t.relation === '>=' ? 1n : -1n;
    for (let value = t.value, steps = 0; value >= 1n && steps < 64; value += step, ++steps)
      if (isWhole(line.at(value))) return [{...t, value}];
    return [];
  });
}

// Returns where a row's compute time exceeds the time of another roof.
function computeThresholds(state, row, index, other = 'memory') {
  if (index < 0 || !row[other]) return [];
  const {solved} = lineOf(state, index), key = row[other];
  if (!solved.has(key)) solved.set(key, combineUnits(row.compute.map((unit) => moveToWholeSizes(state, index, solveThresholds(state, unit, key, index)))));
  return solved.get(key);
}

// Returns from which size every product is compute-bound; null if unknown, or if some are from a size and others up to one.
function everyProductThreshold(state, index) {
  const all = [];
  for (const k of state.kernels.filter(({peak, row}) => peak && row.product))
    for (const other of ['memory', 'network']) {
      const found = computeThresholds(state, k.row, index, other);
      if (found.length > 1 || (found.length === 0 && (k.math ?? 0) < (k[other] ?? 0))) return null;
      all.push(...found);
    }
  return all.length > 0 ? all.reduce((a, b) => a && combineThresholds(a, b, false)) : null;
}

// Returns the largest size whose peak memory fits; null if any fits, 0n if none does.
function maxSizeThatFits(state, index) {
  const {capacity, program} = state.context, line = lineOf(state, index), largest = 1n << 50n;
  const changes = program.live.map((change) => line.reduce(change));
  const bytesAt = (values) => (values ? findPeak(changes, values.real) : Infinity);
  const fits = (size) => size === 0n || bytesAt(line.at(size)) <= capacity;
  if (capacity === null || fits(largest)) return null;
  let {value} = bisect(0n, largest, fits);
  while (value > 0n && findFraction(program, line.at(value).integers)) value -= 1n;
  return value;
}
