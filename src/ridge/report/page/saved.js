// Saved runs: what `ridge run --json` wrote, read here to stand beside what is predicted.

function machineOfReport(m) {
  return {
    name: m.name, title: m.title,
    peaks: (m.peaks ?? []).map((p) => [p.unit, p.dtype, p.flops_per_s ?? p.ops_per_s]),
    memory: (m.memory ?? []).map((l) => [l.name, l.bytes_per_s ?? null, l.capacity_bytes ?? null]),
    launch: m.numbers?.launch_s?.value ?? m.numbers?.launch_s ?? 0,
  };
}

// A run, or an error in one sentence.
function runOfReport(text, file) {
  let report;
  try {
    report = JSON.parse(text);
  } catch {
    return {error: `${file}: expected JSON of ridge run --json, found something else`};
  }
  if (!String(report?.schema).startsWith('ridge.report/'))
    return {error: `${file}: expected the schema ridge.report, found ${report?.schema ?? 'none'}`};
  const ops = (report.ops ?? []).filter((op) => op.measured_s);
  if (ops.length === 0) return {error: `${file}: expected measured times of ridge run --json, found predictions alone`};
  return {
    called: file, dims: report.dims ?? {}, machine: machineOfReport(report.machine), total: report.total?.measured_s ?? null,
    ops: ops.map((op) => ({name: op.name, ...op.measured_s})),
  };
}

// The run that is in the page from the start.
function runOfSubject(program) {
  const {measured, machine} = program;
  return {
    called: `run of ${measured.day || 'this program'}`, machine, total: measured.total,
    dims: Object.fromEntries(freePlaces(program).map((i) => [program.sizes[i].name, Number(program.sizes[i].value)])),
    ops: measured.ops.map((op, i) => ({name: program.kernels[i].name, ...op})),
  };
}

// Of each kernel what that run measured; null: it is of other sizes, another machine or other kernels.
function measuredIn(run, state) {
  const {program, machine} = state.setting;
  if (run.machine.name !== machine.name || run.ops.length !== program.kernels.length) return null;
  const same = program.sizes.every((s, i) => run.dims[s.name] === undefined || BigInt(run.dims[s.name]) === state.sizes.whole[i]);
  if (!same || run.ops.some((op, i) => op.name !== program.kernels[i].name)) return null;
  return run.ops;
}
