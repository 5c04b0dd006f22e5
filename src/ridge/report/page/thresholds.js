// From which size of a dimension on another roof binds, the others held at their values. Where both counts are straight
// lines in the size, the whole number is solved for exactly; else it is searched for among all whole numbers, as the
// program searches (roofline/sizes/crossings.h): at sizes that grow by eight per cent, then by bisection.

// What a search looks at: sizes with one moved, those that follow it moved along.
// Parts that are equal at the sizes given stay equal, as the program's formulas say D/4 there and not ceil(D/4).
function mover(setting, own, place, whole) {
  const {sizes} = setting.program, moved = [...own];
  const equal = sizes.map((s) => s.part && whole[s.part.size] % s.part.parts === 0n);
  const last = {value: null, at: null}, small = own.map(Number);
  const exact = (value) => {
    if (last.value === value) return last.at;
    moved[place] = value;
    last.value = value;
    last.at = resolved(sizes, moved);
    equal.forEach((is, i) => {
      if (is) last.at.real[i] = last.at.real[sizes[i].part.size] / Number(sizes[i].part.parts);
    });
    return last.at;
  };
  // All sizes in doubles; null: one of them is none.
  exact.real = (value) => {
    small[place] = value;
    const real = equal.some(Boolean) ? null : quickSizes(sizes, small);
    if (real) return real;
    const there = exact(BigInt(value));
    return there.fault ? null : there.real;
  };
  return exact;
}

// Each size as a polynomial in the moved one: whole coefficients by power, [constant, slope, …], over `d`; null: it is
// none, or has an end.
function inPowers(sizes, whole, place) {
  const out = [], plain = (powers) => ({powers, d: 1n});
  sizes.forEach((size, i) => {
    if (i === place) {
      out.push(plain([0n, 1n]));
    } else if (size.follows) {
      const ends = size.follows.some((t) => t.n < 0n) && touches(size.follows, out);
      out.push(ends ? null : collected(size.follows, out));
    } else if (size.part && moves(out[size.part.size])) {
      const base = out[size.part.size], equal = whole[size.part.size] % size.part.parts === 0n;
      out.push(base && equal ? {powers: base.powers, d: base.d * size.part.parts} : null);
    } else if (size.mask && maskMoves(size.mask, out)) {
      out.push(null);
    } else {
      out.push(plain([whole[i]]));
    }
  });
  return out;
}

const moves = (one) => one === null || one.powers.length > 1;
const touches = (terms, powers) => terms.some((t) => t.sizes.some((s) => moves(powers[s])));
const maskMoves = (mask, powers) =>
  [mask.rows, mask.columns].some((s) => moves(powers[s])) ||
  [mask.lower, mask.upper].some((terms) => terms && touches(terms, powers));

function times(a, b) {
  const out = new Array(a.length + b.length - 1).fill(0n);
  a.forEach((x, i) => b.forEach((y, j) => { out[i + j] += x * y; }));
  return out;
}

