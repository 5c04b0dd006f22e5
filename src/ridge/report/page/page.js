// The page itself: sliders, machines and saved runs in; sentence, numbers, picture and tables out. Everything is made
// anew at each change, in one go.

const element = (id) => document.getElementById(id);

// 1 … 15, then eight sizes an octave: 16, 18, 20, …, as far as 2^30.
const STEPS = (() => {
  const out = [];
  for (let i = 1; i < 16; ++i) out.push(i);
  for (let octave = 1; octave < 28; ++octave) for (let i = 8; i < 16; ++i) out.push(i * 2 ** octave);
  return out;
})();

const stepOf = (value) => {
  const above = STEPS.findIndex((s) => s >= Number(value));
  if (above < 0) return STEPS.length - 1;
  return above > 0 && Number(value) - STEPS[above - 1] < STEPS[above] - Number(value) ? above - 1 : above;
};

class RidgePage {
  constructor(data) {
    this.programs = data.subjects.map(programOf);
    this.program = this.programs[0];
    this.machines = [];
    for (const program of this.programs) this.addMachine(program.machine);
    this.listed = this.machines.length;
    data.machines.forEach((m) => this.addMachine(m));
    this.machine = this.machines[0];
    this.beside = this.programs.length > 1 ? this.firstBeside() : null;
    this.runs = this.program.measured ? [runOfSubject(this.program)] : [];
    this.sort = {key: 'share', down: true};
    this.settings = new Map();
    this.own = this.program.sizes.map((s) => (s.follows || s.part || s.mask ? null : s.value ?? 1024n));
    this.guessed = this.program.sizes.filter((s) => !s.follows && !s.part && !s.mask && s.value === null).map((s) => s.name);
    const asked = this.program.sizes.findIndex((s, i) => this.own[i] !== null && s.name === this.program.asked[0]);
    this.place = asked >= 0 ? asked : freePlaces(this.program)[0] ?? -1;
    this.readAddress();
    this.build();
    this.redraw();
  }

  addMachine(machine) {
    if (!this.machines.some((m) => m.name === machine.name)) this.machines.push(machine);
  }

  // Several machines of one program, or another program.
  firstBeside() {
    const [, second] = this.programs;
    return second.same ? {machine: second.machine} : {program: second};
  }

  setting(program, machine) {
    const key = `${this.programs.indexOf(program)} ${machine.name}`;
    if (!this.settings.has(key)) this.settings.set(key, settingOf(program, machine));
    return this.settings.get(key);
  }

  // Sizes of another program that are called as these are.
  ownOf(program) {
    if (program === this.program) return this.own;
    return program.sizes.map((s) => {
      const i = this.program.sizes.findIndex((o) => o.name === s.name);
      if (s.follows || s.part || s.mask) return null;
      return i >= 0 && this.own[i] !== null ? this.own[i] : s.value ?? 1024n;
    });
  }

  // --- what does not change: controls ---

  build() {
    for (const id of ['cards', 'controls', 'limits']) element(id).hidden = false;
    const free = freePlaces(this.program), size = (i) => escapedText(this.program.sizes[i].name);
    const sliders = free.map((i) => `<div class="size"><label for="size${i}">${size(i)}</label>` +
      `<div class="track"><input type="range" id="slide${i}" min="0" max="${STEPS.length - 1}" step="1" data-size="${i}" aria-label="${size(i)}, slider">` +
      `<i class="mark" id="mark${i}" hidden></i></div>` +
      `<input type="number" id="size${i}" min="1" step="1" data-size="${i}"></div>`);
    const option = (m) => `<option value="${escapedText(m.name)}">${escapedText(m.name)}${m.title ? ` – ${escapedText(shortened(m.title, 44))}` : ''}</option>`;
    const machines = `<optgroup label="of this report">${this.machines.slice(0, this.listed).map(option).join('')}</optgroup>` +
      `<optgroup label="catalog">${this.machines.slice(this.listed).map(option).join('')}</optgroup>`;
    const others = this.programs.map((p, i) => (p.same ? '' : `<option value="#${i}">${escapedText(shortened(p.title, 44))}</option>`));
    const dims = free.map((i) => `<option value="${i}">${size(i)}</option>`);
    element('controls').innerHTML = `<h2 style="margin-top:0">Sizes and machine</h2><div class="sizes">${sliders.join('')}</div>` +
      '<p class="soft follows" id="follows"></p><p id="fault" role="status"></p><div class="choices">' +
      `<label>Machine <select id="machine">${machines}</select></label>` +
      `<label>Beside it <select id="beside"><option value="">nothing</option>${others.join('')}${machines}</select></label>` +
      (free.length > 1 ? `<label>Thresholds for <select id="dim">${dims.join('')}</select></label>` : '') +
      '<span><input type="file" id="saved" accept=".json,application/json" multiple><label class="file" for="saved">Add a saved run</label></span>' +
      '<button type="button" id="reset">As asked</button></div><div class="choices" id="runs"></div><p class="soft follows" id="note" role="status"></p>';
    element('limits').innerHTML = '<h2 id="changes">Where the limiter changes, the other sizes held</h2>' +
      '<div id="changing" class="scroll plain" role="region" tabindex="0" aria-labelledby="changes"></div>';
    this.statements = new Table(element('table'));
    this.changing = new Table(element('changing'));
    element('picture').innerHTML = '<svg id="roofline" role="group" xmlns="http://www.w3.org/2000/svg"></svg>';
    this.listen();
  }

