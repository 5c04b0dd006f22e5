// node page_test.mjs RIDGE [AXE.js] [--pictures FOLDER]: opens pages of real programs in a headless Chromium. Checks
// requests and console errors (none), bytes, formulas evaluated per input event, elements of the page, labels that touch
// and accessibility violations; prints the milliseconds of a redraw.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {Browser, chromium} from './browser.mjs';

const args = process.argv.slice(2), root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const at = args.indexOf('--pictures'), pictures = at >= 0 ? args.splice(at, 2)[1] : null;
const [ridge, axe] = args;
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'ridge_pages_'));

function page(name, words) {
  const file = path.join(folder, `${name}.html`);
  execFileSync(ridge, [...words, '--html', file], {cwd: root, encoding: 'utf8'});
  return file;
}
const json = (words) => JSON.parse(execFileSync(ridge, [...words, '--json'], {cwd: root, encoding: 'utf8'}));

const windowed = path.join(folder, 'window.ridge');
fs.writeFileSync(windowed, `q: bf16[S, E]  k: bf16[T, E]  v: bf16[T, E]
s[S, T] = q * k
p[S, T] = softmax(where((index(T) - 3 <= index(S)) * (index(S) - index(T) < 1024), s, -inf) over T)
o: bf16[S, E] = p * v
`);
const reduced = path.join(folder, 'reduced.ridge');  // an all-reduce over more chips than a node has
fs.writeFileSync(reduced, `mesh X = 32
dims B, D = 8192, F = 28672
x: bf16[B, D_X]  w: bf16[D_X, F]
y: bf16[B, F] = x * w
`);
const decoder = ['explain', 'examples/llama_decoder.ridge', '--on', 'h100', '-d', 'B=64'];
const mlp = ['explain', 'examples/mlp.ridge', '--on', 'h200', '-d', 'B=64'];
const model = ['model', 'gemma_2_9b', '--context', '8192', '--batch', '16', '--on', 'h200,b200'];
const images = ['model', 'qwen2_vl_7b', '--context', '4096', '--on', 'h200', '--image-size', '448', '--images'];
const audio = ['model', 'whisper_large_v3', '--context', '100', '--on', 'h200'];
const pages = {
  one: page('one', ['explain', 'bf16[B, D] * bf16[D, F] -> bf16[B, F]', '--on', 'tpu_v5e']),
  mlp: page('mlp', mlp),
  decoder: page('decoder', decoder),
  comparison: page('comparison', ['explain', 'examples/mlp.ridge', '--on', 'h100,h200', '-d', 'B=64']),
  against: page('against', ['explain', 'examples/mlp.ridge', '--on', 'h100', '--against', 'examples/llama_decoder.ridge', '-d', 'B=64']),
  causal: page('causal', ['explain', 'examples/flash_attention.ridge', '--on', 'h100']),
  window: page('window', ['explain', windowed, '--on', 'h200', '-d', 'S=4096', 'T=4096', 'E=128']),
  sharded: page('sharded', ['explain', 'examples/tensor_parallel.ridge', '--on', 'h100', '-d', 'X=4']),
  nodes: page('nodes', ['explain', reduced, '--on', 'h100', '-d', 'B=64']),
  split: page('split', ['explain', 'examples/mlp.ridge', '--on', 'h100', '--split', 'F=8', '-d', 'B=64']),
  sweep: page('sweep', ['sweep', 'A[B, D] * W[D, F] -> C[B, F]', '--on', 'tpu_v5e,h100', '-d', 'D=8192', 'F=8192', 'B=1..4096:*2']),
  run: page('run', ['run', 'examples/mlp.ridge', 'B=4', 'D=256', 'F=512']),
  model: page('model', model),
  moe: page('moe', ['model', 'deepseek_v3', '--context', '4096', '--batch', '8', '--phase', 'prefill', '--on', 'h200']),
  images: page('images', [...images, '2']),
  audio: page('audio', audio),
  bare: page('bare', ['explain', '--flops', '1e12', '--bytes', '1e9', '--on', 'h100']),
};

