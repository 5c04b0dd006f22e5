// Bounds of each statement on a machine, as in explain(): each count over its rate; the largest time is the lower bound.
// The limiter of a sum is the roof with the largest sum of times.

// Parses a program, including its polynomials.
function parseProgram(given) {
  const statements = given.statements.map((s) => ({
    ...s,
    flops: toPolynomial(s.flops),
    transfers: (s.transfers ?? []).map(([kind, axes, devices, bytes]) => ({
      kind, axes, devices: BigInt(devices), bytes: toPolynomial(bytes),
    })),
  }));
  const kernel = (k) => ({...k, bytes: toPolynomial(k.bytes)});
  return {
    ...given,
    sizes: parseSizes(given.sizes),
    statements,
    kernels: given.kernels.map(kernel),
    fused: given.fused ? kernel(given.fused) : null,
    tensors: given.tensors.map(([name, bytes, begin, end]) => ({name, bytes: toPolynomial(bytes), begin, end})),
  };
}

// Returns the peak that applies to a statement, {rate, unit, dtype}, or null if it is unknown.
function peakFor(statement, machine) {
  const onMatrix = statement.product && statement.dtype !== 'f32';
  const unit = onMatrix ? 'matrix' : 'vector', dtype = onMatrix ? statement.dtype : 'f32';
  const found = machine.peaks.find((p) => p[0] === unit && p[1] === dtype);
  return found ? {unit, dtype, rate: found[2]} : null;
}

const isIntegerType = (dtype) => dtype.startsWith('int');

// --- bytes sent and links used, as in network.h ---

function isOneHop(link) {
  return link.topology === 'switch' || link.topology === 'direct';
}

function usesBothDirections(transfer, link) {
  return link.topology === 'ring' && link.count > 1n && transfer.devices > 2n;
}

function countLinks(transfer, link) {
  if (link.topology === 'switch') return link.count;
  if (link.topology === 'direct') return bigMin(link.count, transfer.devices - 1n);
  if (link.topology !== 'ring') return 1n;
  return bigMin(link.count, (usesBothDirections(transfer, link) ? 2n : 1n) * BigInt(Math.max(1, transfer.axes)));
}

function countHops(transfer, link) {
  let once = 1n;
  if (!isOneHop(link)) once = usesBothDirections(transfer, link) ? transfer.devices / 2n : transfer.devices - 1n;
  return transfer.kind === 'all_reduce' ? 2n * once : once;
}

function sentBytes(transfer, link) {
  const n = transfer.devices, once = scalePolynomial(transfer.bytes, n - 1n, n);
  if (transfer.kind === 'all_reduce') return scalePolynomial(once, 2n);
  if (transfer.kind !== 'all_to_all' || isOneHop(link)) return once;
  return usesBothDirections(transfer, link) ? scalePolynomial(transfer.bytes, n * n / 4n, n) : scalePolynomial(transfer.bytes, n - 1n, 2n);
}

// Returns {rate, sent, load}: `sent` are the bytes that leave the chip, `load` the bytes at that rate with the same time,
// both per statement. Returns null if nothing is sent.
function makeNetwork(program, machine) {
  const all = program.statements.flatMap((s) => s.transfers);
  if (all.length === 0 && !program.split) return null;
  if (!machine.link) return {missing: `a link of ${machine.name}`};
  const link = {...machine.link, count: BigInt(machine.link.count)};
  const fewest = all.map((t) => countLinks(t, link)).reduce(bigMin, link.count);
  const rate = link.rate * Number(fewest);
  const sent = [], load = [];
  for (const statement of program.statements) {
    sent.push(statement.transfers.flatMap((t) => sentBytes(t, link)));
    load.push(statement.transfers.flatMap((t) => {
      const waiting = BigInt(Math.round(Number(countHops(t, link)) * link.latency * rate));
      const bytes = scalePolynomial(sentBytes(t, link), fewest, countLinks(t, link));
      return waiting > 0n ? [...bytes, ...toPolynomial([[waiting, 1]])] : bytes;
    }));
  }
  return {rate, sent, load, name: link.name};
}

// --- roofs ---

const ONE = [{n: 1n, d: 1n, real: 1, sizes: []}];

function takesLonger(a, b, integers) {
  if (Math.abs(a.time - b.time) > 1e-9 * b.time) return a.time > b.time;
  return takesAtLeastAsLong(evaluateExactly(a.count, integers), a.rate, evaluateExactly(b.count, integers), b.rate);
}

// Returns [limiter, runner-up].
function orderLimiters(roofs, integers) {
  const left = [...roofs], order = [];
  while (left.length > 0) {
    let top = 0;
    for (let i = 1; i < left.length; ++i)
      if (!takesLonger(left[top], left[i], integers)) top = i;
    order.push(left[top].name);
    left.splice(top, 1);
  }
  return [order[0], order.find((name) => name !== order[0]) ?? null];
}

