// Draws a description (description.js) as SVG at any width, with the same roofs, dots and names as the SVG of the command
// line. Labels are placed greedily as in report/svg/placer.h: at the nearest position that touches nothing.

const escapeText = (text) =>
  text.replace(/[&<>"]/g, (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'}[c]));
const rounded = (x) => x.toFixed(1);
const pathMarkup = (kind, points) => `<path class="${kind}" d="M${points.map((p) => `${rounded(p.x)} ${rounded(p.y)}`).join('L')}"/>`;

const tickText = (decade) =>
  (decade >= -3 && decade < 3 ? significant(10 ** decade, 1) : engineering(10 ** decade, '').replace(/\.0+ /, '').trim());

// Returns the boxes that a text covers: one, or small ones along a turned text.
function textBoxes({x, y, angle = 0}, width, size) {
  if (angle === 0) return [{left: x - 2, top: y - size, right: x + width + 2, bottom: y + 4}];
  const boxes = [], cos = Math.cos(angle), sin = Math.sin(angle);
  for (let s = 0; s < width; s += 6) {
    const middleX = x + cos * s + sin * 4, middleY = y + sin * s - cos * 4;
    boxes.push({left: middleX - 5, top: middleY - 5, right: middleX + 5, bottom: middleY + 5});
  }
  return boxes;
}

class Picture {
  // The second description has its own colour, and its dots have no names.
  constructor(first, second, width) {
    const small = width < 560, height = Math.round(Math.max(320, Math.min(560, width * 0.62))), size = small ? 11 : 13;
    const plot = {left: small ? 56 : 72, top: 10, right: width - (small ? 8 : 20), bottom: height - (small ? 38 : 46)};
    const ends = (key, better) => better(first[key], (second ?? first)[key]);
    Object.assign(this, {
      first, width, height, small, size, plot, taken: [], labelled: new Set(), pen: document.createElement('canvas').getContext('2d'),
      font: getComputedStyle(document.body).fontFamily,
      x_low: ends('x_low', Math.min), x_high: ends('x_high', Math.max), y_low: ends('y_low', Math.min), y_high: ends('y_high', Math.max),
    });
    const roofs = this.drawRoofs(first, 'first'), secondRoofs = second && this.drawRoofs(second, 'second');
    const secondDots = second && this.drawDots(second, 'second'), dots = this.drawDots(first, 'first');
    this.markup = this.drawGrid() + (second ? secondRoofs.lines : '') + roofs.lines + (second ? secondDots.marks : '') + dots.marks +
      roofs.names() + dots.names() + (second ? secondRoofs.names() : '') + '<path class="cursor" id="cursor" d=""/>';
  }

  x(intensity) { return this.plot.left + (Math.log10(intensity) - this.x_low) / (this.x_high - this.x_low) * (this.plot.right - this.plot.left); }
  y(rate) { return this.plot.bottom - (Math.log10(rate) - this.y_low) / (this.y_high - this.y_low) * (this.plot.bottom - this.plot.top); }

  // Returns the attainable rate at a horizontal position, or null outside the frame.
  roofAt(x) {
    const {plot, first, x_low, x_high} = this, top = Math.max(...first.peaks.map((p) => p.rate), 0);
    if (x < plot.left || x > plot.right) return null;
    const intensity = 10 ** (x_low + (x - plot.left) / (plot.right - plot.left) * (x_high - x_low)), memory = intensity * first.bandwidth;
    const rate = top > 0 ? Math.min(top, memory) : memory, y = Math.max(plot.top, Math.min(plot.bottom, this.y(rate)));
    const text = `${significant(intensity)} FLOP/B: at most ${engineering(rate, 'FLOP/s')}; limited by ${rate < memory ? 'compute' : 'memory'}`;
    return {text, line: `M${rounded(x)} ${plot.bottom}V${rounded(y)}`};
  }

  isFree(box) {
    const {left, top, right, bottom} = this.plot;
    return box.left >= left && box.right <= right && box.top >= top && box.bottom <= bottom &&
      !this.taken.some((t) => box.left < t.right && t.left < box.right && box.top < t.bottom && t.top < box.bottom);
  }

  // Keeps labels away from a point, or from the lines that join several.
  block(points, radius = 3) {
    points.forEach((b, i) => {
      const a = points[i - 1] ?? b, pieces = Math.max(1, Math.trunc(Math.hypot(b.x - a.x, b.y - a.y) / 6));
      for (let k = 0; k <= pieces; ++k) {
        const x = a.x + (b.x - a.x) * k / pieces, y = a.y + (b.y - a.y) * k / pieces;
        this.taken.push({left: x - radius, top: y - radius, right: x + radius, bottom: y + radius});
      }
    });
  }

  // Returns a text at the first of `positions(width)` at which it touches nothing, or ''.
  label(kind, text, positions) {
    this.pen.font = `${kind === 'name' ? 600 : 400} ${this.size}px ${this.font}`;
    const {width} = this.pen.measureText(text);
    for (const at of positions(width)) {
      const boxes = textBoxes(at, width, this.size);
      if (!boxes.every((box) => this.isFree(box))) continue;
      this.taken.push(...boxes);
      const place = at.angle ? `transform="translate(${rounded(at.x)} ${rounded(at.y)}) rotate(${(at.angle * 180 / Math.PI).toFixed(2)})"`
        : `x="${rounded(at.x)}" y="${rounded(at.y)}"`;
      return `${at.leader ? pathMarkup('leader', at.leader(boxes[0])) : ''}<text class="${kind}" ${place}>${escapeText(text)}</text>`;
    }
    return '';
  }

  * alongPeak({y}, width) {
    for (const line of [y - 7, y + this.size + 3])
      for (let x = this.plot.right - width - 12; x > this.plot.left; x -= 10) yield {x, y: line};
  }

  * alongRidge({x}, width) {
    for (let y = this.plot.bottom - 8; y > this.plot.top + this.size; y -= this.size + 3) yield* [{x: x + 7, y}, {x: x - 7 - width, y}];
  }

  * alongSlope([from, to], width) {
    const dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy), angle = Math.atan2(dy, dx);
    for (const off of [7, -this.size - 5])
      for (let s = 16; s + width < length; s += 12) yield {x: from.x + (dx * s + dy * off) / length, y: from.y + (dy * s - dx * off) / length, angle};
  }

  // Yields positions around a dot: close ones that are clearly closer to it than to other dots, then distant ones with a line.
  * aroundDot(dot, width, dots) {
    const nearest = (box, {x, y}) => ({x: Math.max(box.left, Math.min(box.right, x)), y: Math.max(box.top, Math.min(box.bottom, y))});
    const gap = (box, p) => Math.hypot(nearest(box, p).x - p.x, nearest(box, p).y - p.y), leader = (box) => [dot, nearest(box, dot)];
    for (const [from, to, isFar] of [[dot.radius + 4, 40, false], [28, 130, true]])
      for (let distance = from; distance < to; distance += 9)
        for (let turn = 0; turn < 16; ++turn) {
          const angle = (turn % 2 ? 1 : -1) * Math.trunc((turn + 1) / 2) * Math.PI / 8, side = Math.cos(angle);
          const x = dot.x + distance * side - (side > 0.3 ? 0 : side < -0.3 ? width : width / 2), y = dot.y + 4 + (distance + 7) * Math.sin(angle);
          const [box] = textBoxes({x, y}, width, this.size), isOwn = dots.every((o) => o === dot || gap(box, o) > gap(box, dot) + 8);
          if (isFar || isOwn) yield {x, y, leader: isFar || distance > dot.radius + 14 ? leader : null};
        }
  }

  // Draws a line per decade, with numbers; only every second or third number if they would touch.
  drawGrid() {
    const {plot, size, x_low, x_high, y_low, y_high} = this, out = [], text = (place, content) => out.push(`<text class="soft" ${place}>${content}</text>`);
    const everyX = Math.ceil((x_high - x_low) * 36 / (plot.right - plot.left)), everyY = Math.ceil((y_high - y_low) * 20 / (plot.bottom - plot.top));
    for (let k = x_low; k <= x_high; ++k) {
      const x = rounded(this.x(10 ** k));
      out.push(`<path class="grid" d="M${x} ${plot.top}V${plot.bottom}"/>`);
      if ((k - x_low) % everyX === 0) text(`x="${x}" y="${plot.bottom + size + 3}" text-anchor="${k === x_high ? 'end' : 'middle'}"`, tickText(k));
    }
    for (let k = y_low; k <= y_high; ++k) {
      const y = this.y(10 ** k);
      out.push(`<path class="grid" d="M${plot.left} ${rounded(y)}H${plot.right}"/>`);
      if ((k - y_low) % everyY === 0) text(`x="${plot.left - 6}" y="${rounded(y + 4)}" text-anchor="end"`, tickText(k));
    }
    out.push(`<path class="frame" d="M${plot.left} ${plot.top}H${plot.right}V${plot.bottom}H${plot.left}Z"/>`);
    text(`x="${(plot.left + plot.right) / 2}" y="${this.height - 6}" text-anchor="middle"`, 'intensity (FLOP/B)');
    text(`text-anchor="middle" transform="translate(${this.small ? 12 : 16} ${(plot.top + plot.bottom) / 2}) rotate(-90)"`, 'attainable (FLOP/s)');
    return out.join('');
  }

  // Draws the roofs of one machine; those of a second one are dashed, and names that are already drawn are not repeated.
  drawRoofs(d, kind) {
    const low = 10 ** this.x_low, high = 10 ** this.x_high, lines = [], peakNames = [], slopeNames = [], ridges = [];
    const at = (x, y) => ({x: this.x(x), y: this.y(y)}), foot = (rate) => Math.max(low, 10 ** this.y_low / rate);
    const draw = (name, points) => {
      lines.push(pathMarkup(`${name} ${kind}`, points));
      this.block(points);
    };
    const peaks = d.peaks.length > 0 ? d.peaks : [{rate: high * d.bandwidth, name: ''}], top = Math.max(...peaks.map((p) => p.rate));
    const slope = (rate, from, to) => [at(from, from * rate), at(to, to * rate)];
    for (const {rate, name} of peaks) {
      const ridge = rate / d.bandwidth, points = [...slope(d.bandwidth, foot(d.bandwidth), ridge), at(high, rate)];
      draw('roof', points);
      if (name === '') continue;
      peakNames.push([name, (width) => this.alongPeak(points[1], width)]);
      ridges.push({text: `ridge ${significant(ridge)}`, line: [points[1], {x: points[1].x, y: this.plot.bottom}]});
    }
    for (const {rate, name} of d.slopes) {
      const points = slope(rate, foot(rate), Math.min(high, top / rate));
      if (points[0].x >= points[1].x) continue;
      draw('slope', points);
      slopeNames.push([name, (width) => this.alongSlope(points, width)]);
    }
    slopeNames.push([d.bandwidth_name, (width) => this.alongSlope(slope(d.bandwidth, foot(d.bandwidth), top / d.bandwidth), width)]);
    const label = ([text, positions]) => {
      if (this.labelled.has(text)) return '';
      this.labelled.add(text);
      return this.label(`roofname ${kind}`, text, positions);
    };
    // Labels of peaks may cross the thin lines of ridges, labels of ridges may not.
    const names = () => {
      const first = peakNames.map(label);
      ridges.forEach(({line}) => this.block(line));
      return [...first, ...[...slopeNames, ...ridges.map(({text, line}) => [text, (width) => this.alongRidge(line[0], width)])].map(label)].join('');
    };
    return {lines: ridges.map(({line}) => pathMarkup(`ridge ${kind}`, line)).join('') + lines.join(''), names};
  }

  // Groups operations at one point into a dot, sized by the sum of their shares.
  groupDots(d) {
    const out = [];
    for (const member of d.dots) {
      const x = this.x(member.intensity), y = this.y(member.rate), group = out.find((o) => Math.hypot(o.x - x, o.y - y) < 3);
      if (group) group.members.push(member);
      else out.push({x, y, members: [member]});
    }
    for (const dot of out) {
      dot.radius = 4 + 8 * Math.sqrt(Math.min(1, sumOf(dot.members.map((m) => m.share))));
      dot.measured = dot.members.filter((m) => m.measured !== null).map((m) => ({x: this.x(m.intensity), y: this.y(m.measured)}));
    }
    return out;
  }

  drawDots(d, kind) {
    const dots = this.groupDots(d), circle = (name, {x, y}, radius) => `<circle class="${name}" cx="${rounded(x)}" cy="${rounded(y)}" r="${rounded(radius)}"/>`;
    const marks = dots.map((dot) => {
      const tip = escapeText(dot.members.map((m) => m.tip).join('\n'));
      this.block([dot], dot.radius + 1);
      dot.measured.forEach((m) => this.block([dot, m], 7));
      return `<g class="dot ${kind}" tabindex="0" role="img" aria-label="${tip.replace(/\n/g, '; ')}" data-tip="${tip}">` +
        `${dot.measured.map((m) => pathMarkup('gap', [dot, m])).join('')}${circle('hit', dot, Math.max(14, dot.radius + 4))}` +
        `${circle('predicted', dot, dot.radius)}${dot.measured.map((m) => circle('measured', m, 5)).join('')}</g>`;
    });
    const between = d.dots.some(({name}) => name.includes(',')) ? '; ' : ', ';  // a name lists the statements of a kernel
    const nameOf = (dot) => shortened(dot.members.map((m) => m.name).join(between), this.small ? 16 : 28);
    return {marks: marks.join(''), names: () => dots.map((dot) => this.label('name', nameOf(dot), (width) => this.aroundDot(dot, width, dots))).join('')};
  }
}
