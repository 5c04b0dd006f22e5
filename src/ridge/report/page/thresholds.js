// Sizes of a dimension at which the limiter changes, with the other dimensions fixed. If both counts are linear in the size,
// the integer is solved for exactly. Otherwise it is searched for, as in roofline/sizes/crossings.h: at sizes that grow by
// eight percent, then by bisection.

// Returns a function that resolves all sizes with one of them replaced; derived sizes follow.
// Shards that are equal at the given sizes stay equal, because the program's formula is D/4 there and not ceil(D/4).
function makeSizeResolver(context, values, sizeIndex, integers) {
  const {sizes} = context.program, varied = [...values];
  const equal = sizes.map((s) => s.part && integers[s.part.size] % s.part.parts === 0n);
  const cached = {value: null, sizes: null}, approximateValues = values.map(Number);
  const exact = (value) => {
    if (cached.value === value) return cached.sizes;
    varied[sizeIndex] = value;
    cached.value = value;
    cached.sizes = resolveSizes(sizes, varied);
    equal.forEach((is, i) => {
      if (is) cached.sizes.real[i] = cached.sizes.real[sizes[i].part.size] / Number(sizes[i].part.parts);
    });
    return cached.sizes;
  };
  // Returns all sizes in doubles, or null if one is invalid.
  exact.real = (value) => {
    approximateValues[sizeIndex] = value;
    const real = equal.some(Boolean) ? null : resolveSizesAsDouble(sizes, approximateValues);
    if (real) return real;
    const resolved = exact(BigInt(value));
    return resolved.error ? null : resolved.real;
  };
  return exact;
}

// Returns each size as a polynomial in the size at `sizeIndex`: integer coefficients by power, [constant, slope, ...], over
// `d`; null if the size is no such polynomial.
function sizesInPowers(sizes, integers, sizeIndex) {
  const out = [], plain = (powers) => ({powers, d: 1n});
  sizes.forEach((size, i) => {
    if (i === sizeIndex) {
      out.push(plain([0n, 1n]));
    } else if (size.follows) {
      const ends = size.follows.some((t) => t.n < 0n) && termsVary(size.follows, out);
      out.push(ends ? null : collectPowers(size.follows, out));
    } else if (size.part && variesWithSize(out[size.part.size])) {
      const base = out[size.part.size], equal = integers[size.part.size] % size.part.parts === 0n;
      out.push(base && equal ? {powers: base.powers, d: base.d * size.part.parts} : null);
    } else if (size.mask && maskVaries(size.mask, out)) {
      out.push(null);
    } else {
      out.push(plain([integers[i]]));
    }
  });
  return out;
}

const variesWithSize = (one) => one === null || one.powers.length > 1;
const termsVary = (terms, powers) => terms.some((t) => t.sizes.some((s) => variesWithSize(powers[s])));
const maskVaries = (mask, powers) =>
  [mask.rows, mask.columns].some((s) => variesWithSize(powers[s])) ||
  [mask.lower, mask.upper].some((terms) => terms && termsVary(terms, powers));

function multiplyPowers(a, b) {
  const out = new Array(a.length + b.length - 1).fill(0n);
  a.forEach((x, i) => b.forEach((y, j) => { out[i + j] += x * y; }));
  return out;
}

// Returns a polynomial in sizes as one in the varied size, or null if that is not possible.
function collectPowers(terms, powers) {
  const parts = [];
  let d = 1n;
  for (const t of terms) {
    let product = [t.n], below = t.d;
    for (const s of t.sizes) {
      if (!powers[s]) return null;
      product = multiplyPowers(product, powers[s].powers);
      below *= powers[s].d;
    }
    if (d % below !== 0n) d = below % d === 0n ? below : d * below;
    parts.push({product, below});
  }
  const out = [0n];
  for (const {product, below} of parts)
    product.forEach((x, i) => { out[i] = (out[i] ?? 0n) + x * (d / below); });
  return {powers: out, d};
}