function addLaunchRoof(roofs, launch) {
  if (launch > 0) roofs.push({name: 'overhead', count: ONE, rate: 1 / launch, time: launch});
}

// Returns everything about a program and a machine that does not depend on sizes.
function makeContext(program, machine) {
  const network = makeNetwork(program, machine);
  const peaks = program.statements.map((s) => peakFor(s, machine));
  const lacking = program.statements.find((s, i) => s.product && s.dtype !== 'f32' && !peaks[i]);
  const memory = machine.memory[0];
  let missing = '';
  if (lacking) missing = `a ${lacking.dtype} peak of ${machine.name}`;
  if (!memory || !memory[1]) missing = `a bandwidth of ${machine.name}`;
  if (network && network.missing) missing = network.missing;
  return {
    program, machine, peaks, network, missing,
    bandwidth: memory ? memory[1] : null, capacity: memory ? memory[2] : null, level: memory ? memory[0] : '',
    launch: machine.launch ?? 0,
  };
}

// Returns the FLOPs of several statements, scaled as if all ran at the first one's peak, or null if there are none.
function weightFlops(context, statements, unit) {
  let first = null;
  const flops = [];
  for (const s of statements) {
    const peak = context.peaks[s], terms = context.program.statements[s].flops;
    if (!peak || terms.length === 0 || (unit && peak.unit !== unit)) continue;
    first = first ?? peak;
    if (peak.rate === first.rate) {
      flops.push(...terms);
      continue;
    }
    const a = toBinary(first.rate), b = toBinary(peak.rate), shift = a.exponent - b.exponent;
    const up = shift > 0 ? BigInt(shift) : 0n, down = shift < 0 ? BigInt(-shift) : 0n;
    flops.push(...scalePolynomial(terms, a.mantissa << up, b.mantissa << down));
  }
  return first ? {flops, peak: first.rate} : null;
}

function evaluateStatement(context, s, bytes, sizes) {
  const {program, network, bandwidth} = context, statement = program.statements[s], peak = context.peaks[s];
  const flops = evaluateRoundedUp(statement.flops, sizes.integers), moved = evaluateAsDouble(bytes, sizes.real);
  const out = {flops, bytes: evaluateRoundedUp(bytes, sizes.integers), moved, peak, intensity: Number(flops) / moved};
  out.memory = moved / bandwidth;
  out.math = peak ? Number(flops) / peak.rate : statement.flops.length === 0 ? 0 : null;
  out.missing = peak || statement.flops.length === 0 ? '' : `vector f32 peak of ${context.machine.name}`;
  const sends = network && network.sent[s].length > 0;
  out.sent = sends ? evaluateAsDouble(network.sent[s], sizes.real) : null;
  out.network = sends ? evaluateAsDouble(network.load[s], sizes.real) / network.rate : null;
  out.ridge = peak ? peak.rate / bandwidth : null;
  return out;
}

// Predicts a kernel of one statement.
function predictStatement(context, s, bytes, sizes) {
  const out = evaluateStatement(context, s, bytes, sizes), {network, launch} = context;
  out.launch = launch;
  const math = out.math ?? 0, net = out.network ?? 0;
  out.lower = Math.max(math, out.memory, net, launch);
  out.upper = Math.max(math + out.memory + net, launch);
  const roofs = [];
  if (out.peak) roofs.push({name: 'compute', count: context.program.statements[s].flops, rate: out.peak.rate, time: math});
  roofs.push({name: 'memory', count: bytes, rate: context.bandwidth, time: out.memory});
  if (out.network !== null) roofs.push({name: 'network', count: network.load[s], rate: network.rate, time: net});
  addLaunchRoof(roofs, launch);
  [out.limiter, out.runnerUp] = orderLimiters(roofs, sizes.integers);
  return out;
}

const sumField = (parts, key) =>
  parts.reduce((sum, p) => (p[key] === null ? sum : (sum ?? 0) + p[key]), null);

