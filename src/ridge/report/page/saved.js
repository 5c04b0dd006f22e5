// Saved runs: output of `ridge run --json`, shown next to predictions.

function parseMachine(m) {
  return {
    name: m.name, title: m.title,
    peaks: Object.fromEntries((m.peaks ?? []).map((p) => [`${p.unit} ${p.dtype}`, p.flops_per_s ?? p.ops_per_s])),
    memory: (m.memory ?? []).map((l) => [l.name, l.bytes_per_s ?? null, l.capacity_bytes ?? null]),
    launch: m.numbers?.launch_s?.value ?? m.numbers?.launch_s ?? 0,
  };
}

// Returns "93.1 %"; for operands in a cache "41.2 % of l3", or "in l3" if the cache's bandwidth was not measured.
function roofText({fraction_of_roof: fraction, in_cache: cache}) {
  if (typeof fraction !== 'number') return cache ? `in ${cache}` : '–';
  return `${percent(fraction)}${cache ? ` of ${cache}` : ''}`;
}

const parseTimes = (op) => op?.measured_s && {...op.measured_s, name: op.name, fraction_of_roof: op.fraction_of_roof, in_cache: op.in_cache};

// Returns a run, or {error} with one sentence.
function parseRun(text, file) {
  const fail = (expected, found) => ({error: `${file}: expected ${expected}, found ${found}`});
  let report;
  try {
    report = JSON.parse(text);
  } catch {
    return fail('JSON of ridge run --json', 'something else');
  }
  if (!String(report?.schema).startsWith('ridge.report/')) return fail('the schema ridge.report', report?.schema ?? 'none');
  const ops = (report.ops ?? []).map(parseTimes).filter(Boolean);
  if (ops.length === 0) return fail('measured times of ridge run --json', 'only predictions');
  return {
    called: file, dims: report.dims ?? {}, machine: parseMachine(report.machine), total: parseTimes(report.total) ?? null, ops,
  };
}

// Returns the measurement of each kernel, or null if the run has other sizes, another machine or other kernels.
function measurementsOf(run, state) {
  const {program, machine} = state.context;
  if (run.machine.name !== machine.name || run.ops.length !== program.kernels.length) return null;
  const same = program.values.every((s, i) => run.dims[s.name] === undefined || BigInt(run.dims[s.name]) === state.sizes.integers[i]);
  return same && run.ops.every((op, i) => op.name === program.kernels[i].name) ? run.ops : null;
}
