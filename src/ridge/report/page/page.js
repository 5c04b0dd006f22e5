// The page: controls for sizes, machines and saved runs; summary, picture and tables. Every change redraws everything.

const element = (id) => document.getElementById(id);

// 1 to 15, then eight sizes per octave: 16, 18, 20, ..., up to 2^30.
const STEPS = (() => {
  const out = [];
  for (let i = 1; i < 16; ++i) out.push(i);
  for (let octave = 1; octave < 28; ++octave) for (let i = 8; i < 16; ++i) out.push(i * 2 ** octave);
  return out;
})();

const nearestStep = (value) => {
  const above = STEPS.findIndex((s) => s >= Number(value));
  if (above < 0) return STEPS.length - 1;
  return above > 0 && Number(value) - STEPS[above - 1] < STEPS[above] - Number(value) ? above - 1 : above;
};

class RidgePage {
  constructor(data) {
    this.programs = data.subjects.map(parseProgram);
    this.program = this.programs[0];
    this.machines = [];
    for (const program of this.programs) this.addMachine(program.machine);
    this.reportMachines = this.machines.length;
    data.machines.forEach((m) => this.addMachine(m));
    this.machine = this.machines[0];
    this.comparison = this.programs.length > 1 ? this.initialComparison() : null;
    this.runs = this.program.measured ? [runFromPage(this.program)] : [];
    this.sort = {key: 'share', down: true};
    this.contexts = new Map();
    this.values = this.program.values.map((s) => (s.free ? s.value ?? 1024n : null));
    this.defaulted = this.program.values.filter((s) => s.free && s.value === null).map((s) => s.name);
    const asked = this.program.values.findIndex((s, i) => this.values[i] !== null && s.name === this.program.asked[0]);
    this.sizeIndex = asked >= 0 ? asked : freeSizes(this.program)[0] ?? -1;
    this.readAddress();
    this.buildControls();
    this.redraw();
  }

  addMachine(machine) {
    if (!this.machines.some((m) => m.name === machine.name)) this.machines.push(machine);
  }

  // Returns the second machine of --on, or the second program.
  initialComparison() {
    const [, second] = this.programs;
    return second.same ? {machine: second.machine} : {program: second};
  }

  contextFor(program, machine) {
    const key = `${this.programs.indexOf(program)} ${machine.name}`;
    if (!this.contexts.has(key)) this.contexts.set(key, makeContext(program, machine));
    return this.contexts.get(key);
  }

  // Returns the free sizes of a program; sizes with the same name have the same value in all programs.
  valuesFor(program) {
    if (program === this.program) return this.values;
    return program.values.map((s) => {
      const i = this.program.values.findIndex((o) => o.name === s.name);
      if (!s.free) return null;
      return i >= 0 && this.values[i] !== null ? this.values[i] : s.value ?? 1024n;
    });
  }

  // --- controls, built once ---

  buildControls() {
    for (const id of ['cards', 'controls', 'limits']) element(id).hidden = false;
    const free = freeSizes(this.program), size = (i) => escapeText(this.program.values[i].name);
    const sliders = free.map((i) => `<div class="size"><label for="size${i}">${size(i)}</label>` +
      `<div class="track"><input type="range" id="slide${i}" min="0" max="${STEPS.length - 1}" step="1" data-size="${i}" aria-label="${size(i)}, slider">` +
      `<i class="mark" id="mark${i}" hidden></i></div>` +
      `<input type="number" id="size${i}" min="1" step="1" data-size="${i}"></div>`);
    const option = (m) => `<option value="${escapeText(m.name)}">${escapeText(m.name)}${m.title ? ` – ${escapeText(shortened(m.title, 44))}` : ''}</option>`;
    const machines = `<optgroup label="this report">${this.machines.slice(0, this.reportMachines).map(option).join('')}</optgroup>` +
      `<optgroup label="catalog">${this.machines.slice(this.reportMachines).map(option).join('')}</optgroup>`;
    const others = this.programs.map((p, i) => (p.same ? '' : `<option value="#${i}">${escapeText(shortened(p.title, 44))}</option>`));
    const dims = free.map((i) => `<option value="${i}">${size(i)}</option>`);
    element('controls').innerHTML = `<h2 style="margin-top:0">Sizes and machine</h2><div class="sizes">${sliders.join('')}</div>` +
      '<p class="soft follows" id="follows"></p><p id="error" role="status"></p><div class="choices">' +
      `<label>Machine <select id="machine">${machines}</select></label>` +
      `<label>Compare with <select id="comparison"><option value="">nothing</option>${others.join('')}${machines}</select></label>` +
      (free.length > 1 ? `<label>Thresholds for <select id="dim">${dims.join('')}</select></label>` : '') +
      '<span><input type="file" id="saved" accept=".json,application/json" multiple><label class="file" for="saved">Add a saved run</label></span>' +
      '<button type="button" id="reset">Reset</button></div><div class="choices" id="runs"></div><p class="soft follows" id="note" role="status"></p>';
    element('limits').innerHTML = '<h2 id="changes">Where the limiter changes, other sizes fixed</h2>' +
      '<div id="changing" class="scroll plain" role="region" tabindex="0" aria-labelledby="changes"></div>';
    this.statements = new Table(element('table'));
    this.changing = new Table(element('changing'));
    element('picture').innerHTML = '<svg id="roofline" role="group" xmlns="http://www.w3.org/2000/svg"></svg>';
    this.addListeners();
  }