  listen() {
    const controls = element('controls');
    controls.addEventListener('input', (event) => {
      const {size} = event.target.dataset;
      if (size === undefined) return;
      const typed = Math.round(Number(event.target.value)), slides = event.target.type === 'range';
      if (!slides && !(typed >= 1 && typed < 2 ** 53)) return;
      this.own[size] = BigInt(slides ? STEPS[typed] : typed);
      this.redraw(event.target);
    });
    controls.addEventListener('change', (event) => {
      const {id, value} = event.target;
      if (id === 'machine') this.machine = this.machines.find((m) => m.name === value);
      if (id === 'beside') this.beside = this.besideNamed(value);
      if (id === 'dim') this.place = Number(value);
      if (id === 'saved') this.read(event.target.files);
      else this.redraw();
    });
    element('reset').addEventListener('click', () => this.reset());
    element('runs').addEventListener('click', (event) => {
      if (event.target.dataset.run !== undefined) this.show(this.runs[event.target.dataset.run]);
    });
    element('table').addEventListener('click', (event) => {
      const key = event.target.dataset.sort;
      if (!key) return;
      this.sort = {key, down: this.sort.key === key ? !this.sort.down : key !== 'op'};
      this.redraw();
      element('table').querySelector(`[data-sort="${key}"]`).focus();
    });
    this.listenToPicture();
    let width = 0;
    new ResizeObserver(([entry]) => {
      if (Math.abs(entry.contentRect.width - width) > 1) this.drawPicture();
      width = entry.contentRect.width;
    }).observe(element('picture'));
    addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
  }

  besideNamed(value) {
    if (value === '') return null;
    return value[0] === '#' ? {program: this.programs[value.slice(1)]} : {machine: this.machines.find((m) => m.name === value)};
  }

  reset() {
    this.own = this.program.sizes.map((s) => (s.follows || s.part || s.mask ? null : s.value ?? 1024n));
    this.machine = this.machines[0];
    this.redraw();
  }

  // A saved run's sizes and machine.
  show(run) {
    this.program.sizes.forEach((s, i) => {
      if (this.own[i] !== null && run.dims[s.name] !== undefined) this.own[i] = BigInt(run.dims[s.name]);
    });
    this.machine = this.machines.find((m) => m.name === run.machine.name);
    this.redraw();
  }

  async read(files) {
    const faults = [];
    for (const file of files) {
      const run = runOfReport(await file.text(), file.name);
      if (run.error) {
        faults.push(run.error);
        continue;
      }
      if (!this.machines.some((m) => m.name === run.machine.name)) {
        this.machines.push(run.machine);
        for (const id of ['machine', 'beside']) element(id).add(new Option(run.machine.name, run.machine.name));
      }
      this.runs.push(run);
    }
    if (this.runs.length > 0) this.show(this.runs[this.runs.length - 1]);
    element('note').textContent = faults.join(' ');
  }

  // --- what changes ---

