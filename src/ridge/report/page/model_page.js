// The page of a language model: controls (model_page.cc), and the answer, bars, pictures and table that follow them.

const TIME_KINDS = ['weights', 'cache', 'other bytes', 'compute', 'network', 'launches'];
const MAX_COMPARED = 5;  // Colours of fronts
const classOf = (kind) => `kind${TIME_KINDS.indexOf(kind)}`;
const swatch = (kind, text) => `<span class="key"><i class="${kind}"></i>${escapeText(text)}</span>`;

// Returns what distinguishes a module from those of the same name: the kind of its layer.
function moduleName(modules, {part, name}) {
  const isUnique = modules.every((m) => m.name !== name || m.part === part);
  return isUnique ? name : `${name} (${part.replace(/^layer, /, '')})`;
}

// Returns the description of the picture (description.js): a dot for each module that computes.
function describeModules({query, step}) {
  const {level, bandwidth} = machineMemory(query.machine), dots = [], peaks = [];
  for (const m of step.modules) {
    if (m.flops === 0 || !m.peak) continue;
    const intensity = m.flops / m.bytes, isRoof = ['compute', 'memory'].includes(m.limiter);
    const rate = isRoof ? m.flops / m.bound : Math.min(m.peak.rate, intensity * bandwidth), name = moduleName(step.modules, m);
    const tip = `${name}: ${significant(intensity)} FLOP/B, at most ${engineering(rate, 'FLOP/s')}, ${percent(m.share)} of the time`;
    dots.push({name, tip, intensity, rate, share: m.share, sent: false, measured: null});
    if (!peaks.some((p) => p.name.endsWith(m.peak.name))) peaks.push({rate: m.peak.rate, name: `${engineering(m.peak.rate, 'FLOP/s')} ${m.peak.name}`});
  }
  const out = {subtitle: `on ${query.machine.title || query.machine.name}`, bandwidth, dots, peaks, slopes: [], measured: false, bandwidth_name: `${engineering(bandwidth, 'B/s')} ${level}`};
  return Object.assign(out, findDecades(out));
}

class ModelPage {
  constructor(data) {
    this.model = parseModel(data);
    this.sort = {key: 'share', down: true};
    this.fronts = new Map();
    const mostImages = data.images ? Math.max(1, Math.floor(data.max_context / data.images.tokens)) : 0;
    this.steps = {batch: STEPS.filter((s) => s <= 2 ** 14), context: STEPS.filter((s) => s >= data.min_context && s <= Math.min(2 ** 20, data.max_context))};
    this.ranges = {batch: [1, MAX_SEQUENCES], context: [data.min_context, data.max_context]};
    if (data.images) {
      this.steps.images = [0, ...STEPS.filter((s) => s <= Math.min(256, mostImages))];
      this.ranges.images = [0, mostImages];
    }
    this.sizes = Object.keys(this.steps);
    this.reset();
    this.readAddress();
    for (const id of ['controls', 'pictures']) element(id).hidden = false;
    this.addListeners();
    this.redraw();
  }

  reset() {
    const {asked} = this.model;
    this.query = {...asked, machine: this.machineNamed(asked.machine)};
  }

  machineNamed(name) { return this.model.machines.find((m) => m.name === name); }

  addListeners() {
    element('controls').addEventListener('input', ({target}) => {
      const id = target.id.replace(/slide$/, ''), slides = target.type === 'range', typed = Math.round(Number(target.value));
      if (!this.steps[id]) return;
      const [low, high] = this.ranges[id];
      if (!slides && !(typed >= low && typed <= high)) return;
      this.query[id] = slides ? this.steps[id][typed] : typed;
      this.redraw(target);
    });
    element('controls').addEventListener('change', ({target: {id, value}}) => {
      if (id === 'machine') this.query.machine = this.machineNamed(value);
      if (id === 'chips') this.query.chips = value === '' ? null : Number(value);
      if (['weights', 'cache', 'phase'].includes(id)) this.query[id] = value;
      this.redraw();
    });
    element('reset').addEventListener('click', () => {
      this.reset();
      this.redraw();
    });
    element('table').addEventListener('click', ({target: {dataset: {sort: key}}}) => {
      if (!key) return;
      this.sort = {key, down: this.sort.key === key ? !this.sort.down : !['module', 'limiter'].includes(key)};
      this.showModules();
      element('table').querySelector(`[data-sort="${key}"]`).focus();
    });
    for (const id of ['roofline', 'frontier']) addTips(element(id), element('pictures'), element('tip'), (x, width) => id === 'roofline' && this.pointAtRoof(x / width));
    addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
    new ResizeObserver(() => this.width !== this.pictureWidth() && this.answer && this.drawPictures()).observe(element('picture'));
  }

  pointAtRoof(share) {
    const roof = this.picture?.roofAt(share * this.picture.width);
    element('cursor')?.setAttribute('d', roof?.line ?? '');
    return roof?.text;
  }

