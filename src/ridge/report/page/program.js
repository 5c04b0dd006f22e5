// Interprets the flat program that page_data.cc emits: counts are polynomials in values, values follow from independent
// sizes, and rows (kernels, the fused kernel, the total) list the counts and rates of their roofs. Counts are exact
// (BigInt). Times are computed in doubles in the same order of terms as the program does, so that both agree to the bit.

const makeTerm = (n, d, factors) => ({n, d, real: Number(n) / Number(d), factors});
const toTerms = ([d, ...terms]) => terms.map(([n, ...factors]) => makeTerm(BigInt(n), BigInt(d), factors));

// Returns the exact value as a fraction {n, d}, not in lowest terms.
function evaluateExactly(terms, integers) {
  let n = 0n, d = 1n;
  for (const term of terms) {
    const product = term.factors.reduce((x, i) => x * integers[i], term.n);
    n = term.d === d ? n + product : n * term.d + product * d;
    if (term.d !== d) d *= term.d;
  }
  return {n, d};
}

// Returns the value rounded up; an odd number of int4 elements has half a byte.
function evaluateRoundedUp(terms, integers) {
  const {n, d} = evaluateExactly(terms, integers), whole = n / d;
  return n > whole * d ? whole + 1n : whole;
}

function evaluateAsDouble(terms, real) {
  return terms.reduce((sum, t) => sum + t.factors.reduce((x, i) => x * real[i], t.real), 0);
}

const sumOf = (all) => all.reduce((sum, x) => sum + x, 0);

function parseProgram(given) {
  const parseValue = (v) => ({
    ...v, value: v.value === undefined ? null : BigInt(v.value), free: !v.count,
    terms: v.count ? [v.count, v.low, v.high].map((count) => (count ? toTerms(count) : null)) : [],
  });
  const counts = given.counts.map(toTerms);
  return {...given, values: given.values.map(parseValue), counts, live: given.live.map((i) => counts[i])};
}

// Computes the values that `given` has null for. `error` says which one is invalid.
function computeValues(program, given) {
  const integers = [];
  let error = '';
  program.values.forEach((v, i) => {
    let value = given[i];
    if (value === null) {
      const [count, low, high] = v.terms.map((terms) => (terms ? evaluateRoundedUp(terms, integers) : null));
      value = count;
      if (low !== null && value < low) value = low;
      if (high !== null && value > high) value = high;
    }
    if (value >= 2 ** 63 || value <= -(2 ** 63)) error = error || `${v.name ?? 'a count'} exceeds 2^63`;
    else if (value < v.least) error = error || `${v.name} is below ${v.least}`;
    integers.push(value);
  });
  return {integers, real: integers.map(Number), error};
}

// Returns the first derived size that is no whole number, if any.
function findFraction(program, integers) {
  return program.values.find((v) => v.formula && evaluateExactly(v.terms[0], integers).n % v.terms[0][0].d !== 0n);
}

// Returns the terms divided by a rate, exactly: seconds.
function divideByRate(terms, rate) {
  let n = rate, d = 1n;
  for (; !Number.isInteger(n); n *= 2) d *= 2n;
  return terms.map((t) => makeTerm(t.n * d, t.d * BigInt(n), t.factors));
}

// Returns a roof of a row: its time is the sum of counts over rates. `seconds` is that sum as one polynomial.
function makeRoof(name, parts, fields = {}) {
  return {name, parts, ...fields, seconds: parts.flatMap(([terms, rate]) => divideByRate(terms, rate))};
}

// Returns a row with the counts and rates of its roofs on a machine.
function prepareRow(context, row, launches) {
  const {program, machine, link, bandwidth, launch} = context, count = (i) => program.counts[i];
  const statements = row.statements.map((s) => {
    const {flops, peaks} = program.statements[s], name = peaks.find((each) => machine.peaks[each] !== undefined) ?? peaks.at(-1), rate = machine.peaks[name];
    const load = program.math?.[machine.name]?.[s];
    return {flops: count(flops), load: count(load ?? flops), name, rate, known: rate !== undefined || count(flops).length === 0};
  });
  // The units of a kernel run concurrently, statements of one unit in sequence.
  const makeCompute = (unit) => {
    const members = statements.map((s, i) => i).filter((i) => statements[i].rate && statements[i].name.startsWith(unit));
    return makeRoof('compute', members.map((i) => [statements[i].load, statements[i].rate]), {members});
  };
  const sending = link ? row.statements.filter((s) => link.load[s] !== null) : [], launchSeconds = sumOf(Array(launches).fill(launch));
  return {
    ...row, statements, bytes: row.bytes.map(count), sent: sending.map((s) => count(link.sent[s])), launchSeconds,
    compute: (row.sequence ? [''] : ['matrix', 'vector']).map(makeCompute).filter((roof) => roof.parts.length > 0),
    memory: makeRoof('memory', row.bytes.map((i) => [count(i), bandwidth])),
    network: sending.length > 0 ? makeRoof('network', sending.map((s) => [count(link.load[s]), link.rate]), {
      transfers: sending.flatMap((s) => link.transfers[s]).map(([bytes, links, protocols]) => ({bytes: count(bytes), links, protocols})),
    }) : null,
    overhead: launch > 0 ? makeRoof('overhead', [[toTerms([1, [1]]), 1 / launchSeconds]], {time: launchSeconds}) : null,
    missing: [...new Set(statements.filter((s) => !s.known).map((s) => `${s.name} peak of ${machine.name}`))].join(', '),
  };
}