// Returns above*rate - below*peak as integer coefficients by power, divided by the lowest power that both share.
function subtractInPowers(above, below, peak, rate) {
  const p = toBinary(peak), r = toBinary(rate), least = Math.min(p.exponent, r.exponent);
  const left = below.d * (r.mantissa << BigInt(r.exponent - least));
  const right = above.d * (p.mantissa << BigInt(p.exponent - least));
  const out = [];
  for (let i = 0; i < Math.max(above.powers.length, below.powers.length); ++i)
    out.push((above.powers[i] ?? 0n) * left - (below.powers[i] ?? 0n) * right);
  const shared = [above, below].map((c) => c.powers.findIndex((x) => x !== 0n)).filter((i) => i >= 0);
  const low = shared.length > 0 ? Math.min(...shared) : 0;
  const cut = out.slice(low);
  while (cut.length > 1 && cut[cut.length - 1] === 0n) cut.pop();
  return cut;
}

// Solves a*x + b >= 0 for integers x >= 1.
function solveLinear(b, a) {
  const atFirst = a + b >= 0n, atLast = a * (COUNT_LIMIT - 1n) + b >= 0n;
  if (atFirst === atLast) return [{relation: atFirst ? 'always' : 'never'}];
  return atFirst ? [{relation: '<=', value: floorDivide(b, -a)}] : [{relation: '>=', value: -floorDivide(b, a)}];
}

const evaluatePowers = (powers, x) => powers.reduceRight((sum, c) => sum * x + c, 0);

function makeComparison(pair, powers, resolve) {
  const {above, below, peak, rate} = pair;
  const a = collectPowers(above, powers), b = collectPowers(below, powers);
  if (a && b) {
    const up = a.powers.map((x) => Number(x) / Number(a.d)), down = b.powers.map((x) => Number(x) / Number(b.d));
    const exact = subtractInPowers(a, b, peak, rate);
    return {
      line: exact.length <= 2 ? exact : null,
      ratio: (x) => evaluatePowers(up, x) / evaluatePowers(down, x) * (rate / peak),
      evaluateExactly: (x) => exact.reduceRight((sum, c) => sum * x + c, 0n) >= 0n,
    };
  }
  return {
    line: null,
    ratio: (x) => {
      const real = resolve.real(x);
      return real ? evaluateAsDouble(above, real) / evaluateAsDouble(below, real) * (rate / peak) : NaN;
    },
    evaluateExactly: (x) => {
      const resolved = resolve(x);
      return !resolved.error && takesAtLeastAsLong(evaluateExactly(above, resolved.integers), peak, evaluateExactly(below, resolved.integers), rate);
    },
  };
}

const isAbove = (comparison, x) => {
  const approximate = comparison.ratio(Number(x));
  return Math.abs(approximate - 1) > 1e-9 ? approximate > 1 : comparison.evaluateExactly(BigInt(x));
};

// Samples log(ratio) at all sizes up to 16, then in steps of 8 %, and at local minima of its absolute value.
function sampleRatio(comparison) {
  const all = [];
  for (let size = 1; size < 2 ** 62; size = size < 16 ? size + 1 : Math.trunc(size * 1.08)) {
    const ratio = comparison.ratio(size);
    if (!Number.isNaN(ratio)) all.push({size, height: Math.log(ratio)});
    else if (all.length > 0) break;  // a count exceeds its limit, here and at all larger sizes
  }
  const out = [];
  all.forEach((sample, i) => {
    out.push(sample);
    if (i === 0 || i + 1 === all.length || all[i + 1].size - all[i - 1].size < 3) return;
    const current = Math.abs(sample.height), previous = Math.abs(all[i - 1].height), after = Math.abs(all[i + 1].height);
    if (current > previous || current > after || current > 0.2) return;
    const between = findMinimum(comparison, all[i - 1].size, all[i + 1].size);
    out.push({size: between, height: Math.log(comparison.ratio(between))});
  });
  return out.sort((a, b) => a.size - b.size);
}

function findMinimum(comparison, low, high) {
  const distance = (size) => Math.abs(Math.log(comparison.ratio(size)));
  while (high - low > 2) {
    const third = Math.trunc((high - low) / 3);
    if (low + third === low || high - third === high) break;  // doubles above 2^53 are further apart
    if (distance(low + third) < distance(high - third)) high -= third;
    else low += third;
  }
  return low + Math.trunc((high - low) / 2);
}