  addListeners() {
    const controls = element('controls');
    controls.addEventListener('input', (event) => {
      const {size} = event.target.dataset;
      if (size === undefined) return;
      const typed = Math.round(Number(event.target.value)), slides = event.target.type === 'range';
      if (!slides && !(typed >= 1 && typed < 2 ** 53)) return;
      this.values[size] = BigInt(slides ? STEPS[typed] : typed);
      this.redraw(event.target);
    });
    controls.addEventListener('change', (event) => {
      const {id, value} = event.target;
      if (id === 'machine') this.machine = this.machines.find((m) => m.name === value);
      if (id === 'comparison') this.comparison = this.comparisonNamed(value);
      if (id === 'dim') this.sizeIndex = Number(value);
      if (id === 'saved') this.readRuns(event.target.files);
      else this.redraw();
    });
    element('reset').addEventListener('click', () => this.reset());
    element('runs').addEventListener('click', (event) => {
      if (event.target.dataset.run !== undefined) this.showRun(this.runs[event.target.dataset.run]);
    });
    element('table').addEventListener('click', (event) => {
      const key = event.target.dataset.sort;
      if (!key) return;
      this.sort = {key, down: this.sort.key === key ? !this.sort.down : key !== 'op'};
      this.redraw();
      element('table').querySelector(`[data-sort="${key}"]`).focus();
    });
    this.addPictureListeners();
    let width = 0;
    new ResizeObserver(([entry]) => {
      if (Math.abs(entry.contentRect.width - width) > 1) this.drawPicture();
      width = entry.contentRect.width;
    }).observe(element('picture'));
    addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
  }

  comparisonNamed(value) {
    if (value === '') return null;
    return value[0] === '#' ? {program: this.programs[value.slice(1)]} : {machine: this.machines.find((m) => m.name === value)};
  }

  reset() {
    this.values = this.program.values.map((s) => (s.free ? s.value ?? 1024n : null));
    this.machine = this.machines[0];
    this.redraw();
  }

  // Sets the sizes and the machine of a saved run.
  showRun(run) {
    this.program.values.forEach((s, i) => {
      if (this.values[i] !== null && run.dims[s.name] !== undefined) this.values[i] = BigInt(run.dims[s.name]);
    });
    this.machine = this.machines.find((m) => m.name === run.machine.name);
    this.redraw();
  }

  async readRuns(files) {
    const errors = [];
    for (const file of files) {
      const run = parseRun(await file.text(), file.name);
      if (run.error) {
        errors.push(run.error);
        continue;
      }
      if (!this.machines.some((m) => m.name === run.machine.name)) {
        this.machines.push(run.machine);
        for (const id of ['machine', 'comparison']) element(id).add(new Option(run.machine.name, run.machine.name));
      }
      this.runs.push(run);
    }
    if (this.runs.length > 0) this.showRun(this.runs[this.runs.length - 1]);
    element('note').textContent = errors.join(' ');
  }

  // --- updates ---

  redraw(changed = null) {
    const state = evaluate(this.contextFor(this.program, this.machine), this.values);
    this.updateControls(state, changed);
    element('error').textContent = state.error ? `No result: ${state.error}.` : '';
    if (state.error) return;
    state.kernels.forEach((k, i) => { k.called = this.program.kernels[i].called; });
    const second = this.comparisonState();
    second?.kernels.forEach((k, i) => { k.called = second.context.program.kernels[i].called; });
    const run = this.runs.map((r) => [r, measurementsOf(r, state)]).findLast(([, found]) => found);
    state.kernels.forEach((k, i) => {
      k.measured = run ? run[1][i] : null;
      k.other = second?.context.program === this.program ? second.kernels[i] : null;
    });
    this.view = {
      state, second, secondName: this.comparison ? this.comparison.program?.title ?? this.comparison.machine.name : '', sizeIndex: this.sizeIndex,
      sort: this.sort, measured: run ? run[1] : null, measuredTotal: run ? run[0].total : null,
    };
    this.updateSummary();
    this.drawPicture();
    updateStatements(this.statements, this.view);
    updateThresholds(this.changing, state);
    this.updateMarks();
    this.updateRuns();
    this.writeAddress();
  }

