// node evaluate.mjs FOLDER POINTS.json: the page's own evaluator (the scripts in FOLDER) at points whose values the
// program computed (src/ridge/report/page/page_test.cc). Counts, limiters and thresholds must be equal; times to the
// last bit, but for what several chips hold and send, which is added up in another order (1e-12). Prints how many
// points and values were compared; ends with 1 where one differs.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [folder, file] = process.argv.slice(2);
const context = vm.createContext({console});
for (const name of ['formulas', 'bounds', 'thresholds', 'words', 'description', 'answer'])
  vm.runInContext(fs.readFileSync(path.join(folder, `${name}.js`), 'utf8'), context, {filename: `${name}.js`});
const page = context;

let values = 0, points = 0;
const faults = [];

function same(where, got, wanted, loose = false) {
  values += 1;
  const near = loose && Math.abs(got - wanted) <= 1e-12 * Math.abs(wanted);
  if (got !== wanted && !near) faults.push(`${where}: expected ${wanted}, found ${got}`);
}

function compareSum(where, got, wanted, sends) {
  same(`${where} flops`, String(got.flops), wanted.flops);
  same(`${where} bytes`, String(got.bytes), wanted.bytes);
  same(`${where} limiter`, got.limiter, wanted.limiter);
  same(`${where} lower`, got.lower, wanted.lower, sends);
  same(`${where} upper`, got.upper, wanted.upper, sends);
  if (wanted.runner_up !== undefined) same(`${where} runner-up`, got.runnerUp ?? '', wanted.runner_up);
  for (const key of ['math', 'memory', 'network', 'sent'])
    if (wanted[key] !== null) same(`${where} ${key}`, got[key], wanted[key], sends);
}

const text = (all) => all.map((t) => `${t.relation} ${t.value ?? ''}`.trim()).join(', ');

function compareThresholds(where, state, meetings, wanted) {
  for (const [key, expected] of Object.entries(wanted)) {
    const [dim, above, below] = key.split(' ');
    const place = state.setting.program.sizes.findIndex((s) => s.name === dim);
    const meeting = meetings.find((m) => m.roofs === `${above} ${below}`);
    if (!meeting) same(`${where} ${key}`, 'no such pair of roofs', expected);
    else same(`${where} ${key}`, text(page.thresholdsOf(state, meeting, place, page.sharedAt(state, place))), expected);
  }
}

function compareMemory(where, state, wanted, sends) {
  same(`${where} held`, state.held.bytes, wanted.bytes, sends);
  for (const [dim, expected] of Object.entries(wanted.fits)) {
    const place = state.setting.program.sizes.findIndex((s) => s.name === dim);
    same(`${where} fits ${dim}`, String(page.fitsUpTo(state, place)), expected);
  }
}

// The picture's description, field by field.
function comparePicture(where, got, wanted, sends) {
  for (const [key, expected] of Object.entries(wanted)) {
    if (key === 'dots') continue;
    same(`${where} picture ${key}`, JSON.stringify(got[key]), JSON.stringify(expected));
  }
  same(`${where} dots`, got.dots.length, wanted.dots.length);
  wanted.dots.forEach((dot, i) => {
    for (const [key, expected] of Object.entries(dot))
      same(`${where} dot ${i} ${key}`, got.dots[i]?.[key], expected, sends && typeof expected === 'number');
  });
}

const cases = JSON.parse(fs.readFileSync(file, 'utf8'));
for (const each of cases) {
  const program = page.programOf(each.data), setting = page.settingOf(program, each.data.machine);
  const sends = Boolean(setting.network);
  for (const point of each.points) {
    const where = `${each.name} ${JSON.stringify(point.dims)}`;
    const own = program.sizes.map((s) => (point.dims[s.name] === undefined ? null : BigInt(point.dims[s.name])));
    const state = page.evaluate(setting, own);
    points += 1;
    if (point.fault) {
      same(`${where} fault`, state.fault !== '', true);
      continue;
    }
    same(`${where} fault`, state.fault, '');
    if (state.fault) continue;
    point.ops.forEach((op, i) => {
      compareSum(`${where} ${op.name}`, state.kernels[i], op, sends);
      compareThresholds(`${where} ${op.name}`, state, page.meetingsOfKernel(setting, state.kernels[i]), op.thresholds);
    });
    compareSum(`${where} total`, state.total, point.total, sends);
    compareThresholds(`${where} total`, state, page.meetingsOfTotal(setting), point.total.thresholds);
    if (point.fused) compareSum(`${where} fused`, state.fused, point.fused, sends);
    for (const [dim, expected] of Object.entries(point.products)) {
      const place = program.sizes.findIndex((s) => s.name === dim);
      const found = page.everyProduct(state, place, page.sharedAt(state, place));
      same(`${where} every product ${dim}`, found ? text([found]) : 'null', expected);
    }
    compareMemory(where, state, point.memory, sends);
    comparePicture(where, page.describe(state), point.picture, sends);
  }
}
for (const fault of faults.slice(0, 20)) console.log(fault);
if (faults.length > 20) console.log(`and ${faults.length - 20} more`);
console.log(`${points} points, ${values} values, ${faults.length} differ`);
process.exit(faults.length === 0 && points > 0 ? 0 : 1);
