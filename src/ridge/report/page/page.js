// The page: controls (page_controls.cc) for sizes, machines and saved runs; summary, picture and tables. Every change
// redraws everything.

class RidgePage {
  constructor({subjects, machines}) {
    this.programs = subjects.map(parseProgram);
    const [program, second] = this.programs, asked = program.values.findIndex((v) => v.free && v.name === program.asked[0]);
    Object.assign(this, {program, sort: {key: 'share', down: true}, sizes: {}});
    this.machines = [...this.programs.map((p) => p.machine), ...machines].filter((m, i, all) => all.findIndex((o) => o.name === m.name) === i);
    [this.machine] = this.machines;
    this.comparison = second ? (second.same ? {machine: second.machine} : {program: second}) : null;
    this.runs = program.run ? [{...program.run, machine: program.machine}] : [];
    this.sizeIndex = asked >= 0 ? asked : freeSizes(program)[0] ?? -1;
    this.readAddress();
    for (const id of ['cards', 'controls', 'limits']) element(id).hidden = false;
    element('picture').innerHTML = '<svg id="roofline" role="group" xmlns="http://www.w3.org/2000/svg"></svg>';
    this.addListeners();
    this.addPictureListeners();
    this.redraw();
  }

  machineNamed(name) { return this.machines.find((m) => m.name === name); }

  // Sizes with the same name have the same value in all programs.
  evaluate(program, machine) {
    const contexts = program.contexts ??= {}, context = contexts[machine.name] ??= makeContext(program, machine);
    return evaluate(context, program.values.map((v) => (v.free ? this.sizes[v.name] ?? v.value ?? 1024n : null)));
  }

  addListeners() {
    element('controls').addEventListener('input', ({target}) => {
      const typed = Math.round(Number(target.value)), slides = target.type === 'range';
      if (target.dataset.size === undefined || (!slides && !(typed >= 1 && typed < 2 ** 53))) return;
      this.sizes[this.program.values[target.dataset.size].name] = BigInt(slides ? STEPS[typed] : typed);
      this.redraw(target);
    });
    element('controls').addEventListener('change', ({target: {id, value, files}}) => {
      if (id === 'saved') return this.readRuns(files);
      if (id === 'machine') this.machine = this.machineNamed(value);
      if (id === 'comparison') this.comparison = value === '' ? null : value[0] === '#' ? {program: this.programs[value.slice(1)]} : {machine: this.machineNamed(value)};
      if (id === 'dim') this.sizeIndex = Number(value);
      return this.redraw();
    });
    element('reset').addEventListener('click', () => {
      this.sizes = {};
      [this.machine] = this.machines;
      this.redraw();
    });
    element('runs').addEventListener('click', ({target}) => target.dataset.run !== undefined && this.showRun(this.runs[target.dataset.run]));
    element('table').addEventListener('click', ({target: {dataset: {sort: key}}}) => {
      if (!key) return;
      this.sort = {key, down: this.sort.key === key ? !this.sort.down : key !== 'op'};
      this.redraw();
      element('table').querySelector(`[data-sort="${key}"]`).focus();
    });
    addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
  }

  redraw(changed = null) {
    const state = this.evaluate(this.program, this.machine);
    this.updateControls(state, changed);
    element('error').textContent = state.error ? `No result: ${state.error}.` : '';
    if (state.error) return;
    const compared = this.comparison && this.evaluate(this.comparison.program ?? this.program, this.comparison.machine ?? this.machine);
    const second = compared?.error ? null : compared;
    if (compared?.error) element('error').textContent = `No comparison: ${compared.error}.`;
    const [run, measured] = this.runs.map((r) => [r, measurementsOf(r, state)]).findLast(([, found]) => found) ?? [null, null];
    state.kernels.forEach((k, i) => {
      k.measured = measured && measured[i];
      k.other = second?.context.program === this.program ? second.kernels[i] : null;
    });
    this.view = {
      state, second, secondName: this.comparison ? this.comparison.program?.title ?? this.comparison.machine.name : '',
      sizeIndex: this.sizeIndex, sort: this.sort, measured, measuredTotal: run && run.total,
    };
    this.updateSummary();
    this.drawPicture();
    showStatements(element('table'), this.view);
    showThresholds(element('changing'), state);
    this.updateRuns();
    this.writeAddress();
  }

  // Shows sizes and choices, and marks below each slider the size from which compute time exceeds memory time.
  updateControls(state, changed) {
    const {values} = this.program, {integers} = state.sizes;
    const notes = values.flatMap((v, i) => (v.formula ? [`${v.name} = ${v.formula} = ${grouped(integers[i])}`] : []));
    for (const i of freeSizes(this.program)) {
      const slide = element(`slide${i}`), box = element(`size${i}`), mark = element(`mark${i}`);
      slide.max = STEPS.length - 1;
      for (const [input, shown] of [[slide, stepOf(integers[i])], [box, integers[i]]]) if (input !== changed) input.value = shown;
      slide.setAttribute('aria-valuetext', `${values[i].name} = ${integers[i]}`);
      const from = state.error ? null : computeThresholds(state, state.context.total, i).find((t) => t.value !== undefined);
      mark.hidden = !from;
      if (from) mark.style.left = `calc(8px + ${stepOf(from.value) / (STEPS.length - 1)} * (100% - 16px))`;  // a thumb is 16 px wide
    }
    element('machine').value = this.machine.name;
    element('comparison').value = this.comparison ? this.comparison.machine?.name ?? `#${this.programs.indexOf(this.comparison.program)}` : '';
    if (element('dim')) element('dim').value = String(this.sizeIndex);
    element('follows').textContent = [...notes, ...this.program.notes].join('; ');
  }

