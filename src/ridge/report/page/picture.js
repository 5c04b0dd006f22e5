// Draws a description (description.js) as SVG at any width, with the same roofs, dots and names as the SVG of the command
// line. Labels are placed greedily as in report/svg/placer.h: at the nearest position that touches nothing.

const escapeText = (text) =>
  text.replace(/[&<>"]/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'}[c]));

// Returns an upper bound on the width of a text, by classes of characters.
function textWidth(text, size, bold = false) {
  let em = 0;
  for (const c of text) {
    if (" !'(),-./:;I[\\]fijlrt|".includes(c)) em += bold ? 0.5 : 0.42;
    else if ('#%&+<=>@MWmw~'.includes(c)) em += bold ? 1.11 : 1.0;
    else if (c >= 'A' && c <= 'Z') em += bold ? 0.86 : 0.79;
    else em += c < '\x80' ? (bold ? 0.72 : 0.64) : 1.0;
  }
  return em * size;
}

class Placer {
  constructor(bounds) {
    this.bounds = bounds;
    this.taken = [];
  }
  block(box) { this.taken.push(box); }
  blockLine(a, b) {
    const pieces = Math.max(1, Math.trunc(Math.hypot(b.x - a.x, b.y - a.y) / 6));
    for (let i = 0; i <= pieces; ++i) {
      const x = a.x + (b.x - a.x) * i / pieces, y = a.y + (b.y - a.y) * i / pieces;
      this.block({left: x - 3, top: y - 3, right: x + 3, bottom: y + 3});
    }
  }
  free(box) {
    const o = this.bounds;
    if (box.left < o.left || box.right > o.right || box.top < o.top || box.bottom > o.bottom) return false;
    return !this.taken.some((t) => box.left < t.right && t.left < box.right && box.top < t.bottom && t.top < box.bottom);
  }
  take(box) {
    if (!this.free(box)) return false;
    this.block(box);
    return true;
  }
  // Tries positions around a dot, nearest first; a line joins a distant label to its dot.
  around(text, from, radius, size, bold) {
    const width = textWidth(text, size, bold);
    for (let distance = radius + 4; distance < 130; distance += 9)
      for (let turn = 0; turn < 16; ++turn) {
        const angle = (turn % 2 ? 1 : -1) * Math.trunc((turn + 1) / 2) * Math.PI / 8, side = Math.cos(angle);
        const x = from.x + distance * side, y = from.y + distance * Math.sin(angle);
        const left = side > 0.3 ? x : side < -0.3 ? x - width : x - width / 2;
        const baseline = y + 4 + 7 * Math.sin(angle);
        const box = {left: left - 2, top: baseline - size, right: left + width + 2, bottom: baseline + 4};
        if (this.take(box)) return {x: left, y: baseline, box, leader: distance > radius + 14};
      }
    return null;
  }
}

function makeLayout(width) {
  const small = width < 560;
  const height = Math.round(Math.max(320, Math.min(560, width * 0.62)));
  return {
    width, height, small, size: small ? 11 : 13,
    plot: {left: small ? 56 : 72, top: 10, right: width - (small ? 8 : 20), bottom: height - (small ? 38 : 46)},
  };
}

function makeScales(layout, d) {
  const {plot} = layout;
  return {
    x: (v) => plot.left + (Math.log10(v) - d.x_low) / (d.x_high - d.x_low) * (plot.right - plot.left),
    y: (v) => plot.bottom - (Math.log10(v) - d.y_low) / (d.y_high - d.y_low) * (plot.bottom - plot.top),
  };
}

function tickText(decade) {
  if (decade >= -3 && decade < 3) return significant(10 ** decade, 1);
  return engineering(10 ** decade, '').replace(/\.0+ /, '').trim();
}

// Draws a line per decade, with numbers; only every second or third number if they would touch.
function gridMarkup(layout, d, scales) {
  const {plot, size} = layout, out = [];
  const step = (count, room) => Math.max(1, Math.ceil(count * room / (plot.right - plot.left)));
  const every = {x: step(d.x_high - d.x_low, 36), y: Math.ceil((d.y_high - d.y_low) * 20 / (plot.bottom - plot.top)) || 1};
  for (let k = d.x_low; k <= d.x_high; ++k) {
    const x = scales.x(10 ** k).toFixed(1);
    out.push(`<path class="grid" d="M${x} ${plot.top}V${plot.bottom}"/>`);
    if ((k - d.x_low) % every.x === 0)
      out.push(`<text class="soft" x="${x}" y="${plot.bottom + size + 3}" text-anchor="${k === d.x_high ? 'end' : 'middle'}">${tickText(k)}</text>`);
  }
  for (let k = d.y_low; k <= d.y_high; ++k) {
    const y = scales.y(10 ** k).toFixed(1);
    out.push(`<path class="grid" d="M${plot.left} ${y}H${plot.right}"/>`);
    if ((k - d.y_low) % every.y === 0)
      out.push(`<text class="soft" x="${plot.left - 6}" y="${+y + 4}" text-anchor="end">${tickText(k)}</text>`);
  }
  const middle = (plot.top + plot.bottom) / 2, axisX = layout.small ? 12 : 16;
  out.push(`<path class="frame" d="M${plot.left} ${plot.top}H${plot.right}V${plot.bottom}H${plot.left}Z"/>`);
  out.push(`<text class="soft" x="${(plot.left + plot.right) / 2}" y="${layout.height - 6}" text-anchor="middle">` +
    'intensity (FLOP/B)</text>');
  out.push(`<text class="soft" text-anchor="middle" transform="translate(${axisX} ${middle}) rotate(-90)">` +
    'attainable (FLOP/s)</text>');
  return out.join('');
}

// Returns the part of a bandwidth line from the lower left of the frame up to `top` FLOP/s.
function slopeRange(d, rate, top) {
  const low = Math.max(10 ** d.x_low, 10 ** d.y_low / rate), high = Math.min(10 ** d.x_high, top / rate);
  return low < high ? {low, high} : null;
}

function textAlong(name, from, to, placer, layout, kind) {
  const dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy), size = layout.size;
  const text = textWidth(name, size), along = {x: dx / length, y: dy / length};
  for (const off of [7, -size - 5])
    for (let begin = 16; begin + text < length; begin += 12) {
      const x = from.x + along.x * begin + off * along.y, y = from.y + along.y * begin - off * along.x;
      const boxes = [];
      for (let s = 0; s < text; s += 6) {
        const mx = x + along.x * s + along.y * 4, my = y + along.y * s - along.x * 4;
        boxes.push({left: mx - 5, top: my - 5, right: mx + 5, bottom: my + 5});
      }
      if (!boxes.every((box) => placer.free(box))) continue;
      boxes.forEach((box) => placer.block(box));
      const angle = Math.atan2(dy, dx) * 180 / Math.PI;
      return `<text class="roofname ${kind}" transform="translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(${angle.toFixed(2)})">` +
        `${escapeText(name)}</text>`;
    }
  return '';
}

// Draws the roofs of one machine; those of a second one are dashed. `known`: labels that are already drawn.
function roofsMarkup(layout, d, scales, placer, kind, known = []) {
  const out = [], peakNames = [], lineNames = [], ridges = [];
  const foot = Math.max(10 ** d.x_low, 10 ** d.y_low / d.bandwidth), high = 10 ** d.x_high;
  const point = (x, y) => ({x: scales.x(x), y: scales.y(y)});
  const path = (points) => `M${points.map((p) => `${p.x.toFixed(1)} ${p.y.toFixed(1)}`).join('L')}`;
  const peaks = d.peaks.length > 0 ? d.peaks : [{rate: high * d.bandwidth, name: ''}], isNew = (name) => !known.includes(name);
  let longest = null;
  for (const peak of peaks) {
    const points = [point(foot, foot * d.bandwidth), point(peak.rate / d.bandwidth, peak.rate), point(high, peak.rate)];
    if (peak.name) ridges.push({ridge: ridgeText(peak.rate / d.bandwidth), line: [points[1], {x: points[1].x, y: layout.plot.bottom}]});
    out.push(`<path class="roof ${kind}" d="${path(points)}"/>`);
    placer.blockLine(points[0], points[1]);
    placer.blockLine(points[1], points[2]);
    if (!longest || points[1].x > longest[1].x) longest = points;
    if (peak.name && isNew(peak.name)) peakNames.push(() => peakLabel(layout, peak.name, points, placer, kind));
  }
  for (const slope of d.slopes) {
    const part = slopeRange(d, slope.rate, Math.max(...peaks.map((p) => p.rate)));
    if (!part) continue;
    const points = [point(part.low, part.low * slope.rate), point(part.high, part.high * slope.rate)];
    out.push(`<path class="slope ${kind}" d="${path(points)}"/>`);
    placer.blockLine(...points);
    if (isNew(slope.name)) lineNames.push(() => textAlong(slope.name, ...points, placer, layout, kind));
  }
  if (isNew(d.bandwidth_name)) lineNames.push(() => textAlong(d.bandwidth_name, longest[0], longest[1], placer, layout, kind));
  // Labels of peaks may cross the thin lines of ridges, labels of ridges may not.
  const names = () => {
    const first = peakNames.map((make) => make()).join('');
    ridges.forEach(({line}) => placer.blockLine(...line));
    return first + lineNames.map((make) => make()).join('') +
      ridges.filter(({ridge}) => isNew(ridge)).map(({ridge, line}) => ridgeLabel(layout, ridge, line[0].x, placer, kind)).join('');
  };
  return {
    lines: ridges.map(({line}) => `<path class="ridge ${kind}" d="${path(line)}"/>`).join('') + out.join(''), names,
    labels: [...peaks.map((p) => p.name), d.bandwidth_name, ...d.slopes.map((s) => s.name), ...ridges.map((r) => r.ridge)],
  };
}

const ridgeText = (ridge) => `ridge ${significant(ridge)}`;

function peakLabel(layout, name, points, placer, kind) {
  const size = layout.size, width = textWidth(name, size), line = points[1].y;
  for (const y of [line - 7, line + size + 3]) for (let left = layout.plot.right - width - 4; left > layout.plot.left; left -= 10)
    if (placer.take({left, top: y - size, right: left + width, bottom: y + 3}))
      return `<text class="roofname ${kind}" x="${left.toFixed(1)}" y="${y.toFixed(1)}">${escapeText(name)}</text>`;
  return '';
}

function ridgeLabel(layout, text, x, placer, kind) {
  const size = layout.size, width = textWidth(text, size);
  for (let y = layout.plot.bottom - 8; y > layout.plot.top + size; y -= size + 3)
    for (const left of [x + 5, x - 5 - width])
      if (placer.take({left, top: y - size, right: left + width, bottom: y + 3}))
        return `<text class="roofname ${kind}" x="${left.toFixed(1)}" y="${y.toFixed(1)}">${text}</text>`;
  return '';
}

// Groups operations at one point into a dot, sized by the sum of their shares.
function groupDots(d, scales) {
  const out = [];
  for (const dot of d.dots) {
    const x = scales.x(dot.intensity), y = scales.y(dot.rate);
    let group = out.find((o) => Math.hypot(o.x - x, o.y - y) < 3);
    if (!group) out.push(group = {x, y, names: [], tips: [], share: null, measured: []});
    group.names.push(dot.name);
    group.tips.push(dot.tip);
    if (dot.share !== null) group.share = (group.share ?? 0) + dot.share;
    if (dot.measured !== null) group.measured.push({x, y: scales.y(dot.measured)});
  }
  return out;
}

function dotsMarkup(dots, placer, layout, kind, named) {
  const labels = [], marks = [];
  for (const dot of dots) {
    const r = dot.radius = dotRadius(dot.share);
    placer.block({left: dot.x - r - 1, top: dot.y - r - 1, right: dot.x + r + 1, bottom: dot.y + r + 1});
    for (const m of dot.measured) {
      placer.block({left: m.x - 7, top: m.y - 7, right: m.x + 7, bottom: m.y + 7});
      placer.blockLine(dot, m);
    }
  }
  for (const dot of dots) {
    const tip = escapeText(dot.tips.join('\n'));
    const gaps = dot.measured.map((m) => `<path class="gap" d="M${dot.x.toFixed(1)} ${dot.y.toFixed(1)}L${m.x.toFixed(1)} ${m.y.toFixed(1)}"/>`);
    const measured = dot.measured.map((m) => `<circle class="measured" cx="${m.x.toFixed(1)}" cy="${m.y.toFixed(1)}" r="5"/>`);
    marks.push(`<g class="dot ${kind}" tabindex="0" role="img" aria-label="${tip.replace(/\n/g, '; ')}" data-tip="${tip}">` +
      `${gaps.join('')}<circle class="hit" cx="${dot.x.toFixed(1)}" cy="${dot.y.toFixed(1)}" r="${Math.max(14, dot.radius + 4).toFixed(1)}"/>` +
      `<circle class="predicted" cx="${dot.x.toFixed(1)}" cy="${dot.y.toFixed(1)}" r="${dot.radius.toFixed(1)}"/>${measured.join('')}</g>`);
  }
  const names = () => {
    for (const dot of named ? dots : []) {
      const text = shortened(dot.names.join(', '), layout.small ? 16 : 28);
      const label = placer.around(text, dot, dot.radius, layout.size, true);
      if (!label) continue;
      if (label.leader) {
        const x = Math.max(label.box.left, Math.min(label.box.right, dot.x));
        const y = Math.max(label.box.top, Math.min(label.box.bottom, dot.y));
        labels.push(`<path class="leader" d="M${dot.x.toFixed(1)} ${dot.y.toFixed(1)}L${x.toFixed(1)} ${y.toFixed(1)}"/>`);
      }
      const left = label.box.right <= dot.x, x = left ? label.box.right - 2 : label.x;
      labels.push(`<text class="name" x="${x.toFixed(1)}" y="${label.y.toFixed(1)}"${left ? ' text-anchor="end"' : ''}>${escapeText(text)}</text>`);
    }
    return labels.join('');
  };
  return {marks: marks.join(''), names};
}

// Draws the picture; `second` has its own colour, and its dots have no names.
function pictureMarkup(first, second, width) {
  const layout = makeLayout(width), d = {...first};
  if (second)
    for (const [key, better] of [['x_low', Math.min], ['y_low', Math.min], ['x_high', Math.max], ['y_high', Math.max]])
      d[key] = better(first[key], second[key]);
  const scales = makeScales(layout, d), placer = new Placer(layout.plot);
  const axes = {x_low: d.x_low, x_high: d.x_high, y_low: d.y_low, y_high: d.y_high};
  const roofs = roofsMarkup(layout, d, scales, placer, 'first');
  const secondRoofs = second ? roofsMarkup(layout, {...second, ...axes}, scales, placer, 'second', roofs.labels) : null;
  const secondDots = second ? dotsMarkup(groupDots(second, scales), placer, layout, 'second', false) : null;
  const dots = dotsMarkup(groupDots(first, scales), placer, layout, 'first', true);
  const names = roofs.names() + dots.names() + (secondRoofs ? secondRoofs.names() : '');
  return {
    layout, axes, scales: scales,
    markup: gridMarkup(layout, d, scales) + (secondRoofs ? secondRoofs.lines : '') + roofs.lines + (secondDots ? secondDots.marks : '') +
      dots.marks + names + '<path class="cursor" id="cursor" d=""/>',
  };
}