  redraw(changed = null) {
    const answer = answerModel(this.model, this.query);
    this.updateControls(answer, changed);
    element('error').textContent = answer.error ? `No answer: ${answer.error}.` : '';
    this.answer = answer.error ? null : answer;
    this.writeAddress();
    if (answer.error) return;
    const [summary, ...sentences] = modelSentences(this.model, answer), upper = (s) => (s.startsWith(`${answer.query.machine.name}:`) ? s : s[0].toUpperCase() + s.slice(1));
    const paragraph = (kind) => (s) => `<p class="${kind}">${escapeText(`${upper(s)}.`)}</p>`;
    element('summary').textContent = `${summary}.`;
    const lacking = lackingSentences(answer.query).map((text) => `${text}: every number marked ${tooLow} is`);
    element('sentences').innerHTML = lacking.map(paragraph('caution')).join('') + [...plannedSentences(this.model, answer), ...sentences].map(paragraph('')).join('') + caveatSentences(this.model, answer).map(paragraph('soft')).join('');
    this.showTimes();
    this.showMemory();
    this.drawPictures();
    this.showModules();
  }

  updateControls(answer, changed) {
    const {query} = answer;
    for (const id of this.sizes) {
      const slide = element(`${id}slide`), box = element(id), steps = this.steps[id];
      slide.max = steps.length - 1;
      if (slide !== changed) slide.value = Math.max(0, steps.findLastIndex((s) => s <= this.query[id]));
      if (box !== changed) box.value = this.query[id];
      slide.setAttribute('aria-valuetext', grouped(this.query[id]));
    }
    for (const id of ['weights', 'cache', 'phase']) element(id).value = this.query[id];
    element('machine').value = this.query.machine.name;
    element('chips').value = this.query.chips ?? '';
    const none = answer.error || !answer.fits ? `none fits, ${query.chips} shown` : query.chips;
    element('chips').options[0].textContent = this.query.chips === null ? `the fewest that fit: ${none}` : 'the fewest that fit';
  }

  // Shows a bar for each module, divided by what limits it.
  showTimes() {
    const {step, query} = this.answer, longest = Math.max(...step.modules.map((m) => m.share)), all = divideBound(step);
    const piece = ([kind, time], whole) => (time > 0 ? `<i class="${classOf(kind)}" style="width:${(100 * time / whole).toFixed(2)}%"></i>` : '');
    element('keys').innerHTML = TIME_KINDS.filter((k) => all[k] > 0).map((k) => swatch(classOf(k), `${k} ${percent(all[k] / step.bound)}`)).join('');
    element('bars').innerHTML = step.modules.map((m) => {
      const name = `${moduleName(step.modules, m)}${m.layers > 1 ? ` \u00d7 ${m.layers}` : ''}`, width = longest > 0 ? 100 * m.share / longest : 0;
      return `<div class="row" role="listitem"><span class="what">${escapeText(name)}</span><span class="track"><span class="pieces" style="width:${width.toFixed(2)}%">` +
        `${Object.entries(divideModule(m)).map((p) => piece(p, m.bound)).join('')}</span></span><span class="time">${markTooLow(seconds(m.layers * m.bound), query)}</span><span class="of">${percent(m.share)}</span></div>`;
    }).join('');
  }

  showMemory() {
    const {step, capacity, fits} = this.answer, whole = Math.max(step.memory, capacity ?? 0);
    const parts = [['kind0', 'weights', step.parameters + step.scales], ['kind1', 'cache', step.cache], ['kind2', 'activations', step.activations]];
    const pieces = parts.map(([kind, , bytes]) => `<i class="${kind}" style="width:${(100 * bytes / whole).toFixed(2)}%"></i>`).join('');
    const mark = capacity === null ? '' : `<b style="left:${(100 * capacity / whole).toFixed(2)}%"></b>`;
    const limit = capacity === null ? 'the capacity is not on record' : fits ? `free ${bytesText(capacity - step.memory)} of ${bytesText(capacity)}` : `${bytesText(step.memory - capacity)} more than the ${bytesText(capacity)} of a chip`;
    element('memorybar').innerHTML = `<div class="memory${fits ? '' : ' over'}" role="img" aria-label="${bytesText(step.memory)}; ${limit}">${pieces}${mark}</div>` +
      `<p class="keys">${parts.map(([kind, name, bytes]) => swatch(kind, `${name} ${bytesText(bytes)}`)).join('')}${swatch('free', limit)}</p>`;
  }

  pictureWidth() { return Math.max(280, Math.round(element('picture').clientWidth)); }

  drawPictures() {
    this.width = this.pictureWidth();
    const described = describeModules(this.answer), svg = element('roofline');
    this.picture = new Picture(described, null, this.width);
    const show = (target, picture, label) => {
      target.setAttribute('viewBox', `0 0 ${this.width} ${picture.height}`);
      target.setAttribute('class', picture.small ? 'small' : '');
      target.setAttribute('aria-label', label);
      target.innerHTML = picture.markup;
    };
    show(svg, this.picture, `Roofline ${described.subtitle}: ${described.dots.length} modules`);
    element('legend').textContent = 'Each dot is a module of one layer on its roof; its area is its share of the time of all layers. The network and modules without computation are not drawn.';
    this.drawFronts(show);
    element('tip').hidden = true;
  }

