// Contents of the picture at some sizes: the same description, field by field, as report/svg/roofline.h, so that the page
// and the SVG of the command line show the same picture.

function makeDot(state, k, measured) {
  const {context} = state, flops = Number(k.flops);
  let dot = null;
  if (k.limiter === 'network' && flops > 0)
    dot = {name: k.name, intensity: flops / k.sent, rate: flops / k.network, sent: true};
  else if (k.intensity > 0 && k.peak)
    dot = {name: k.name, intensity: k.intensity, rate: Math.min(k.peak.rate, k.intensity * context.bandwidth), sent: false};
  if (!dot) return null;
  dot.share = k.share;
  dot.measured = measured ? flops / measured.median : null;
  dot.tip = `${dot.name}: ${significant(dot.intensity)} FLOP/B${dot.sent ? ' sent' : ''}, ` +
    `at most ${engineering(dot.rate, 'FLOP/s')}` +
    (dot.share === null ? '' : `, ${percent(dot.share)} of the time`) +
    (dot.measured === null ? '' : `, measured ${engineering(dot.measured, 'FLOP/s')}`);
  return dot;
}

function usedPeaks(kernels) {
  const out = [];
  for (const {peak} of kernels)
    if (peak && !out.some((p) => p.name === peak.name)) out.push(peak);
  return out;
}

function axisDecades(d) {
  let xLow = 1, xHigh = 10, yLow = Infinity, yHigh = 0;
  for (const peak of d.peaks) {
    xLow = Math.min(xLow, peak.rate / d.bandwidth);
    xHigh = Math.max(xHigh, 4 * peak.rate / d.bandwidth);
    yHigh = Math.max(yHigh, peak.rate);
  }
  for (const dot of d.dots) {
    xLow = Math.min(xLow, dot.intensity);
    xHigh = Math.max(xHigh, dot.sent ? 4 * dot.intensity : dot.intensity);
    yLow = Math.min(yLow, dot.rate, dot.measured ?? dot.rate);
    yHigh = Math.max(yHigh, dot.rate, dot.measured ?? dot.rate);
  }
  const x_low = Math.floor(Math.log10(xLow / 1.5)), x_high = Math.ceil(Math.log10(xHigh * 1.5));
  if (yHigh <= 0) yHigh = d.bandwidth * xHigh;
  yLow = Math.min(yLow, 10 ** x_low * d.bandwidth);
  const y_high = Math.ceil(Math.log10(yHigh * 1.6));
  return {x_low, x_high, y_low: Math.max(Math.floor(Math.log10(yLow / 1.6)), y_high - 18), y_high};
}

// `measured`: {median, ...} of each kernel of a run at these sizes, or null.
function describe(state, measured = null) {
  const {context, sizes} = state, {program, machine, link} = context;
  const shown = program.order.filter((name) => program.values.some((s) => s.name === name));
  let subtitle = `on ${machine.title || machine.name}`;
  for (const name of shown)
    if (subtitle.length < 90) subtitle += `, ${name} = ${sizes.integers[program.values.findIndex((s) => s.name === name)]}`;
  const out = {title: shortened(program.title, 90), subtitle, bandwidth: context.bandwidth, dots: [], not_drawn: []};
  state.kernels.forEach((k, i) => {
    const dot = makeDot(state, k, measured ? measured[i] : null);
    if (dot) out.dots.push(dot);
    else out.not_drawn.push(`${k.name}: ${k.missing ? `no ${k.missing}` : 'it computes nothing'}`);
  });
  out.sent = out.dots.some((d) => d.sent);
  out.measured = measured !== null;
  out.bandwidth_name = `${engineering(context.bandwidth, 'B/s')} ${context.level}`;
  out.peaks = usedPeaks(state.kernels).map((p) => ({
    rate: p.rate, name: `${engineering(p.rate, p.name.includes(' int') ? 'OP/s' : 'FLOP/s')} ${p.name}`,
  }));
  out.slopes = [];
  if (program.roofs)
    for (const [name, rate] of machine.memory.slice(1))
      if (rate) out.slopes.push({rate, name: `${engineering(rate, 'B/s')} ${name}`});
  if (out.sent) out.slopes.push({rate: link.rate, name: `${engineering(link.rate, 'B/s')} ${link.name}, sent`});
  return Object.assign(out, axisDecades(out));
}

function dotRadius(share) {
  return share === null ? 6 : 4 + 8 * Math.sqrt(Math.min(1, share));
}