// Returns everything about a program and a machine that does not depend on sizes.
function makeContext(program, machine) {
  const [level, bandwidth, capacity] = machine.memory[0] ?? ['', null, null];
  const context = {program, machine, link: program.links?.[machine.name], level, bandwidth, capacity, launch: machine.launch ?? 0, missing: ''};
  const lacking = program.statements.find((s) => s.required && !s.peaks.some((name) => machine.peaks[name]));
  if (lacking) context.missing = `a ${lacking.peaks[0].split(' ')[1]} peak of ${machine.name}`;
  if (!bandwidth) context.missing = `a bandwidth of ${machine.name}`;
  if (program.links && !context.link) context.missing = `a link of ${machine.name}`;
  if (context.missing) return context;
  context.kernels = program.kernels.map((row) => prepareRow(context, row, 1));
  context.fused = program.fused ? prepareRow(context, program.fused, 1) : null;
  context.total = prepareRow(context, program.total, program.kernels.length);
  return context;
}

// Returns a - b; times that differ by less than 1e-9 are compared exactly.
function compareRoofs(a, b, integers) {
  if (Math.abs(a.time - b.time) > 1e-9 * b.time) return a.time - b.time;
  const x = evaluateExactly(a.roof.seconds, integers), y = evaluateExactly(b.roof.seconds, integers);
  return Number(x.n * y.d - y.n * x.d);
}

// Returns the seconds of a transfer: those of the links, and no less than a timed library takes (transfer_cost.h).
function timeTransfer({bytes, links, protocols}, real) {
  const V = evaluateAsDouble(bytes, real), timeOf = ([wait, perByte]) => wait + V * perByte;
  return protocols.length > 0 ? Math.max(timeOf(links), Math.min(...protocols.map(timeOf))) : timeOf(links);
}

// Predicts a row: the longest roof is the lower bound.
function predictRow(context, row, {integers, real}) {
  const flops = row.statements.map((s) => evaluateRoundedUp(s.flops, integers)), moved = sumOf(row.bytes.map((b) => evaluateAsDouble(b, real)));
  const math = row.statements.map((s) => (s.rate ? Number(evaluateRoundedUp(s.load, integers)) / s.rate : 0));
  const timeOf = (roof) => roof.time ?? roof.transfers?.reduce((sum, t) => sum + timeTransfer(t, real), 0) ?? sumOf(roof.members?.map((i) => math[i]) ??
    roof.parts.map(([terms, rate]) => evaluateAsDouble(terms, real) / rate));
  const out = {
    row, name: row.name, called: row.called, text: row.text, missing: row.missing, flops: flops.reduce((sum, f) => sum + f, 0n),
    bytes: evaluateRoundedUp(row.bytes.flat(), integers), math: row.statements.some((s) => s.known) ? sumOf(math) : null,
    memory: timeOf(row.memory), network: row.network && timeOf(row.network),
    sent: row.network && sumOf(row.sent.map((s) => evaluateAsDouble(s, real))),
  };
  out.intensity = Number(out.flops) / moved;
  const peak = row.statements[math.indexOf(Math.max(...math))];
  out.peak = peak?.rate ? peak : null;
  const roofs = [...row.compute, row.memory, row.network, row.overhead].filter(Boolean).map((roof) => ({roof, time: timeOf(roof)}));
  out.lower = Math.max(...roofs.map((r) => r.time));
  out.upper = Math.max(out.lower, (out.math ?? 0) + out.memory + (out.network ?? 0));
  const [limiter, ...others] = roofs.sort((a, b) => compareRoofs(b, a, integers)).map((r) => r.roof.name);
  return Object.assign(out, {limiter, runnerUp: others.find((name) => name !== limiter) ?? null});
}

// Returns the largest sum of the first changes of the live bytes.
function findPeak(changes, real) {
  let live = 0;
  return Math.max(...changes.map((change) => live += evaluateAsDouble(change, real)));
}

// Predicts the program with these values of the free sizes (by index).
function evaluate(context, given) {
  const {program} = context, sizes = computeValues(program, given);
  const fraction = findFraction(program, sizes.integers), isUnknown = context.missing && `${context.missing} is unknown`;
  const error = isUnknown || sizes.error || (fraction && `${fraction.name} = ${fraction.formula} is not a whole number`);
  if (error) return {context, sizes, error};
  const kernels = context.kernels.map((row) => predictRow(context, row, sizes));
  const total = predictRow(context, context.total, sizes);
  for (const key of ['lower', 'upper']) total[key] = sumOf(kernels.map((k) => k[key]));
  for (const k of kernels) k.share = total.lower > 0 ? k.lower / total.lower : null;
  return {
    context, sizes, error: '', kernels, total, lines: [],
    fused: context.fused ? predictRow(context, context.fused, sizes) : null, peakMemory: findPeak(program.live, sizes.real),
  };
}