const input = (id, value) => `(() => { const e = document.getElementById('${id}'); e.value = ${value};
  e.dispatchEvent(new Event('input', {bubbles: true})); })()`;
const choose = (id, value) => `(() => { const e = document.getElementById('${id}'); e.value = '${value}';
  e.dispatchEvent(new Event('change', {bubbles: true})); })()`;
const text = (id) => `document.getElementById('${id}').textContent.replace(/\u00a0/g, ' ')`;

const setSize = (dim, value) => `(() => { const label = Array.from(document.querySelectorAll('.size label')).find((e) => e.textContent === '${dim}');
  const e = document.getElementById(label.htmlFor); e.value = ${value}; e.dispatchEvent(new Event('input', {bubbles: true})); })()`;
// Returns a table as {first cell: {title of the column: text}}.
const table = (id) => `(() => { const text = (e) => e.textContent.replace(/[\u00a0\u202f]/g, (c) => (c === '\u00a0' ? ' ' : ''));
  const titles = Array.from(document.querySelectorAll('#${id} thead th'), text);
  return Object.fromEntries(Array.from(document.querySelectorAll('#${id} tbody tr, #${id} tfoot tr'), (row) =>
    [text(row.children[0]), Object.fromEntries(Array.from(row.children, (cell, i) => [titles[i], text(cell)]))])); })()`;
const thresholdText = (all) => [...all].sort((a, b) => a.value - b.value).map((t) => ({'>=': `${t.dim} ≥ ${t.value}`, '<=': `${t.dim} ≤ ${t.value}`, always: `every ${t.dim}`, never: `no ${t.dim}`})[t.relation]).join(', ')
  .replace(/(\S+) ≥ (\d+), \1 ≤ (\d+)/g, '$1 from $2 to $3').replaceAll(', ', ' or ');

// Compares the page's tables with a JSON report of the command line; returns the number of texts compared.
async function compareWithReport(where, said) {
  const statements = await browser.run(table('table')), limits = await browser.run(table('changing')), expected = [];
  const expect = (what, got, value) => expected.push({what, got, value});
  const rows = [...said.ops, ...(said.ops.length > 1 ? [{...said.total, name: 'total'}] : []), ...(said.fused ? [{...said.fused, name: 'fused'}] : [])];
  for (const op of rows) {
    const shown = statements[op.name] ?? {}, dim = Object.keys(limits)[0], from = (op.thresholds ?? []).filter((t) => t.dim === dim && t.roofs.join() === 'compute,memory');
    expect(`${op.name} limiter`, shown.limiter, `'${op.limiter}'`);
    expect(`${op.name} lower`, shown.lower, `engineering(${op.time_lower_s}, 's')`);
    expect(`${op.name} without overlap`, shown['no overlap'], `engineering(${op.time_upper_s}, 's')`);
    expect(`${op.name} bytes`, shown.bytes, `engineering(${op.bytes}, 'B')`);
    if (op.time_network_s !== undefined) expect(`${op.name} network`, shown.network, `engineering(${op.time_network_s}, 's')`);
    if (from.length > 0) expect(`${op.name} threshold`, shown['compute exceeds memory for'], `'${thresholdText(from)}'`);
  }
  for (const [dim, shown] of Object.entries(limits)) {
    const of = (all) => (all ?? []).filter((t) => t.dim === dim), from = of(said.total.thresholds).filter((t) => t.roofs.join() === 'compute,memory');
    if (from.length > 0) expect(`${dim} total`, shown['compute time exceeds memory time'], `'${thresholdText(from)}'`);
    const fused = of(said.fused?.thresholds).filter((t) => t.roofs.join() === 'compute,memory');
    if (fused.length > 0) expect(`${dim} fused`, shown['in one kernel'], `'${thresholdText(fused)}'`);
    if (of(said.products).length > 0) expect(`${dim} products`, shown['every product compute-bound'], `'${thresholdText(of(said.products))}'`);
    if (of(said.memory.fits).length > 0) expect(`${dim} fits`, shown['fits up to'], `'${of(said.memory.fits)[0].value ?? 0}'`);
  }
  const texts = await browser.run(`[${expected.map((e) => e.value).join(', ')}]`);
  expected.forEach((e, i) => assert.equal(e.got, texts[i], `${where}: ${e.what}: expected ${texts[i]}, found ${e.got}`));
  return expected.length;
}