  redraw(moved = null) {
    const state = evaluate(this.setting(this.program, this.machine), this.own);
    this.showControls(state, moved);
    element('fault').textContent = state.fault ? `Nothing is known here: ${state.fault}.` : '';
    if (state.fault) return;
    state.kernels.forEach((k, i) => { k.called = this.program.kernels[i].called; });
    const second = this.secondState();
    second?.kernels.forEach((k, i) => { k.called = second.setting.program.kernels[i].called; });
    const run = this.runs.map((r) => [r, measuredIn(r, state)]).findLast(([, found]) => found);
    state.kernels.forEach((k, i) => {
      k.measured = run ? run[1][i] : null;
      k.other = second?.setting.program === this.program ? second.kernels[i] : null;
    });
    this.view = {
      state, second, secondName: this.beside ? this.beside.program?.title ?? this.beside.machine.name : '', place: this.place,
      sort: this.sort, measured: run ? run[1] : null, measuredTotal: run ? run[0].total : null,
    };
    this.showAnswer();
    this.drawPicture();
    showStatements(this.statements, this.view);
    showLimits(this.changing, state);
    this.showMarks();
    this.showRuns();
    this.writeAddress();
  }

  // Below each slider where computing begins to take longer.
  showMarks() {
    const {state} = this.view;
    for (const i of freePlaces(this.program)) {
      const mark = element(`mark${i}`), from = computeBoundFrom(state, i).find((t) => t.value !== undefined);
      mark.hidden = !from;
      if (!from) continue;
      const share = stepOf(from.value) / (STEPS.length - 1);
      mark.style.left = `calc(8px + ${share} * (100% - 16px))`;  // a thumb is 16 px wide
    }
  }

  secondState() {
    if (!this.beside) return null;
    const program = this.beside.program ?? this.program;
    const out = evaluate(this.setting(program, this.beside.machine ?? this.machine), this.ownOf(program));
    if (!out.fault) return out;
    element('fault').textContent = `Nothing stands beside it: ${out.fault}.`;
    return null;
  }

  showControls(state, moved) {
    for (const i of freePlaces(this.program)) {
      const slide = element(`slide${i}`), box = element(`size${i}`);
      if (slide !== moved) slide.value = stepOf(this.own[i]);
      if (box !== moved) box.value = String(this.own[i]);
      slide.setAttribute('aria-valuetext', `${this.program.sizes[i].name} = ${this.own[i]}`);
    }
    element('machine').value = this.machine.name;
    element('beside').value = this.beside ? this.beside.machine?.name ?? `#${this.programs.indexOf(this.beside.program)}` : '';
    if (element('dim')) element('dim').value = String(this.place);
    const follows = this.program.sizes.map((s, i) => (s.follows ? `${s.name} = ${s.formula} = ${grouped(state.sizes.whole[i])}` : '')).filter(Boolean);
    if (this.guessed.length > 0) follows.push(`no value was given for ${this.guessed.join(', ')}: sliders begin at 1024`);
    if (this.program.split) follows.push(`one of ${this.program.split.chips} chips, ${this.program.split.dim} split`);
    element('follows').textContent = follows.join('; ');
  }