  // Marks below each slider the size from which compute time exceeds memory time.
  updateMarks() {
    const {state} = this.view;
    for (const i of freeSizes(this.program)) {
      const mark = element(`mark${i}`), from = computeThresholds(state, state.context.total, i).find((t) => t.value !== undefined);
      mark.hidden = !from;
      if (!from) continue;
      const share = nearestStep(from.value) / (STEPS.length - 1);
      mark.style.left = `calc(8px + ${share} * (100% - 16px))`;  // a thumb is 16 px wide
    }
  }

  comparisonState() {
    if (!this.comparison) return null;
    const program = this.comparison.program ?? this.program;
    const out = evaluate(this.contextFor(program, this.comparison.machine ?? this.machine), this.valuesFor(program));
    if (!out.error) return out;
    element('error').textContent = `No comparison: ${out.error}.`;
    return null;
  }

  updateControls(state, changed) {
    for (const i of freeSizes(this.program)) {
      const slide = element(`slide${i}`), box = element(`size${i}`);
      if (slide !== changed) slide.value = nearestStep(this.values[i]);
      if (box !== changed) box.value = String(this.values[i]);
      slide.setAttribute('aria-valuetext', `${this.program.values[i].name} = ${this.values[i]}`);
    }
    element('machine').value = this.machine.name;
    element('comparison').value = this.comparison ? this.comparison.machine?.name ?? `#${this.programs.indexOf(this.comparison.program)}` : '';
    if (element('dim')) element('dim').value = String(this.sizeIndex);
    const follows = this.program.values.map((s, i) => (s.formula ? `${s.name} = ${s.formula} = ${grouped(state.sizes.integers[i])}` : '')).filter(Boolean);
    if (this.defaulted.length > 0) follows.push(`no value was given for ${this.defaulted.join(', ')}: the sliders start at 1024`);
    if (this.program.split) follows.push(`one of ${this.program.split.chips} chips, ${this.program.split.dim} split`);
    element('follows').textContent = follows.join('; ');
  }

  updateSummary() {
    const {state, second} = this.view;
    element('summary').textContent = summaryText(state, this.sizeIndex, this.view.measuredTotal);
    const comparison = second ? makeCards(second, second.context.program === this.program ? this.sizeIndex : freeSizes(second.context.program)[0] ?? -1) : [];
    element('cards').innerHTML = makeCards(state, this.sizeIndex).map((card, i) => {
      const bar = card.share === undefined ? '' : `<div class="bar${card.share > 1 ? ' over' : ''}" role="img" aria-label="${percent(card.share)} of the memory"><i style="width:${Math.min(100, 100 * card.share).toFixed(2)}%"></i></div>`;
      const notes = second ? [...card.notes, `${this.view.secondName}: ${comparison[i].value}`] : card.notes;
      return `<div class="card"><h2>${escapeText(card.title)}</h2><p class="value">${escapeText(card.value)}</p>${bar}` +
        `${notes.map((n) => `<p class="soft">${escapeText(n)}</p>`).join('')}</div>`;
    }).join('');
  }

  drawPicture() {
    const {state, second, measured} = this.view, svg = element('roofline');
    const width = Math.max(280, Math.round(element('picture').clientWidth));
    const first = describe(state, measured), other = second ? describe(second) : null;
    this.picture = pictureMarkup(first, other, width);
    this.picture.bandwidth = first.bandwidth;
    this.picture.top = Math.max(...first.peaks.map((p) => p.rate), 0);
    element('subtitle').textContent = first.subtitle;
    svg.setAttribute('viewBox', `0 0 ${width} ${this.picture.layout.height}`);
    svg.setAttribute('class', this.picture.layout.small ? 'small' : '');
    svg.setAttribute('aria-label', `Roofline ${first.subtitle}: ${first.dots.length} of ${state.kernels.length} statements drawn`);
    svg.innerHTML = this.picture.markup;
    const parts = ['Each dot is a statement on its roof; its area is its share of the time. The mark below a slider is the size from which compute time exceeds memory time.'];
    if (first.measured) parts.push('Filled dots are measured.');
    if (other) parts.push(`Dashed roofs and dots in the second colour: ${this.view.secondName}.`);
    if (first.not_drawn.length > 0) parts.push(`Not drawn: ${first.not_drawn.join('; ')}.`);
    element('legend').textContent = parts.join(' ');
    element('tip').hidden = true;
  }