// Predicts several statements as one kernel. Matrix and vector unit run concurrently; statements of one unit in sequence.
function predictFusedKernel(context, kernel, sizes) {
  const {network, launch} = context;
  const parts = kernel.statements.map((s) => evaluateStatement(context, s, [], sizes));
  const flops = parts.reduce((sum, p) => sum + p.flops, 0n), moved = evaluateAsDouble(kernel.bytes, sizes.real);
  const out = {flops, bytes: evaluateRoundedUp(kernel.bytes, sizes.integers), moved, intensity: Number(flops) / moved, launch};
  out.math = sumField(parts, 'math');
  out.network = sumField(parts, 'network');
  out.sent = sumField(parts, 'sent');
  out.memory = moved / context.bandwidth;
  out.missing = [...new Set(parts.map((p) => p.missing).filter(Boolean))].join(', ');
  const same = parts.every((p) => p.peak && p.peak.rate === parts[0].peak?.rate && p.peak.unit === parts[0].peak.unit);
  const longest = parts.reduce((a, b) => ((b.math ?? 0) > (a.math ?? 0) ? b : a));
  out.peak = same ? parts[0].peak : longest.peak;
  out.ridge = out.peak ? out.peak.rate / context.bandwidth : null;
  const roofs = [];
  for (const unit of ['matrix', 'vector']) {
    const time = parts.reduce((sum, p) => (p.peak?.unit === unit ? sum + (p.math ?? 0) : sum), 0);
    const work = weightFlops(context, kernel.statements, unit);
    if (work || time > 0) roofs.push({name: 'compute', count: work?.flops ?? [], rate: work?.peak ?? 1, time});
  }
  roofs.push({name: 'memory', count: kernel.bytes, rate: context.bandwidth, time: out.memory});
  const load = network ? kernel.statements.flatMap((s) => network.load[s]) : [];
  if (out.network !== null) roofs.push({name: 'network', count: load, rate: network.rate, time: out.network});
  addLaunchRoof(roofs, launch);
  out.lower = Math.max(0, ...roofs.map((r) => r.time));
  out.upper = Math.max(out.lower, (out.math ?? 0) + out.memory + (out.network ?? 0));
  [out.limiter, out.runnerUp] = orderLimiters(roofs, sizes.integers);
  return out;
}

// Predicts all kernels in sequence.
function predictTotal(context, kernels, sizes) {
  const {program, network} = context;
  const bytes = program.kernels.flatMap((k) => k.bytes), all = program.statements.map((_, s) => s);
  const out = {
    flops: kernels.reduce((sum, k) => sum + k.flops, 0n), bytes: evaluateRoundedUp(bytes, sizes.integers),
    math: sumField(kernels, 'math'), memory: sumField(kernels, 'memory'), network: sumField(kernels, 'network'),
    sent: sumField(kernels, 'sent'), launch: sumField(kernels, 'launch'),
    lower: sumField(kernels, 'lower'), upper: sumField(kernels, 'upper'),
    missing: [...new Set(kernels.map((k) => k.missing).filter(Boolean))].join(', '),
  };
  out.moved = evaluateAsDouble(bytes, sizes.real);
  out.intensity = Number(out.flops) / out.moved;
  const roofs = [], work = weightFlops(context, all);
  if (out.math !== null)
    roofs.push({name: 'compute', count: work?.flops ?? [], rate: work?.peak ?? 1, time: out.math});
  roofs.push({name: 'memory', count: bytes, rate: context.bandwidth, time: out.memory});
  if (out.network !== null)
    roofs.push({name: 'network', count: network.load.flat(), rate: network.rate, time: out.network});
  addLaunchRoof(roofs, out.launch);
  [out.limiter, out.runnerUp] = orderLimiters(roofs, sizes.integers);
  const same = kernels.every((k) => k.ridge !== null && k.ridge === kernels[0].ridge);
  out.ridge = same ? kernels[0].ridge : null;
  return out;
}

// --- peak memory ---

function findPeakMemory(program, real) {
  const change = new Array(program.statements.length + 1).fill(0);
  let live = 0;
  for (const tensor of program.tensors) {
    const bytes = evaluateAsDouble(tensor.bytes, real);
    if (tensor.begin < 0) live += bytes;
    else change[tensor.begin] += bytes;
    change[tensor.end + 1] -= bytes;
  }
  const peak = {statement: 0, bytes: 0};
  for (let s = 0; s < program.statements.length; ++s) {
    live += change[s];
    if (live > peak.bytes) Object.assign(peak, {statement: s, bytes: live});
  }
  return peak;
}

// Predicts the program with these values of the free sizes (by index).
function evaluate(context, values) {
  const {program} = context, sizes = resolveSizes(program.sizes, values);
  if (context.missing) return {context, sizes, error: `${context.missing} is unknown`};
  if (sizes.error) return {context, sizes, error: sizes.error};
  const kernels = program.kernels.map((k) => {
    const out = k.statements.length === 1 ? predictStatement(context, k.statements[0], k.bytes, sizes)
      : predictFusedKernel(context, k, sizes);
    return Object.assign(out, {name: k.name, text: k.text, kernel: k});
  });
  const total = predictTotal(context, kernels, sizes);
  for (const k of kernels) k.share = total.lower > 0 ? k.lower / total.lower : null;
  return {
    context, sizes, error: '', values, kernels, total,
    fused: program.fused ? predictFusedKernel(context, program.fused, sizes) : null,
    peakMemory: findPeakMemory(program, sizes.real),
  };
}
