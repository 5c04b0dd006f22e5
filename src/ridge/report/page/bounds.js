// What binds each statement on a machine, as explain() says it: each count over its rate, the longest of them the lower
// bound; the limiter of a sum has the largest sum of times. No picture and no text here.

// The whole program as it arrives, with polynomials made ready.
function programOf(given) {
  const statements = given.statements.map((s) => ({
    ...s,
    flops: polynomial(s.flops),
    transfers: (s.transfers ?? []).map(([kind, axes, devices, bytes]) => ({
      kind, axes, devices: BigInt(devices), bytes: polynomial(bytes),
    })),
  }));
  const kernel = (k) => ({...k, bytes: polynomial(k.bytes)});
  return {
    ...given,
    sizes: sizesOf(given.sizes),
    statements,
    kernels: given.kernels.map(kernel),
    fused: given.fused ? kernel(given.fused) : null,
    tensors: given.tensors.map(([name, bytes, begin, end]) => ({name, bytes: polynomial(bytes), begin, end})),
  };
}

// The peak by which a statement is judged: {rate, unit, dtype}; null: none is on record.
function peakOf(statement, machine) {
  const onMatrix = statement.product && statement.dtype !== 'f32';
  const unit = onMatrix ? 'matrix' : 'vector', dtype = onMatrix ? statement.dtype : 'f32';
  const found = machine.peaks.find((p) => p[0] === unit && p[1] === dtype);
  return found ? {unit, dtype, rate: found[2]} : null;
}

const isWhole = (dtype) => dtype.startsWith('int');

// --- what is sent, and over how many links: network.h ---

function straight(link) {
  return link.topology === 'switch' || link.topology === 'direct';
}

function bothWays(transfer, link) {
  return link.topology === 'ring' && link.count > 1n && transfer.devices > 2n;
}

function linksUsed(transfer, link) {
  if (link.topology === 'switch') return link.count;
  if (link.topology === 'direct') return bigMin(link.count, transfer.devices - 1n);
  if (link.topology !== 'ring') return 1n;
  return bigMin(link.count, (bothWays(transfer, link) ? 2n : 1n) * BigInt(Math.max(1, transfer.axes)));
}

function hopsOf(transfer, link) {
  let once = 1n;
  if (!straight(link)) once = bothWays(transfer, link) ? transfer.devices / 2n : transfer.devices - 1n;
  return transfer.kind === 'all_reduce' ? 2n * once : once;
}

function sentBy(transfer, link) {
  const n = transfer.devices, once = scaled(transfer.bytes, n - 1n, n);
  if (transfer.kind === 'all_reduce') return scaled(once, 2n);
  if (transfer.kind !== 'all_to_all' || straight(link)) return once;
  return bothWays(transfer, link) ? scaled(transfer.bytes, n * n / 4n, n) : scaled(transfer.bytes, n - 1n, 2n);
}

// {rate, sent, load}: of each statement the bytes that leave the chip, and as the links see them. Null: nothing is sent.
function networkOf(program, machine) {
  const all = program.statements.flatMap((s) => s.transfers);
  if (all.length === 0 && !program.split) return null;
  if (!machine.link) return {missing: `a link of ${machine.name}`};
  const link = {...machine.link, count: BigInt(machine.link.count)};
  const fewest = all.map((t) => linksUsed(t, link)).reduce(bigMin, link.count);
  const rate = link.rate * Number(fewest);
  const sent = [], load = [];
  for (const statement of program.statements) {
    sent.push(statement.transfers.flatMap((t) => sentBy(t, link)));
    load.push(statement.transfers.flatMap((t) => {
      const waiting = BigInt(Math.round(Number(hopsOf(t, link)) * link.latency * rate));
      const own = scaled(sentBy(t, link), fewest, linksUsed(t, link));
      return waiting > 0n ? [...own, ...polynomial([[waiting, 1]])] : own;
    }));
  }
  return {rate, sent, load, name: link.name};
}

// --- roofs ---

const ONE = [{n: 1n, d: 1n, real: 1, sizes: []}];

function longer(a, b, whole) {
  if (Math.abs(a.time - b.time) > 1e-9 * b.time) return a.time > b.time;
  return takesAsLong(exactly(a.count, whole), a.rate, exactly(b.count, whole), b.rate);
}