// A polynomial in sizes as one in the moved size. Null: it is none.
function collected(terms, powers) {
  const parts = [];
  let d = 1n;
  for (const t of terms) {
    let product = [t.n], below = t.d;
    for (const s of t.sizes) {
      if (!powers[s]) return null;
      product = times(product, powers[s].powers);
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

// above*rate - below*peak as whole coefficients by power, the lowest power that all share taken out.
function difference(above, below, peak, rate) {
  const p = binary(peak), r = binary(rate), least = Math.min(p.exponent, r.exponent);
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

// a*x + b >= 0 for which whole x from 1 on?
function solvedLine(b, a) {
  const atFirst = a + b >= 0n, atLast = a * (BEYOND - 1n) + b >= 0n;
  if (atFirst === atLast) return [{relation: atFirst ? 'always' : 'never'}];
  return atFirst ? [{relation: '<=', value: floorDivided(b, -a)}] : [{relation: '>=', value: -floorDivided(b, a)}];
}

const valueIn = (powers, x) => powers.reduceRight((sum, c) => sum * x + c, 0);

function comparisonOf(meeting, powers, at) {
  const {above, below, peak, rate} = meeting;
  const a = collected(above, powers), b = collected(below, powers);
  if (a && b) {
    const up = a.powers.map((x) => Number(x) / Number(a.d)), down = b.powers.map((x) => Number(x) / Number(b.d));
    const exact = difference(a, b, peak, rate);
    return {
      line: exact.length <= 2 ? exact : null,
      ratio: (x) => valueIn(up, x) / valueIn(down, x) * (rate / peak),
      exactly: (x) => exact.reduceRight((sum, c) => sum * x + c, 0n) >= 0n,
    };
  }
  return {
    line: null,
    ratio: (x) => {
      const real = at.real(x);
      return real ? realOf(above, real) / realOf(below, real) * (rate / peak) : NaN;
    },
    exactly: (x) => {
      const there = at(x);
      return !there.fault && takesAsLong(exactly(above, there.whole), peak, exactly(below, there.whole), rate);
    },
  };
}

const isAbove = (comparison, x) => {
  const rough = comparison.ratio(Number(x));
  return Math.abs(rough - 1) > 1e-9 ? rough > 1 : comparison.exactly(BigInt(x));
};

// All sizes up to 16, then in steps of 8 %; nearer where the two almost touch.
function followed(comparison) {
  const all = [];
  for (let size = 1; size < 2 ** 62; size = size < 16 ? size + 1 : Math.trunc(size * 1.08)) {
    const ratio = comparison.ratio(size);
    if (!Number.isNaN(ratio)) all.push({size, height: Math.log(ratio)});
    else if (all.length > 0) break;  // a count has left what is counted, and does so ever after
  }
  const out = [];
  all.forEach((sample, i) => {
    out.push(sample);
    if (i === 0 || i + 1 === all.length || all[i + 1].size - all[i - 1].size < 3) return;
    const here = Math.abs(sample.height), before = Math.abs(all[i - 1].height), after = Math.abs(all[i + 1].height);
    if (here > before || here > after || here > 0.2) return;
    const between = nearest(comparison, all[i - 1].size, all[i + 1].size);
    out.push({size: between, height: Math.log(comparison.ratio(between))});
  });
  return out.sort((a, b) => a.size - b.size);
}

function nearest(comparison, low, high) {
  const distance = (size) => Math.abs(Math.log(comparison.ratio(size)));
  while (high - low > 2) {
    const third = Math.trunc((high - low) / 3);
    if (low + third === low || high - third === high) break;  // beyond 2^53 doubles lie further apart
    if (distance(low + third) < distance(high - third)) high -= third;
    else low += third;
  }
  return low + Math.trunc((high - low) / 2);
}

function searched(comparison) {
  const curve = followed(comparison);
  if (curve.length < 2) return [];
  const answer = (s) => (Math.abs(s.height) > 1e-9 ? s.height > 0 : comparison.exactly(BigInt(s.size)));
  let before = answer(curve[0]);
  const first = before, out = [];
  for (let i = 1; i < curve.length; ++i) {
    const here = answer(curve[i]);
    if (here === before) continue;
    let low = BigInt(curve[i - 1].size), high = BigInt(curve[i].size);
    while (high - low > 1n) {
      const middle = low + (high - low) / 2n;
      if (isAbove(comparison, middle) === before) low = middle;
      else high = middle;
    }
    out.push(here ? {relation: '>=', value: high} : {relation: '<=', value: low});
    before = here;
  }
  return out.length > 0 ? out : [{relation: first ? 'always' : 'never'}];
}

// Where T_above >= T_below as the size at that place moves: [{relation, value}], several where they cross several
// times; empty: the size moves neither.
function thresholdsOf(state, meeting, place, shared = {}) {
  const {setting, sizes, own} = state;
  shared.powers = shared.powers ?? inPowers(setting.program.sizes, sizes.whole, place);
  shared.at = shared.at ?? mover(setting, own, place, sizes.whole);
  const {powers, at} = shared;
  if (![meeting.above, meeting.below].some((terms) => touches(terms, powers))) return [];
  if (meeting.above.length === 0) return [{relation: 'never'}];
  const comparison = comparisonOf(meeting, powers, at);
  return comparison.line ? solvedLine(comparison.line[0], comparison.line[1] ?? 0n) : searched(comparison);
}

// The pairs of roofs of one statement, or of the sum of all: {above, below, peak, rate, roofs}.
function meetingsOf(flops, peak, bytes, load, setting) {
  const out = [], {bandwidth, network} = setting;
  if (peak) out.push({above: flops, below: bytes, peak, rate: bandwidth, roofs: 'compute memory'});
  if (!network || load.length === 0) return out;
  if (peak) out.push({above: flops, below: load, peak, rate: network.rate, roofs: 'compute network'});
  out.push({above: bytes, below: load, peak: bandwidth, rate: network.rate, roofs: 'memory network'});
  return out;
}

function meetingsOfKernel(setting, k) {
  const work = weighed(setting, k.kernel.statements);
  const load = setting.network ? k.kernel.statements.flatMap((s) => setting.network.load[s]) : [];
  return meetingsOf(work?.flops ?? [], work?.peak ?? k.peak?.rate ?? 0, k.kernel.bytes, load, setting);
}

function meetingsOfTotal(setting) {
  const {program, network} = setting, work = weighed(setting, program.statements.map((_, s) => s));
  return meetingsOf(work?.flops ?? [], work?.peak ?? 0, program.kernels.flatMap((k) => k.bytes),
    network ? network.load.flat() : [], setting);
}

// What holds where all of them do; null: they hold from one size on and up to another, or of one it is not known.
function narrowest(all) {
  let out = null;
  for (const t of all) {
    if (t.relation === 'never') return t;
    if (t.relation === 'always') continue;
    if (out && out.relation !== t.relation) return null;
    if (!out || (t.relation === '>=' ? t.value > out.value : t.value < out.value)) out = t;
  }
  return out ?? (all.length > 0 ? all[0] : null);
}

// From which size on every product is compute-bound, each for itself.
function everyProduct(state, place, shared = {}) {
  const all = [], {setting} = state;
  for (const k of state.kernels) {
    if (!k.peak || !k.kernel.statements.some((s) => setting.program.statements[s].product)) continue;
    for (const meeting of meetingsOfKernel(setting, k)) {
      if (!meeting.roofs.startsWith('compute')) continue;
      const found = thresholdsOf(state, meeting, place, shared);
      if (found.length > 1) return null;
      if (found.length === 0 && !((k.math ?? 0) >= Math.max(k.memory, k.network ?? 0))) return null;
      all.push(...found);
    }
  }
  return narrowest(all);
}

// The largest size that fits into the memory, by what is held at once; null: any does, 0n: none.
function fitsUpTo(state, place) {
  const {setting, own} = state, at = mover(setting, own, place, state.sizes.whole);
  if (setting.capacity === null) return null;
  const fits = (value) => {
    const real = at.real(Number(value));  // below 2^53
    return real !== null && heldAt(setting.program, real).bytes <= setting.capacity;
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