function searchCrossings(comparison) {
  const curve = sampleRatio(comparison);
  if (curve.length < 2) return [];
  const answer = (s) => (Math.abs(s.height) > 1e-9 ? s.height > 0 : comparison.evaluateExactly(BigInt(s.size)));
  let previous = answer(curve[0]);
  const first = previous, out = [];
  for (let i = 1; i < curve.length; ++i) {
    const current = answer(curve[i]);
    if (current === previous) continue;
    let low = BigInt(curve[i - 1].size), high = BigInt(curve[i].size);
    while (high - low > 1n) {
      const middle = low + (high - low) / 2n;
      if (isAbove(comparison, middle) === previous) low = middle;
      else high = middle;
    }
    out.push(current ? {relation: '>=', value: high} : {relation: '<=', value: low});
    previous = current;
  }
  return out.length > 0 ? out : [{relation: first ? 'always' : 'never'}];
}

// Returns where T_above >= T_below as the size at `sizeIndex` varies: [{relation, value}], several if the times cross several
// times; empty if neither depends on the size.
function solveThresholds(state, pair, sizeIndex, shared = {}) {
  const {context, sizes, values} = state;
  shared.powers = shared.powers ?? sizesInPowers(context.program.sizes, sizes.integers, sizeIndex);
  shared.resolve = shared.resolve ?? makeSizeResolver(context, values, sizeIndex, sizes.integers);
  const {powers, resolve} = shared;
  if (![pair.above, pair.below].some((terms) => termsVary(terms, powers))) return [];
  if (pair.above.length === 0) return [{relation: 'never'}];
  const comparison = makeComparison(pair, powers, resolve);
  return comparison.line ? solveLinear(comparison.line[0], comparison.line[1] ?? 0n) : searchCrossings(comparison);
}

// Returns the pairs of roofs of a statement or of the total: {above, below, peak, rate, roofs}.
function makeRoofPairs(flops, peak, bytes, load, context) {
  const out = [], {bandwidth, network} = context;
  if (peak) out.push({above: flops, below: bytes, peak, rate: bandwidth, roofs: 'compute memory'});
  if (!network || load.length === 0) return out;
  if (peak) out.push({above: flops, below: load, peak, rate: network.rate, roofs: 'compute network'});
  out.push({above: bytes, below: load, peak: bandwidth, rate: network.rate, roofs: 'memory network'});
  return out;
}

function roofPairsOfKernel(context, k) {
  const work = weightFlops(context, k.kernel.statements);
  const load = context.network ? k.kernel.statements.flatMap((s) => context.network.load[s]) : [];
  return makeRoofPairs(work?.flops ?? [], work?.peak ?? k.peak?.rate ?? 0, k.kernel.bytes, load, context);
}

function roofPairsOfTotal(context) {
  const {program, network} = context, work = weightFlops(context, program.statements.map((_, s) => s));
  return makeRoofPairs(work?.flops ?? [], work?.peak ?? 0, program.kernels.flatMap((k) => k.bytes),
    network ? network.load.flat() : [], context);
}

// Returns the threshold at which all of `all` hold, or null if some hold from a size and others up to a size.
function strictestThreshold(all) {
  let out = null;
  for (const t of all) {
    if (t.relation === 'never') return t;
    if (t.relation === 'always') continue;
    if (out && out.relation !== t.relation) return null;
    if (!out || (t.relation === '>=' ? t.value > out.value : t.value < out.value)) out = t;
  }
  return out ?? (all.length > 0 ? all[0] : null);
}

// Returns from which size every product is compute-bound, or null if unknown.
function everyProductThreshold(state, sizeIndex, shared = {}) {
  const all = [], {context} = state;
  for (const k of state.kernels) {
    if (!k.peak || !k.kernel.statements.some((s) => context.program.statements[s].product)) continue;
    for (const pair of roofPairsOfKernel(context, k)) {
      if (!pair.roofs.startsWith('compute')) continue;
      const found = solveThresholds(state, pair, sizeIndex, shared);
      if (found.length > 1) return null;
      if (found.length === 0 && !((k.math ?? 0) >= Math.max(k.memory, k.network ?? 0))) return null;
      all.push(...found);
    }
  }
  return strictestThreshold(all);
}

// Returns the largest size whose peak memory fits; null if any fits, 0n if none does.
function maxSizeThatFits(state, sizeIndex) {
  const {context, values} = state, resolve = makeSizeResolver(context, values, sizeIndex, state.sizes.integers);
  if (context.capacity === null) return null;
  const fits = (value) => {
    const real = resolve.real(Number(value));  // below 2^53
    return real !== null && findPeakMemory(context.program, real).bytes <= context.capacity;
  };
  let low = 0n, high = 1n << 50n;
  if (fits(high)) return null;
  while (high - low > 1n) {
    const middle = low + (high - low) / 2n;
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}