  updateSummary() {
    const {state, second, secondName, measuredTotal} = this.view, {program} = second?.context ?? {};
    element('summary').textContent = summaryText(state, this.sizeIndex, measuredTotal);
    const others = second ? makeCards(second, program === this.program ? this.sizeIndex : freeSizes(program)[0] ?? -1) : [];
    element('cards').innerHTML = makeCards(state, this.sizeIndex).map(({title, value, notes, share}, i) => {
      const kind = share > 1 ? 'bar over' : 'bar', width = `width:${Math.min(100, 100 * share).toFixed(2)}%`;
      const bar = share === undefined ? '' : `<div class="${kind}" role="img" aria-label="${percent(share)} of the memory"><i style="${width}"></i></div>`;
      const soft = (second ? [...notes, `${secondName}: ${others[i].value}`] : notes).map((n) => `<p class="soft">${escapeText(n)}</p>`);
      return `<div class="card"><h2>${escapeText(title)}</h2><p class="value">${escapeText(value)}</p>${bar}${soft.join('')}</div>`;
    }).join('');
  }

  drawPicture() {
    const {state, second, secondName, measured} = this.view, svg = element('roofline');
    const first = describe(state, measured), width = Math.max(280, Math.round(element('picture').clientWidth));
    this.picture = new Picture(first, second && describe(second), width);
    element('subtitle').textContent = first.subtitle;
    svg.setAttribute('viewBox', `0 0 ${width} ${this.picture.height}`);
    svg.setAttribute('class', this.picture.small ? 'small' : '');
    svg.setAttribute('aria-label', `Roofline ${first.subtitle}: ${first.dots.length} of ${state.kernels.length} statements drawn`);
    svg.innerHTML = this.picture.markup;
    element('legend').textContent = [
      'Each dot is a statement on its roof, or below it where functions take longer than they count; its area is its share of the time.',
      measured && 'Filled dots are measured.', first.slopes.length > 0 && 'Dashed slopes are other bandwidths.',
      second && `Dashed roofs and dots in the second colour: ${secondName}.`, first.not_drawn.length > 0 && `Not drawn: ${first.not_drawn.join('; ')}.`,
    ].filter(Boolean).join(' ');
    element('tip').hidden = true;
  }

  // Sets the sizes and the machine of a saved run.
  showRun(run) {
    for (const [name, value] of Object.entries(run.dims)) if (Number.isSafeInteger(value)) this.sizes[name] = BigInt(value);
    this.machine = this.machineNamed(run.machine.name);
    this.redraw();
  }

  async readRuns(files) {
    const runs = await Promise.all([...files].map(async (file) => parseRun(await file.text(), file.name)));
    for (const run of runs.filter(({error}) => !error)) {
      this.runs.push(run);
      if (this.machineNamed(run.machine.name)) continue;
      this.machines.push(run.machine);
      for (const id of ['machine', 'comparison']) element(id).add(new Option(run.machine.name, run.machine.name));
    }
    if (this.runs.length > 0) this.showRun(this.runs.at(-1));
    element('note').textContent = runs.flatMap(({error}) => error ?? []).join(' ');
  }

  updateRuns() {
    element('runs').innerHTML = this.runs.map((run, i) => {
      const sizes = Object.entries(run.dims).map(([name, value]) => `, ${name} = ${value}`).join('');
      return `<button type="button" data-run="${i}" aria-pressed="${measurementsOf(run, this.view.state) !== null}">${escapeText(`${run.called}: ${run.machine.name}${sizes}`)}</button>`;
    }).join('');
    element('note').textContent = this.runs.length === 0 || this.view.measured ? '' : 'No run was measured at these sizes on this machine: select a run above to show its sizes.';
  }

  addPictureListeners() {
    addTips(element('roofline'), element('pictures'), element('tip'), (x, width) => {
      const roof = this.picture.roofAt(x / width * this.picture.width);
      element('cursor').setAttribute('d', roof?.line ?? '');
      return roof?.text;
    });
    new ResizeObserver(() => this.picture.width !== Math.max(280, Math.round(element('picture').clientWidth)) && this.drawPicture()).observe(element('picture'));
  }

  // Sets sizes and machines from an address such as #B=64&on=h200.
  readAddress() {
    for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
      const machine = this.machineNamed(value);
      if (/^[1-9]\d{0,14}$/.test(value)) this.sizes[key] = BigInt(value);
      if (key === 'on' && machine) this.machine = machine;
      if (key === 'beside' && machine) this.comparison = {machine};
    }
  }

  writeAddress() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const out = new URLSearchParams();
      for (const {free, name, value} of this.program.values)
        if (free && this.sizes[name] !== undefined && this.sizes[name] !== value) out.set(name, String(this.sizes[name]));
      if (this.machine !== this.machines[0]) out.set('on', this.machine.name);
      if (this.comparison?.machine && this.programs.length === 1) out.set('beside', this.comparison.machine.name);
      // A page without an address of its own, as in a frame, cannot change it.
      if (/^(file|https?):/.test(location.protocol)) history.replaceState(null, '', out.size > 0 ? `#${out}` : location.pathname);
    }, 300);
  }
}

const pageData = JSON.parse(element('data').textContent);
if (pageData.subjects.length > 0) globalThis.ridgePage = new RidgePage(pageData);
