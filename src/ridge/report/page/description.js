// What the picture shows at some sizes: the same description, field by field, that the program makes
// (report/svg/roofline.h), so that the picture in the page and the SVG of the command line are one picture.

function dotOf(state, k, measured) {
  const {setting} = state, flops = Number(k.flops);
  let dot = null;
  if (k.limiter === 'network' && flops > 0)
    dot = {name: k.name, intensity: flops / k.sent, rate: flops / k.network, sent: true};
  else if (k.intensity > 0 && k.peak)
    dot = {name: k.name, intensity: k.intensity, rate: Math.min(k.peak.rate, k.intensity * setting.bandwidth), sent: false};
  if (!dot) return null;
  dot.share = k.share;
  dot.measured = measured ? flops / measured.median : null;
  dot.tip = `${dot.name}: ${significant(dot.intensity)} FLOP/B${dot.sent ? ' sent' : ''}, ` +
    `at most ${engineering(dot.rate, 'FLOP/s')}` +
    (dot.share === null ? '' : `, ${percent(dot.share)} of the time`) +
    (dot.measured === null ? '' : `, measured ${engineering(dot.measured, 'FLOP/s')}`);
  return dot;
}

function peaksUsed(kernels) {
  const out = [];
  for (const {peak} of kernels)
    if (peak && !out.some((p) => p.unit === peak.unit && p.dtype === peak.dtype)) out.push(peak);
  return out;
}

function decadesOf(d) {
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

// `measured`: of each kernel {median, …}, where this is what was run.
function describe(state, measured = null) {
  const {setting, sizes} = state, {program, machine, network} = setting;
  const own = program.order.filter((name) => program.sizes.some((s) => s.name === name));
  let subtitle = `on ${machine.title || machine.name}`;
  for (const name of own)
    if (subtitle.length < 90) subtitle += `, ${name} = ${sizes.whole[program.sizes.findIndex((s) => s.name === name)]}`;
  const out = {title: shortened(program.title, 90), subtitle, bandwidth: setting.bandwidth, dots: [], not_drawn: []};
  state.kernels.forEach((k, i) => {
    const dot = dotOf(state, k, measured ? measured[i] : null);
    if (dot) out.dots.push(dot);
    else out.not_drawn.push(`${k.name}: ${k.missing ? `no ${k.missing}` : 'it computes nothing'}`);
  });
  out.sent = out.dots.some((d) => d.sent);
  out.measured = measured !== null;
  out.bandwidth_name = `${engineering(setting.bandwidth, 'B/s')} ${setting.level}`;
  out.peaks = peaksUsed(state.kernels).map((p) => ({
    rate: p.rate, name: `${engineering(p.rate, isWhole(p.dtype) ? 'OP/s' : 'FLOP/s')} ${p.unit} ${p.dtype}`,
  }));
  out.slopes = [];
  if (program.roofs)
    for (const [name, rate] of machine.memory.slice(1))
      if (rate) out.slopes.push({rate, name: `${engineering(rate, 'B/s')} ${name}`});
  if (out.sent) out.slopes.push({rate: network.rate, name: `${engineering(network.rate, 'B/s')} ${network.name}, sent`});
  return Object.assign(out, decadesOf(out));
}

function radiusOf(share) {
  return share === null ? 6 : 4 + 8 * Math.sqrt(Math.min(1, share));
}