  showAnswer() {
    const {state, second} = this.view;
    element('verdict').textContent = verdictText(state, this.place, this.view.measuredTotal);
    const beside = second ? cardsOf(second, second.setting.program === this.program ? this.place : freePlaces(second.setting.program)[0] ?? -1) : [];
    element('cards').innerHTML = cardsOf(state, this.place).map((card, i) => {
      const bar = card.share === undefined ? '' : `<div class="bar${card.share > 1 ? ' over' : ''}" role="img" aria-label="${percent(card.share)} of the memory"><i style="width:${Math.min(100, 100 * card.share).toFixed(2)}%"></i></div>`;
      const notes = second ? [...card.notes, `${this.view.secondName}: ${beside[i].value}`] : card.notes;
      return `<div class="card"><h2>${escapedText(card.title)}</h2><p class="value">${escapedText(card.value)}</p>${bar}` +
        `${notes.map((n) => `<p class="soft">${escapedText(n)}</p>`).join('')}</div>`;
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
    const parts = ['Each dot is a statement on its roof; its area is its share of the time. The mark below a slider: from there on computing takes longer than moving.'];
    if (first.measured) parts.push('Full dots are measured.');
    if (other) parts.push(`Dashed roofs and the other colour: ${this.view.secondName}.`);
    if (first.not_drawn.length > 0) parts.push(`Not drawn: ${first.not_drawn.join('; ')}.`);
    element('legend').textContent = parts.join(' ');
    element('tip').hidden = true;
  }

  showRuns() {
    const {measured, state} = this.view;
    element('runs').innerHTML = this.runs.map((run, i) => {
      const here = measuredIn(run, state) !== null, sizes = Object.entries(run.dims).filter(([name]) => this.program.sizes.some((s, k) => s.name === name && this.own[k] !== null)).map(([name, value]) => `${name} = ${value}`).join(', ');
      return `<button type="button" data-run="${i}" aria-pressed="${here}">${escapedText(run.called)}: ${escapedText(run.machine.name)}${sizes ? `, ${escapedText(sizes)}` : ''}</button>`;
    }).join('');
    const elsewhere = this.runs.length > 0 && !measured;
    element('note').textContent = elsewhere ? 'No run was measured at these sizes on this machine: a run above shows its own.' : '';
  }

  // --- the picture under the pointer ---

  listenToPicture() {
    const svg = element('roofline'), tip = element('tip');
    const hide = () => {
      tip.hidden = true;
      element('cursor')?.setAttribute('d', '');
    };
    svg.addEventListener('pointermove', (event) => {
      const dot = event.target.closest?.('.dot'), at = this.pointed(event);
      if (dot) this.tell(dot.dataset.tip, event.clientX, event.clientY);
      else if (at) this.tell(at.text, event.clientX, event.clientY);
      else tip.hidden = true;
      element('cursor')?.setAttribute('d', at ? `M${at.x} ${this.picture.layout.plot.bottom}V${at.y}` : '');
    });
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('focusin', (event) => {
      const dot = event.target.closest('.dot');
      if (!dot) return;
      const box = dot.getBoundingClientRect();
      this.tell(dot.dataset.tip, box.right, box.bottom);
    });
    svg.addEventListener('focusout', hide);
    addEventListener('keydown', (event) => event.key === 'Escape' && hide());
  }

  // What the roof allows at the intensity under the pointer.
  pointed(event) {
    const box = element('roofline').getBoundingClientRect(), {layout, axes, places, bandwidth, top} = this.picture;
    const x = (event.clientX - box.left) / box.width * layout.width, {plot} = layout;
    if (x < plot.left || x > plot.right) return null;
    const intensity = 10 ** (axes.x_low + (x - plot.left) / (plot.right - plot.left) * (axes.x_high - axes.x_low));
    const rate = top > 0 ? Math.min(top, intensity * bandwidth) : intensity * bandwidth;
    const by = top > 0 && rate === top ? 'compute' : 'memory';
    const y = Math.max(plot.top, Math.min(plot.bottom, places.y(rate)));
    return {x: x.toFixed(1), y: y.toFixed(1), text: `${significant(intensity)} FLOP/B: at most ${engineering(rate, 'FLOP/s')}, by ${by}`};
  }

  tell(text, clientX, clientY) {
    const tip = element('tip'), room = element('pictures').getBoundingClientRect();
    tip.textContent = text;
    tip.hidden = false;
    const left = Math.min(clientX - room.left + 14, room.width - tip.offsetWidth - 2);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${clientY - room.top + 16}px`;
  }

  // --- the address: #B=64&on=h200, so that a link shows the same ---

  readAddress() {
    for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
      const i = this.program.sizes.findIndex((s) => s.name === key);
      if (i >= 0 && this.own[i] !== null && /^[1-9]\d{0,14}$/.test(value)) this.own[i] = BigInt(value);
      const machine = this.machines.find((m) => m.name === value);
      if (key === 'on' && machine) this.machine = machine;
      if (key === 'beside' && machine) this.beside = {machine};
    }
  }

  writeAddress() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const out = new URLSearchParams();
      for (const i of freePlaces(this.program))
        if (this.own[i] !== (this.program.sizes[i].value ?? 1024n)) out.set(this.program.sizes[i].name, String(this.own[i]));
      if (this.machine !== this.machines[0]) out.set('on', this.machine.name);
      if (this.beside?.machine && this.programs.length === 1) out.set('beside', this.beside.machine.name);
      try {
        history.replaceState(null, '', out.size > 0 ? `#${out}` : location.pathname);
      } catch {
        // A page without an address of its own keeps none.
      }
    }, 300);
  }
}

const pageData = JSON.parse(element('data').textContent);
if (pageData.subjects.length > 0) globalThis.ridgePage = new RidgePage(pageData);
