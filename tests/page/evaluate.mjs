// node evaluate.mjs FOLDER POINTS.json: runs the page's evaluator (the scripts in FOLDER) at points whose values the
// program computed (src/ridge/report/page/page_test.cc). Counts, limiters and thresholds must be equal. Times must agree
// to the last bit, except that memory and traffic of several chips are summed in another order (1e-12). Prints the number
// of points and values compared; exits with 1 if one differs.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [folder, file] = process.argv.slice(2);
const context = vm.createContext({console});
for (const name of ['program', 'search', 'numbers', 'description', 'answer'])
  vm.runInContext(fs.readFileSync(path.join(folder, `${name}.js`), 'utf8'), context, {filename: `${name}.js`});
const page = context;

let values = 0, points = 0;
const errors = [];

function same(where, got, reference, loose = false) {
  values += 1;
  const isClose = loose && Math.abs(got - reference) <= 1e-12 * Math.abs(reference);
  if (got !== reference && !isClose) errors.push(`${where}: expected ${reference}, found ${got}`);
}

function compareSum(where, got, reference, sends) {
  same(`${where} flops`, String(got.flops), reference.flops);
  same(`${where} bytes`, String(got.bytes), reference.bytes);
  same(`${where} limiter`, got.limiter, reference.limiter);
  same(`${where} lower`, got.lower, reference.lower, sends);
  same(`${where} upper`, got.upper, reference.upper, sends);
  if (reference.runner_up !== undefined) same(`${where} runner-up`, got.runnerUp ?? '', reference.runner_up);
  for (const key of ['math', 'memory', 'network', 'sent'])
    if (reference[key] !== null) same(`${where} ${key}`, got[key], reference[key], sends);
}

const text = (all) => all.map((t) => `${t.relation} ${t.value ?? ''}`.trim()).join(', ');

const indexOf = (state, dim) => state.context.program.values.findIndex((v) => v.name === dim);

// Compares where one roof of a row overtakes another as a size varies: {"B compute memory": ">= 256", ...}.
function compareThresholds(where, state, row, reference) {
  for (const [key, expected] of Object.entries(reference)) {
    const [dim, above, below] = key.split(' '), index = indexOf(state, dim);
    const solve = () => (row[above] && row[below] ? page.solveThresholds(state, row[above], row[below], index) : null);
    const found = above === 'compute' ? page.computeThresholds(state, row, index, below) : solve();
    same(`${where} ${key}`, found ? text(found) : 'no such pair of roofs', expected);
  }
}

function compareMemory(where, state, reference, sends) {
  same(`${where} peak memory`, state.peakMemory, reference.bytes, sends);
  for (const [dim, expected] of Object.entries(reference.fits)) {
    same(`${where} fits ${dim}`, String(page.maxSizeThatFits(state, indexOf(state, dim))), expected);
  }
}

// Compares the picture's description, field by field.
function comparePicture(where, got, reference, sends) {
  for (const [key, expected] of Object.entries(reference)) {
    if (key === 'dots') continue;
    same(`${where} picture ${key}`, JSON.stringify(got[key]), JSON.stringify(expected));
  }
  same(`${where} dots`, got.dots.length, reference.dots.length);
  reference.dots.forEach((dot, i) => {
    for (const [key, expected] of Object.entries(dot))
      same(`${where} dot ${i} ${key}`, got.dots[i]?.[key], expected, sends && typeof expected === 'number');
  });
}

const cases = JSON.parse(fs.readFileSync(file, 'utf8'));
for (const each of cases) {
  const program = page.parseProgram(each.data), context = page.makeContext(program, each.data.machine);
  const sends = Boolean(context.link);
  for (const point of each.points) {
    const where = `${each.name} ${JSON.stringify(point.dims)}`;
    const freeValues = program.values.map((v) => (point.dims[v.name] === undefined ? null : BigInt(point.dims[v.name])));
    const state = page.evaluate(context, freeValues);
    points += 1;
    if (point.error) {
      same(`${where} error`, state.error !== '', true);
      continue;
    }
    same(`${where} error`, state.error, '');
    if (state.error) continue;
    point.ops.forEach((op, i) => {
      compareSum(`${where} ${op.name}`, state.kernels[i], op, sends);
      compareThresholds(`${where} ${op.name}`, state, context.kernels[i], op.thresholds);
    });
    compareSum(`${where} total`, state.total, point.total, sends);
    compareThresholds(`${where} total`, state, context.total, point.total.thresholds);
    if (point.fused) {
      compareSum(`${where} fused`, state.fused, point.fused, sends);
      compareThresholds(`${where} fused`, state, context.fused, point.fused.thresholds);
    }
    for (const [dim, expected] of Object.entries(point.products)) {
      const found = page.everyProductThreshold(state, indexOf(state, dim));
      same(`${where} every product ${dim}`, found ? text([found]) : 'null', expected);
    }
    compareMemory(where, state, point.memory, sends);
    comparePicture(where, page.describe(state), point.picture, sends);
  }
}
for (const error of errors.slice(0, 20)) console.log(error);
if (errors.length > 20) console.log(`and ${errors.length - 20} more`);
console.log(`${points} points, ${values} values, ${errors.length} differ`);
process.exit(errors.length === 0 && points > 0 ? 0 : 1);