// [limiter, runner-up]
function limitersOf(roofs, whole) {
  const left = [...roofs], order = [];
  while (left.length > 0) {
    let top = 0;
    for (let i = 1; i < left.length; ++i)
      if (!longer(left[top], left[i], whole)) top = i;
    order.push(left[top].name);
    left.splice(top, 1);
  }
  return [order[0], order.find((name) => name !== order[0]) ?? null];
}

function addLaunch(roofs, launch) {
  if (launch > 0) roofs.push({name: 'overhead', count: ONE, rate: 1 / launch, time: launch});
}

// Everything about a program and a machine that no size moves.
function settingOf(program, machine) {
  const network = networkOf(program, machine);
  const peaks = program.statements.map((s) => peakOf(s, machine));
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

// FLOPs of several statements as if all ran at the first one's peak. Null: nothing is computed.
function weighed(setting, statements, unit) {
  let first = null;
  const flops = [];
  for (const s of statements) {
    const peak = setting.peaks[s], own = setting.program.statements[s].flops;
    if (!peak || own.length === 0 || (unit && peak.unit !== unit)) continue;
    first = first ?? peak;
    if (peak.rate === first.rate) {
      flops.push(...own);
      continue;
    }
    const a = binary(first.rate), b = binary(peak.rate), shift = a.exponent - b.exponent;
    const up = shift > 0 ? BigInt(shift) : 0n, down = shift < 0 ? BigInt(-shift) : 0n;
    flops.push(...scaled(own, a.mantissa << up, b.mantissa << down));
  }
  return first ? {flops, peak: first.rate} : null;
}

function statementAt(setting, s, bytes, sizes) {
  const {program, network, bandwidth} = setting, statement = program.statements[s], peak = setting.peaks[s];
  const flops = counted(statement.flops, sizes.whole), moved = realOf(bytes, sizes.real);
  const out = {flops, bytes: counted(bytes, sizes.whole), moved, peak, intensity: Number(flops) / moved};
  out.memory = moved / bandwidth;
  out.math = peak ? Number(flops) / peak.rate : statement.flops.length === 0 ? 0 : null;
  out.missing = peak || statement.flops.length === 0 ? '' : `vector f32 peak of ${setting.machine.name}`;
  const sends = network && network.sent[s].length > 0;
  out.sent = sends ? realOf(network.sent[s], sizes.real) : null;
  out.network = sends ? realOf(network.load[s], sizes.real) / network.rate : null;
  out.ridge = peak ? peak.rate / bandwidth : null;
  return out;
}

// A kernel of one statement.
function aloneAt(setting, s, bytes, sizes) {
  const out = statementAt(setting, s, bytes, sizes), {network, launch} = setting;
  out.launch = launch;
  const math = out.math ?? 0, net = out.network ?? 0;
  out.lower = Math.max(math, out.memory, net, launch);
  out.upper = Math.max(math + out.memory + net, launch);
  const roofs = [];
  if (out.peak) roofs.push({name: 'compute', count: setting.program.statements[s].flops, rate: out.peak.rate, time: math});
  roofs.push({name: 'memory', count: bytes, rate: setting.bandwidth, time: out.memory});
  if (out.network !== null) roofs.push({name: 'network', count: network.load[s], rate: network.rate, time: net});
  addLaunch(roofs, launch);
  [out.limiter, out.runnerUp] = limitersOf(roofs, sizes.whole);
  return out;
}

const sumOf = (parts, key) =>
  parts.reduce((sum, p) => (p[key] === null ? sum : (sum ?? 0) + p[key]), null);

// Several statements as one kernel: matrix and vector unit compute at once, each its share one after the other.
function togetherAt(setting, kernel, sizes) {
  const {network, launch} = setting;
  const parts = kernel.statements.map((s) => statementAt(setting, s, [], sizes));
  const flops = parts.reduce((sum, p) => sum + p.flops, 0n), moved = realOf(kernel.bytes, sizes.real);
  const out = {flops, bytes: counted(kernel.bytes, sizes.whole), moved, intensity: Number(flops) / moved, launch};
  out.math = sumOf(parts, 'math');
  out.network = sumOf(parts, 'network');
  out.sent = sumOf(parts, 'sent');
  out.memory = moved / setting.bandwidth;
  out.missing = [...new Set(parts.map((p) => p.missing).filter(Boolean))].join(', ');
  const same = parts.every((p) => p.peak && p.peak.rate === parts[0].peak?.rate && p.peak.unit === parts[0].peak.unit);
  const longest = parts.reduce((a, b) => ((b.math ?? 0) > (a.math ?? 0) ? b : a));
  out.peak = same ? parts[0].peak : longest.peak;
  out.ridge = out.peak ? out.peak.rate / setting.bandwidth : null;
  const roofs = [];
  for (const unit of ['matrix', 'vector']) {
    const time = parts.reduce((sum, p) => (p.peak?.unit === unit ? sum + (p.math ?? 0) : sum), 0);
    const work = weighed(setting, kernel.statements, unit);
    if (work || time > 0) roofs.push({name: 'compute', count: work?.flops ?? [], rate: work?.peak ?? 1, time});
  }
  roofs.push({name: 'memory', count: kernel.bytes, rate: setting.bandwidth, time: out.memory});
  const load = network ? kernel.statements.flatMap((s) => network.load[s]) : [];
  if (out.network !== null) roofs.push({name: 'network', count: load, rate: network.rate, time: out.network});
  addLaunch(roofs, launch);
  out.lower = Math.max(0, ...roofs.map((r) => r.time));
  out.upper = Math.max(out.lower, (out.math ?? 0) + out.memory + (out.network ?? 0));
  [out.limiter, out.runnerUp] = limitersOf(roofs, sizes.whole);
  return out;
}

// One kernel after the other.
function totalAt(setting, kernels, sizes) {
  const {program, network} = setting;
  const bytes = program.kernels.flatMap((k) => k.bytes), all = program.statements.map((_, s) => s);
  const out = {
    flops: kernels.reduce((sum, k) => sum + k.flops, 0n), bytes: counted(bytes, sizes.whole),
    math: sumOf(kernels, 'math'), memory: sumOf(kernels, 'memory'), network: sumOf(kernels, 'network'),
    sent: sumOf(kernels, 'sent'), launch: sumOf(kernels, 'launch'),
    lower: sumOf(kernels, 'lower'), upper: sumOf(kernels, 'upper'),
    missing: [...new Set(kernels.map((k) => k.missing).filter(Boolean))].join(', '),
  };
  out.moved = realOf(bytes, sizes.real);
  out.intensity = Number(out.flops) / out.moved;
  const roofs = [], work = weighed(setting, all);
  if (out.math !== null)
    roofs.push({name: 'compute', count: work?.flops ?? [], rate: work?.peak ?? 1, time: out.math});
  roofs.push({name: 'memory', count: bytes, rate: setting.bandwidth, time: out.memory});
  if (out.network !== null)
    roofs.push({name: 'network', count: network.load.flat(), rate: network.rate, time: out.network});
  addLaunch(roofs, out.launch);
  [out.limiter, out.runnerUp] = limitersOf(roofs, sizes.whole);
  const same = kernels.every((k) => k.ridge !== null && k.ridge === kernels[0].ridge);
  out.ridge = same ? kernels[0].ridge : null;
  return out;
}

// --- memory: what is held at once ---

function heldAt(program, real) {
  const change = new Array(program.statements.length + 1).fill(0);
  let held = 0;
  for (const tensor of program.tensors) {
    const bytes = realOf(tensor.bytes, real);
    if (tensor.begin < 0) held += bytes;
    else change[tensor.begin] += bytes;
    change[tensor.end + 1] -= bytes;
  }
  const peak = {statement: 0, bytes: 0};
  for (let s = 0; s < program.statements.length; ++s) {
    held += change[s];
    if (held > peak.bytes) Object.assign(peak, {statement: s, bytes: held});
  }
  return peak;
}

// All of it where sizes of their own have these values (by place). `evaluations` counts formulas, for tests.
function evaluate(setting, own) {
  const {program} = setting, sizes = resolved(program.sizes, own);
  if (setting.missing) return {setting, sizes, fault: `no ${setting.missing} is on record`};
  if (sizes.fault) return {setting, sizes, fault: sizes.fault};
  const kernels = program.kernels.map((k) => {
    const out = k.statements.length === 1 ? aloneAt(setting, k.statements[0], k.bytes, sizes)
      : togetherAt(setting, k, sizes);
    return Object.assign(out, {name: k.name, text: k.text, kernel: k});
  });
  const total = totalAt(setting, kernels, sizes);
  for (const k of kernels) k.share = total.lower > 0 ? k.lower / total.lower : null;
  return {
    setting, sizes, fault: '', own, kernels, total,
    fused: program.fused ? togetherAt(setting, program.fused, sizes) : null,
    held: heldAt(program, sizes.real),
  };
}