  updateRuns() {
    const {measured, state} = this.view;
    element('runs').innerHTML = this.runs.map((run, i) => {
      const shown = measurementsOf(run, state) !== null, sizes = Object.entries(run.dims).filter(([name]) => this.program.values.some((s, k) => s.name === name && this.values[k] !== null)).map(([name, value]) => `${name} = ${value}`).join(', ');
      return `<button type="button" data-run="${i}" aria-pressed="${shown}">${escapeText(run.called)}: ${escapeText(run.machine.name)}${sizes ? `, ${escapeText(sizes)}` : ''}</button>`;
    }).join('');
    const elsewhere = this.runs.length > 0 && !measured;
    element('note').textContent = elsewhere ? 'No run was measured at these sizes on this machine: select a run above to show its sizes.' : '';
  }

  // --- tooltip of the picture ---

  addPictureListeners() {
    const svg = element('roofline'), tip = element('tip');
    const hide = () => {
      tip.hidden = true;
      element('cursor')?.setAttribute('d', '');
    };
    svg.addEventListener('pointermove', (event) => {
      const dot = event.target.closest?.('.dot'), at = this.roofAtPointer(event);
      if (dot) this.showTip(dot.dataset.tip, event.clientX, event.clientY);
      else if (at) this.showTip(at.text, event.clientX, event.clientY);
      else tip.hidden = true;
      element('cursor')?.setAttribute('d', at ? `M${at.x} ${this.picture.layout.plot.bottom}V${at.y}` : '');
    });
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('focusin', (event) => {
      const dot = event.target.closest('.dot');
      if (!dot) return;
      const box = dot.getBoundingClientRect();
      this.showTip(dot.dataset.tip, box.right, box.bottom);
    });
    svg.addEventListener('focusout', hide);
    addEventListener('keydown', (event) => event.key === 'Escape' && hide());
  }

  // Returns the attainable rate at the intensity under the pointer.
  roofAtPointer(event) {
    const box = element('roofline').getBoundingClientRect(), {layout, axes, scales, bandwidth, top} = this.picture;
    const x = (event.clientX - box.left) / box.width * layout.width, {plot} = layout;
    if (x < plot.left || x > plot.right) return null;
    const intensity = 10 ** (axes.x_low + (x - plot.left) / (plot.right - plot.left) * (axes.x_high - axes.x_low));
    const rate = top > 0 ? Math.min(top, intensity * bandwidth) : intensity * bandwidth;
    const by = top > 0 && rate === top ? 'compute' : 'memory';
    const y = Math.max(plot.top, Math.min(plot.bottom, scales.y(rate)));
    return {x: x.toFixed(1), y: y.toFixed(1), text: `${significant(intensity)} FLOP/B: at most ${engineering(rate, 'FLOP/s')}; limited by ${by}`};
  }

  showTip(text, clientX, clientY) {
    const tip = element('tip'), area = element('pictures').getBoundingClientRect();
    tip.textContent = text;
    tip.hidden = false;
    const left = Math.min(clientX - area.left + 14, area.width - tip.offsetWidth - 2);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${clientY - area.top + 16}px`;
  }

  // --- address: #B=64&on=h200 restores sizes and machines ---

  readAddress() {
    for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
      const i = this.program.values.findIndex((s) => s.name === key);
      if (i >= 0 && this.values[i] !== null && /^[1-9]\d{0,14}$/.test(value)) this.values[i] = BigInt(value);
      const machine = this.machines.find((m) => m.name === value);
      if (key === 'on' && machine) this.machine = machine;
      if (key === 'beside' && machine) this.comparison = {machine};
    }
  }

  writeAddress() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const out = new URLSearchParams();
      for (const i of freeSizes(this.program))
        if (this.values[i] !== (this.program.values[i].value ?? 1024n)) out.set(this.program.values[i].name, String(this.values[i]));
      if (this.machine !== this.machines[0]) out.set('on', this.machine.name);
      if (this.comparison?.machine && this.programs.length === 1) out.set('beside', this.comparison.machine.name);
      try {
        history.replaceState(null, '', out.size > 0 ? `#${out}` : location.pathname);
      } catch {
        // A page without an address of its own cannot change it.
      }
    }, 300);
  }
}

const pageData = JSON.parse(element('data').textContent);
if (pageData.subjects.length > 0) globalThis.ridgePage = new RidgePage(pageData);
