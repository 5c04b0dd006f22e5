// Throughput of a chip against the speed for one user, over numbers of chips and sequences: the front of each machine.

const FRONT_BATCHES = Array.from({length: 15}, (_, i) => 2 ** i);

// Returns the points that fit and that no other point beats in both numbers, from the fastest to the one with the most
// tokens.
function findFront(model, query) {
  const points = [], {capacity} = machineMemory(query.machine);
  for (const {chips} of model.chips)
    for (const batch of FRONT_BATCHES) {
      const step = evaluateStep(model, {...query, chips}, 'decode', batch);
      if (step.error || (capacity !== null && step.memory > capacity)) break;
      points.push({machine: query.machine, chips, batch, speed: 1 / step.bound, throughput: batch / step.bound / chips});
    }
  points.sort((a, b) => b.speed - a.speed || b.throughput - a.throughput);
  let best = 0;
  return points.filter(({throughput}) => throughput > best && (best = throughput));
}

const frontTip = ({machine, chips, batch, speed, throughput}) =>
  `${chipsText({chips, machine})}, ${countText(batch, 'sequence')}: ${rateText(speed)} tokens/s a sequence, ${rateText(throughput)} tokens/s a chip` +
  lackingTimes({machine, chips}).map((time) => `; too high without ${time}`).join('');

// Returns the numbers 1, 2 and 5 times powers of ten between two numbers.
function listTicks(low, high) {
  const out = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); ++power)
    for (const factor of [1, 2, 5]) if (factor * 10 ** power >= low && factor * 10 ** power <= high) out.push(factor * 10 ** power);
  return out;
}

// A picture with logarithmic axes of the fronts and of the answer's own point.
class FrontPicture {
  constructor(fronts, own, width) {
    const small = width < 560, height = Math.round(Math.max(280, Math.min(420, width * 0.5)));
    const plot = {left: small ? 52 : 68, top: 10, right: width - 14, bottom: height - (small ? 38 : 46)};
    const points = [...fronts.flat(), own].filter(Boolean), spread = (key) => [Math.min(...points.map((p) => p[key])) / 1.15, Math.max(...points.map((p) => p[key])) * 1.15];
    Object.assign(this, {width, height, small, plot, xs: spread('speed'), ys: spread('throughput')});
    this.markup = points.length === 0 ? '' : this.drawGrid() + fronts.map((front, i) => this.drawFront(front, i)).join('') + this.drawOwn(own);
  }

  position(value, [low, high], from, to) { return from + Math.log(value / low) / Math.log(high / low) * (to - from); }
  x({speed}) { return this.position(speed, this.xs, this.plot.left, this.plot.right); }
  y({throughput}) { return this.position(throughput, this.ys, this.plot.bottom, this.plot.top); }

  drawGrid() {
    const {plot, small, height} = this, out = [], text = (place, content) => out.push(`<text class="soft" ${place}>${content}</text>`);
    const shown = (tick) => (tick < 1000 ? significant(tick, 1) : grouped(tick));
    const xTicks = listTicks(...this.xs), yTicks = listTicks(...this.ys), every = Math.ceil(xTicks.length * (small ? 44 : 56) / (plot.right - plot.left));
    xTicks.forEach((tick, i) => {
      const x = rounded(this.x({speed: tick}));
      out.push(`<path class="grid" d="M${x} ${plot.top}V${plot.bottom}"/>`);
      if (i % every === 0) text(`x="${x}" y="${plot.bottom + 15}" text-anchor="middle"`, shown(tick));
    });
    for (const tick of yTicks) {
      const y = this.y({throughput: tick});
      out.push(`<path class="grid" d="M${plot.left} ${rounded(y)}H${plot.right}"/>`);
      text(`x="${plot.left - 6}" y="${rounded(y + 4)}" text-anchor="end"`, shown(tick));
    }
    out.push(`<path class="frame" d="M${plot.left} ${plot.top}H${plot.right}V${plot.bottom}H${plot.left}Z"/>`);
    text(`x="${(plot.left + plot.right) / 2}" y="${height - 6}" text-anchor="middle"`, 'tokens/s a sequence');
    text(`text-anchor="middle" transform="translate(${small ? 12 : 16} ${(plot.top + plot.bottom) / 2}) rotate(-90)"`, 'tokens/s a chip');
    return out.join('');
  }

  drawDot(kind, point, radius) {
    const tip = escapeText(frontTip(point)), [x, y] = [rounded(this.x(point)), rounded(this.y(point))];
    return `<g class="dot ${kind}" tabindex="0" role="img" aria-label="${tip}" data-tip="${tip}"><circle class="hit" cx="${x}" cy="${y}" r="9"/><circle class="point" cx="${x}" cy="${y}" r="${radius}"/></g>`;
  }

  drawFront(front, i) {
    if (front.length === 0) return '';
    return pathMarkup(`front colour${i}`, front.map((p) => ({x: this.x(p), y: this.y(p)}))) + front.map((p) => this.drawDot(`colour${i}`, p, 3.5)).join('');
  }

  drawOwn(own) { return own ? this.drawDot('own', own, 7) : ''; }
}

// Returns the numbers of a machine's answer for the same sizes.
function summarizeAnswer(model, query) {
  const answer = answerModel(model, query), {batch, machine} = query;
  if (answer.error) return {machine, error: answer.error};
  const {decode, step, fits, maxBatch, query: {chips}} = answer, served = predictServed(model, answer), planned = plannedTimes(model, answer);
  return {machine, served, planned, chips, speed: 1 / decode.bound, throughput: batch / decode.bound / chips, token: decode.bound, first: firstTokenBound(answer), memory: step.memory, fits, maxBatch};
}

// Returns a text for numbers of a machine that marks those of machines whose file lacks times.
const marked = (text) => (x, row) => markTooLow(text(x), row);

function showMachines(host, rows) {
  const shown = (x) => x, speed = rateText;
  // Columns of an estimate that some machine has: its interval next to the bound.
  const estimates = [['served', 'served'], ['planned', 'kernels']].filter(([key]) => rows.some((m) => m[key])).flatMap(([key, title]) => [
    ['', `a token, ${title}`, (m) => m[key]?.token, intervalText], ['', `first token, ${title}`, (m) => m[key]?.first, intervalText, 'wide']]);
  showTable(host, [
    ['', 'machine', (m) => `${m.machine.name}${m.fits === false ? ' (does not fit)' : ''}`, shown], ['', 'chips', (m) => m.chips, grouped], ['', 'tokens/s a sequence', (m) => m.speed, marked(speed)],
    ['', 'tokens/s a chip', (m) => m.throughput, marked(rateText)], ['', 'a token, at least', (m) => m.token, marked(seconds)], ['', 'first token, at least', (m) => m.first, marked(seconds), 'wide'], ...estimates,
    ['', 'memory a chip', (m) => m.memory, bytesText, 'wide'], ['', 'sequences that fit', (m) => m.maxBatch, grouped, 'wide'],
  ], rows);
}

function showFrontTable(host, fronts) {
  const shown = (x) => x, columns = [
    ['', 'machine', (p) => p.machine.name, shown], ['', 'chips', (p) => p.chips, grouped], ['', 'sequences', (p) => p.batch, grouped],
    ['', 'tokens/s a sequence', (p) => p.speed, marked(rateText)], ['', 'tokens/s a chip', (p) => p.throughput, marked(rateText)]];
  showTable(host, columns, fronts.flat());
}