const browser = await Browser.open(chromium());
const tests = {
  async 'every page is one small file without requests or console errors'() {
    for (const [name, file] of Object.entries(pages)) {
      assert.ok(fs.statSync(file).size <= 300_000, `${name}: ${fs.statSync(file).size} bytes`);
      await browser.show(file);
      assert.deepEqual(browser.requests(), [], name);
      assert.deepEqual(browser.complaints(), [], name);
    }
  },

  async 'the summary and the cards agree with the JSON report'() {
    const said = json(mlp);
    await browser.show(pages.mlp);
    const summary = await browser.run(text('summary')), cards = await browser.run(text('cards'));
    const from = said.total.thresholds.find((t) => t.dim === 'B' && t.roofs.join() === 'compute,memory');
    assert.match(summary, new RegExp(`^${said.summary.limiter[0].toUpperCase()}${said.summary.limiter.slice(1)}-bound on NVIDIA H200 SXM at B = 64`));
    assert.ok(summary.includes(`Compute time exceeds memory time for B ≥ ${from.value}`), summary);
    assert.ok(cards.includes(`Compute time exceeds memory time forB ≥ ${from.value}`), cards);
    assert.ok(cards.includes(`Largest${said.summary.largest[0].name}, ${(100 * said.summary.largest[0].share).toFixed(1)} %`), cards);
    assert.ok(cards.includes('Fits358.4 MB of 150.8 GB'), cards);
  },

  async 'tables and cards agree with the command line for masks, shards and links at several sizes and machines'() {
    const cases = {
      causal: [['examples/flash_attention.ridge'], [{S: 2048, H: 16, E: 128}, {S: 777, H: 5, E: 64}, {S: 1, H: 1, E: 8192}]],
      window: [[windowed], [{S: 4096, T: 4096, E: 128}, {S: 300, T: 20000, E: 256}, {S: 65536, T: 65536, E: 2048}]],
      sharded: [['examples/tensor_parallel.ridge', '-d', 'X=4'], [{B: 16, T: 256, D: 1024}, {B: 8192, T: 128, D: 8192}, {B: 77, T: 4096, D: 512}]],
      nodes: [[reduced], [{B: 64, D: 8192, F: 28672}, {B: 16384, D: 8192, F: 1024}, {B: 5, D: 100_000, F: 777}]],
      split: [['examples/mlp.ridge', '--split', 'F=8'], [{B: 64, D: 4096, F: 14336}, {B: 100_000, D: 4096, F: 14336}, {B: 1, D: 512, F: 1000}]],
    };
    let compared = 0;
    for (const [name, [words, points]] of Object.entries(cases))
      for (const machine of ['h100', 'tpu_v5e', 'gb200']) {
        await browser.show(pages[name]);
        await browser.run(choose('machine', machine));
        for (const point of points) {
          const sizes = Object.entries(point), flag = words.includes('-d') ? [] : ['-d'];
          const said = json(['explain', ...words, ...flag, ...sizes.map(([dim, value]) => `${dim}=${value}`), '--on', machine]);
          for (const [dim, value] of sizes) await browser.run(setSize(dim, value));
          compared += await compareWithReport(`${name} on ${machine} at ${JSON.stringify(point)}`, said);
        }
      }
    assert.ok(compared > 1000, `${compared} texts compared`);
  },

  async 'the page of a model has the sentences of the command line at several sizes, machines and formats'() {
    await browser.show(pages.model);
    const cases = [
      [{}, []], [{batch: 64, context: 1000}, ['--batch', '64', '--context', '1000']],
      [{machine: 'b200', chips: '4'}, ['--on', 'b200', '--tp', '4']], [{weights: 'e4m3', cache: 'e4m3'}, ['--dtype', 'e4m3', '--cache-dtype', 'e4m3']],
      [{phase: 'prefill', batch: 2}, ['--phase', 'prefill', '--batch', '2']],
    ];
    for (const [values, options] of cases) {
      await browser.run("document.getElementById('reset').click()");
      for (const [id, value] of Object.entries(values)) await browser.run((id === 'batch' || id === 'context' ? input : choose)(id, value));
      const words = ['model', 'gemma_2_9b', '--context', '8192', '--batch', '16', '--on', 'h200', ...options];
      const last = Object.fromEntries(words.slice(2).reduce((all, word, i, every) => (i % 2 === 0 ? [...all, [word, every[i + 1]]] : all), []));
      const lines = execFileSync(ridge, [...words.slice(0, 2), ...Object.entries(last).flat()], {cwd: root, encoding: 'utf8', env: {...process.env, COLUMNS: '0'}}).split('\n');
      const shown = await browser.run(`${text('answer')}.replace(/\u202f/g, ' ')`);
      for (const line of lines.slice(0, values.phase === 'prefill' ? 3 : 4)) {
        const sentence = line.replace(/[\u202f ]+/g, ' ');
        assert.ok(shown.toLowerCase().includes(`${sentence.toLowerCase()}.`), `${JSON.stringify(values)}: '${sentence}' is not in '${shown}'`);
      }
    }
    assert.equal(await browser.run('document.querySelectorAll("#bars .row").length'), await browser.run('document.querySelectorAll("#table tbody tr").length'));
  },

  async 'the page of a model with an encoder has its time, and a slider for images'() {
    const expectLines = async (words) => {
      const lines = execFileSync(ridge, words, {cwd: root, encoding: 'utf8', env: {...process.env, COLUMNS: '0'}}).split('\n');
      const shown = await browser.run(`${text('answer')}.replace(/\u202f/g, ' ')`);
      for (const line of lines.slice(0, 5)) {
        const sentence = line.replace(/[\u202f ]+/g, ' ');
        assert.ok(shown.toLowerCase().includes(`${sentence.toLowerCase()}.`), `'${sentence}' is not in '${shown}'`);
      }
    };
    await browser.show(pages.images);
    await expectLines([...images, '2']);
    await browser.run(input('images', 7));
    await expectLines([...images, '7']);
    await browser.run(input('images', 17));
    assert.equal(await browser.run(text('error')), 'No answer: the images of a prompt have 4\u202f352 tokens, more than its 4\u202f096.');
    await browser.show(pages.images, {hash: '#images=5'});
    await expectLines([...images, '5']);
    await browser.show(pages.audio);
    await expectLines(audio);
    assert.equal(await browser.run('document.getElementById("images")'), null);
  },

  async 'the page of a model says what does not fit or is not known, and keeps its sizes in a link'() {
    await browser.show(pages.model, {hash: '#batch=4096&context=8192&on=h200&chips=8&weights=int8'});
    assert.match(await browser.run(text('answer')), /8 x h200, whose memory is too small: a token of each of 4\u202f096 sequences [^]*DOES NOT FIT in 150\.8 GB/);
    assert.equal(await browser.run('document.querySelector(".memory").className'), 'memory over');
    assert.ok((await browser.run(table('machines')))['h200 (does not fit)'], 'the table of machines says it, too');
    assert.match(await browser.run(text('frontlegend')), /these sizes, which do not fit/);
    await browser.run(choose('machine', 'v100'));
    await browser.run(choose('weights', 'bf16'));
    assert.equal(await browser.run(text('error')), 'No answer: the links of v100 do not join 8 chips.');
    await browser.run(choose('chips', '1'));
    assert.equal(await browser.run(text('error')), 'No answer: v100 has no matrix bf16 peak.');
    await browser.run("document.getElementById('reset').click()");
    assert.equal(await browser.run(text('error')), '');
    assert.match(await browser.run(text('frontcaveats')), /^\u2020 b200: the time of a launch and the latency of its links count as 0, so its curve and rates are too high and its times too low\.$/);
    await browser.run("document.getElementById('batchslide').focus()");
    await browser.key('ArrowRight');
    assert.match(await browser.run(text('summary')), /a token of each of 18 sequences/);
  },

  async 'one input event redraws the page of a model in bounded time'() {
    await browser.show(pages.model);
    const times = await browser.run(`(() => { const times = [], e = document.getElementById('contextslide');
      for (let i = 0; i < 20; ++i) { const begin = performance.now(); e.value = 60 + i;
        e.dispatchEvent(new Event('input', {bubbles: true})); document.body.getBoundingClientRect(); times.push(performance.now() - begin); }
      return times.sort((a, b) => a - b); })()`);
    console.log(`  a model on two machines: ${times[10].toFixed(1)} ms in the middle, ${times[19].toFixed(1)} ms at most`);
    assert.equal(await browser.run('modelPage.fronts.size <= 2 * 21'), true);
  },

  async 'every example has numbers, derived sizes with formulas, and no script error'() {
    for (const file of fs.readdirSync(path.join(root, 'examples')).filter((name) => name.endsWith('.ridge'))) {
      await browser.show(page(file, ['explain', `examples/${file}`, '--on', 'h100']));
      assert.deepEqual(browser.complaints(), [], file);
      const shown = await browser.run('document.body.innerText');
      for (const word of ['undefined', 'NaN', '[object']) assert.ok(!shown.includes(word), `${file}: ${word}`);
      const formulas = [...fs.readFileSync(path.join(root, 'examples', file), 'utf8').matchAll(/^dims .*$/gm)]
        .flatMap(([line]) => [...line.matchAll(/(\w+) = ([^,\n]*[A-Z][^,\n]*)/g)].map(([, name]) => name));
      const follows = await browser.run("document.getElementById('follows')?.textContent ?? ''");
      if (follows) for (const name of formulas) assert.match(follows, new RegExp(`(^|; )${name} = [^=]*[A-Z][^=]* = `), file);
    }
  },

  async 'the page of attention says from which size one kernel of all statements is compute-bound'() {
    const words = ['explain', 'examples/attention.ridge', '--on', 'h100', 'S=4096'], said = json(words);
    const [from] = said.fused.thresholds.filter((t) => t.dim === 'S' && t.roofs.join() === 'compute,memory');
    await browser.show(page('attention', words));
    assert.match(await browser.run(text('summary')), new RegExp(`Compute time exceeds memory time for no S, in one kernel for S ≥ ${from.value}\\.$`));
    assert.match(await browser.run(text('cards')), new RegExp(`Compute time exceeds memory time forno Sin one kernel: S ≥ ${from.value}`));
    assert.equal((await browser.run(table('table'))).fused['compute exceeds memory for'], `S ≥ ${from.value}`);
  },

  async 'one input event redraws fifteen statements with a bounded number of formulas'() {
    await browser.show(pages.decoder);
    const elements = 'document.querySelectorAll("*").length';
    await browser.run(input('slide0', 60));
    const before = await browser.run(elements), first = await browser.run(text('summary'));
    const formulas = await browser.run(`(() => { let count = 0; const originals = {evaluateExactly, evaluateAsDouble};
      for (const [name, original] of Object.entries(originals)) globalThis[name] = (...words) => { count += 1; return original(...words); };
      ${input('slide0', 61)}; Object.assign(globalThis, originals); return count; })()`);
    assert.notEqual(await browser.run(text('summary')), first);
    assert.equal(await browser.run('document.querySelectorAll("#table tbody tr").length'), 15);
    assert.ok(Math.abs(await browser.run(elements) - before) < 40, 'the page grows with every event');
    assert.ok(formulas > 15 && formulas <= 20_000, `${formulas} formulas evaluated`);
    await browser.call('Performance.enable', {timeDomain: 'threadTicks'});
    const busy = async () => Object.fromEntries((await browser.call('Performance.getMetrics')).metrics.map((m) => [m.name, m.value])).TaskDuration;
    const start = await busy();
    const times = await browser.run(`(() => { const times = []; const e = document.getElementById('slide0');
      for (let i = 0; i < 60; ++i) { const begin = performance.now(); e.value = 40 + i;
        e.dispatchEvent(new Event('input', {bubbles: true})); document.body.getBoundingClientRect();
        times.push(performance.now() - begin); } return times.sort((a, b) => a - b); })()`);
    const each = (await busy() - start) * 1000 / times.length;
    console.log(`  15 statements: ${formulas} formulas, ${times[30].toFixed(1)} ms in the middle, ${times[59].toFixed(1)} ms at most, ` +
      `from an input event to the new layout; ${each.toFixed(1)} ms of a core's time each`);
  },

  async 'sliders, machines and tables update immediately'() {
    await browser.show(pages.mlp);
    await browser.run(input('size0', 1024));
    assert.match(await browser.run(text('summary')), /^Compute-bound on NVIDIA H200 SXM at B = 1024/);
    await browser.run(choose('machine', 'tpu_v5e'));
    assert.match(await browser.run(text('summary')), /on Google TPU v5e at B = 1024/);
    await browser.run(choose('comparison', 'h100'));
    assert.match(await browser.run('document.querySelector("#table thead").textContent'), /h100second \/ first/);
    assert.match(await browser.run(text('limits')), /fits up to/);
    await browser.run("document.getElementById('reset').click()");
    assert.match(await browser.run(text('summary')), /H200 SXM at B = 64/);
    await browser.run(choose('machine', 'tpu_v1'));
    assert.match(await browser.run(text('error')), /^No result: a bf16 peak of tpu_v1 is unknown\.$/);
  },

  async 'the table sorts, by the keyboard too'() {
    await browser.show(pages.mlp);
    const names = 'Array.from(document.querySelectorAll("#table tbody th"), (e) => e.textContent).join()';
    assert.equal(await browser.run(names), 'g,u,y,h');
    await browser.run(`document.querySelector('[data-sort="op"]').focus()`);
    await browser.key('Enter', 'Enter', '\r');
    assert.equal(await browser.run(names), 'g,h,u,y');
    assert.equal(await browser.run(`document.activeElement.dataset.sort`), 'op');
    assert.equal(await browser.run(`document.activeElement.closest('th').getAttribute('aria-sort')`), 'ascending');
  },

  async 'the keyboard reaches sliders, dots and tables'() {
    await browser.show(pages.mlp);
    await browser.run("document.getElementById('slide0').focus()");
    await browser.key('ArrowRight');
    assert.match(await browser.run(text('summary')), /at B = 72/);
    const reached = new Set();
    for (let i = 0; i < 40; ++i) {
      await browser.key('Tab');
      reached.add(await browser.run('(document.activeElement.closest(".dot") && "dot") || document.activeElement.id || document.activeElement.dataset.sort || document.activeElement.tagName'));
    }
    for (const id of ['machine', 'comparison', 'reset', 'dot', 'table', 'share', 'SUMMARY']) assert.ok(reached.has(id), `${id} of ${[...reached]}`);
    await browser.run('document.querySelector(".dot").focus()');
    assert.match(await browser.run(text('tip')), /FLOP\/B, at most/);
    await browser.key('Escape');
    assert.equal(await browser.run('document.getElementById("tip").hidden'), true);
  },

  async 'a run is shown next to predictions, from the start and from a file'() {
    await browser.show(pages.run);
    assert.match(await browser.run('document.querySelector("#table thead").textContent'), /measured/);
    assert.ok(await browser.run('document.querySelectorAll(".measured").length') > 0);
    assert.match(await browser.run(text('summary')), /, of roof: (in \w+|[\d.]+ %( of \w+)?)\./);
    const name = await browser.run('document.querySelector("#roofline text.name").textContent');
    assert.match(name, /^g, u, h/, 'the name of the fused statements');
    await browser.run(input('size0', 8));
    assert.match(await browser.run(text('note')), /^No run was measured at these sizes/);
    await browser.run('document.querySelector("[data-run]").click()');
    assert.equal(await browser.run(text('note')), '');
    const saved = execFileSync(ridge, ['run', 'examples/mlp.ridge', 'B=8', 'D=256', 'F=512', '--json'], {cwd: root, encoding: 'utf8'});
    const file = path.join(folder, 'saved.json');
    fs.writeFileSync(file, saved);
    const {result} = await browser.call('Runtime.evaluate', {expression: "document.getElementById('saved')"});
    await browser.call('DOM.setFileInputFiles', {files: [file], objectId: result.objectId});
    for (let i = 0; i < 40 && !/saved\.json/.test(await browser.run(text('runs'))); ++i) await browser.settled();
    assert.match(await browser.run(text('summary')), /B = 8, /);
    assert.match(await browser.run('document.querySelector("#table thead").textContent'), /measured/);
    const corrupt = await browser.run("parseRun('{', 'x.json').error");
    assert.equal(corrupt, 'x.json: expected JSON of ridge run --json, found something else');
  },

  async 'a link shows the same sizes and machine'() {
    await browser.show(pages.mlp, {hash: '#B=4096&on=h100'});
    assert.match(await browser.run(text('summary')), /on NVIDIA H100 SXM at B = 4096/);
  },

  async 'printing opens the derivation and hides interactive controls'() {
    await browser.show(pages.mlp);
    await browser.call('Emulation.setEmulatedMedia', {media: 'print'});
    await browser.run("window.dispatchEvent(new Event('beforeprint'))");
    assert.equal(await browser.run('Array.from(document.querySelectorAll("details")).every((d) => d.open)'), true);
    assert.equal(await browser.run("getComputedStyle(document.getElementById('machine').closest('.choices')).display"), 'none');
    await browser.call('Emulation.setEmulatedMedia', {media: ''});
  },

  async 'nothing is cut, overlaps or scrolls sideways at 1280 and 400 pixels, light and dark'() {
    for (const [name, file] of Object.entries(pages))
      for (const width of [1280, 400])
        for (const dark of [false, true]) {
          await browser.show(file, {width, dark});
          const where = `${name} at ${width}${dark ? ', dark' : ''}`;
          assert.ok(await browser.run('document.documentElement.scrollWidth <= innerWidth'), `${where} scrolls`);
          const faults = await browser.run(`['roofline', 'frontier'].flatMap((id) => { const svg = document.getElementById(id); if (!svg) return [];
            const frame = svg.getBoundingClientRect(), out = [];
            const texts = Array.from(svg.querySelectorAll('text'), (t) => ({text: t.textContent, turned: /rotate/.test(t.getAttribute('transform') ?? ''), box: t.getBoundingClientRect()}));
            for (const {text, box} of texts)
              if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) out.push(text + ' is cut');
            const flat = texts.filter((t) => !t.turned);
            flat.forEach((a, i) => flat.slice(i + 1).forEach((b) => {
              const x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left), y = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
              if (x > 1 && y > 4) out.push(a.text + ' on ' + b.text); }));
            return out; })`);
          assert.deepEqual(faults, [], where);
          if (pictures) await browser.picture(path.join(pictures, `${name}_${width}_${dark ? 'dark' : 'light'}.png`));
        }
  },
};

if (axe) {
  const source = fs.readFileSync(axe, 'utf8');
  tests['axe finds no violation on any page, wide and narrow, light and dark'] = async () => {
    for (const [name, file] of Object.entries(pages))
      for (const width of [1280, 400])
        for (const dark of [false, true]) {
          await browser.show(file, {width, dark});
          await browser.run('document.querySelectorAll("details").forEach((d) => { d.open = true; })');
          await browser.run(`${source}\n0`);
          const found = await browser.run(`axe.run().then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' | ').slice(0, 300)))`);
          assert.deepEqual(found, [], `${name} at ${width}${dark ? ', dark' : ''}`);
        }
  };
}

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok: ${name}`);
  } catch (fault) {
    failed += 1;
    console.log(`FAILED: ${name}\n  ${fault.message}`);
  }
}
if (!axe) console.log('SKIPPED: axe-core is not there (npm install --prefix build/page axe-core), so accessibility was not checked');
await browser.close();
fs.rmSync(folder, {recursive: true, force: true});
console.log(`${Object.keys(tests).length} tests, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