  // Returns the front of a machine. It does not depend on the batch, and is kept for the other sizes.
  frontOf(machine) {
    const {weights, cache, context} = this.query, key = [machine.name, weights, cache, context].join();
    if (this.fronts.size > 200) this.fronts.clear();
    if (!this.fronts.has(key)) this.fronts.set(key, findFront(this.model, {...this.query, machine}));
    return this.fronts.get(key);
  }

  drawFronts(show) {
    const {query, decode} = this.answer, names = [...new Set([query.machine.name, ...this.model.asked.compared])].slice(0, MAX_COMPARED);
    const machines = this.model.asked.compared.includes(query.machine.name) ? this.model.asked.compared.slice(0, MAX_COMPARED) : names;
    const fronts = machines.map((name) => this.frontOf(this.machineNamed(name)));
    const rows = machines.map((name) => summarizeAnswer(this.model, {...this.query, machine: this.machineNamed(name)}));
    showMachines(element('machines'), rows);
    const own = {machine: query.machine, chips: query.chips, batch: query.batch, speed: 1 / decode.bound, throughput: query.batch / decode.bound / query.chips};
    show(element('frontier'), new FrontPicture(fronts, own, this.width), `Tokens per second of a chip against tokens per second of a sequence, on ${machines.join(', ')}`);
    element('frontlegend').innerHTML = `<span class="keys">${machines.map((name, i) => swatch(`colour${i}`, fronts[i].length > 0 ? markTooLow(name, {machine: rows[i].machine, chips: 2}) : `${name}: no number of chips fits`)).join('')}${swatch('own', this.answer.fits ? 'these sizes' : 'these sizes, which do not fit')}</span> ` +
      `Decoding with ${countText(query.context, 'token')} of each sequence, at the bound. Each dot is the best of all numbers of chips and of 1, 2, 4, … sequences that fit.`;
    const lacking = ({machine: {name, not_on_record}, error}) => error ?? (not_on_record[1].length > 0 ? `${tooLow} ${name}: ${not_on_record[1].join(' and ')} count as 0, so its curve and rates are too high and its times too low` : '');
    element('frontcaveats').innerHTML = rows.map(lacking).filter(Boolean).map((text) => `<p class="${text.startsWith(tooLow) ? 'caution' : ''}">${escapeText(text)}.</p>`).join('');
    showFrontTable(element('fronttable'), fronts);
  }

  showModules() {
    const {step, query} = this.answer, shown = (x) => x, {sort} = this, columns = [
      ['module', 'module', (m) => (m.part ? moduleName(step.modules, m) : m.name), shown, 'words'], ['layers', 'layers', (m) => m.layers, grouped, 'wide'],
      ['share', 'of time', (m) => m.share, percent, 'bars'], ['work', 'work', (m) => (m.layers ?? 1) * m.flops, (x) => engineering(x, 'FLOP'), 'wide'],
      ['bytes', 'bytes', (m) => (m.layers ?? 1) * m.bytes, bytesText, 'wide'], ['limiter', 'limiter', (m) => m.limiter, shown, 'words wide'],
      ['bound', 'bound', (m) => (m.layers ?? 1) * m.bound, (x) => markTooLow(seconds(x), query)]];
    const [,, value] = columns.find(([key]) => key === sort.key), compare = (x, y) => (x < y ? -1 : x > y ? 1 : 0);
    const rows = [...step.modules].sort((a, b) => (sort.down ? -1 : 1) * compare(value(a), value(b)));
    const total = {name: 'total', part: null, layers: null, share: 1, flops: step.flops, bytes: step.bytes, limiter: null, bound: step.bound};
    showTable(element('table'), columns, rows, [total], sort);
  }

  // Sets the query from an address such as #batch=64&on=h200.
  readAddress() {
    const given = new URLSearchParams(location.hash.slice(1)), {query, model} = this;
    for (const id of this.sizes) {
      const value = Number(given.get(id)), [low, high] = this.ranges[id];
      if (given.has(id) && Number.isInteger(value) && value >= low && value <= high) query[id] = value;
    }
    query.machine = this.machineNamed(given.get('on')) ?? query.machine;
    if (given.has('chips')) query.chips = model.bySizes.has(Number(given.get('chips'))) ? Number(given.get('chips')) : null;
    for (const id of ['weights', 'cache', 'phase']) if (model.steps.some((s) => s[id] === given.get(id))) query[id] = given.get(id);
  }

  writeAddress() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => {
      const out = new URLSearchParams(), {query, model: {asked}} = this;
      for (const id of [...this.sizes, 'weights', 'cache', 'phase']) if (query[id] !== asked[id]) out.set(id, query[id]);
      if (query.chips !== asked.chips) out.set('chips', query.chips ?? 'fewest');
      if (query.machine.name !== asked.machine) out.set('on', query.machine.name);
      if (/^(file|https?):/.test(location.protocol)) history.replaceState(null, '', out.size > 0 ? `#${out}` : location.pathname);
    }, 300);
  }
}

globalThis.modelPage = new ModelPage(JSON.parse(element('data').textContent));
