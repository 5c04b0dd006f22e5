// Contents of the picture at some sizes: the same description, field by field, as report/svg/roofline.h, so that the page
// and the SVG of the command line show the same picture.

function makeDot({context}, k, measured) {
  const flops = Number(k.flops), sent = k.limiter === 'network' && flops > 0;
  if (!sent && !(k.intensity > 0 && k.peak)) return null;
  const intensity = sent ? flops / k.sent : k.intensity;
  const roof = () => (['compute', 'memory'].includes(k.limiter) ? flops / k.lower : Math.min(k.peak.rate, k.intensity * context.bandwidth));
  const rate = sent ? flops / k.network : roof();
  const dot = {name: k.called, intensity, rate, sent, share: k.share, measured: measured ? flops / measured.median : null};
  dot.tip = `${dot.name}: ${significant(intensity)} FLOP/B${sent ? ' sent' : ''}, at most ${engineering(rate, 'FLOP/s')}` +
    (dot.share === null ? '' : `, ${percent(dot.share)} of the time`) +
    (dot.measured === null ? '' : `, measured ${engineering(dot.measured, 'FLOP/s')}`);
  return dot;
}

// Returns the decades of both axes.
function findDecades({peaks, dots, bandwidth}) {
  const ridges = peaks.map((p) => p.rate / bandwidth), rates = dots.flatMap((d) => [d.rate, d.measured ?? d.rate]);
  const xLow = Math.min(1, ...ridges, ...dots.map((d) => d.intensity));
  const xHigh = Math.max(10, ...ridges.map((r) => 4 * r), ...dots.map((d) => (d.sent ? 4 * d.intensity : d.intensity)));
  const yHigh = Math.max(0, ...peaks.map((p) => p.rate), ...rates) || bandwidth * xHigh;
  const x_low = Math.floor(Math.log10(xLow / 1.5)), y_high = Math.ceil(Math.log10(yHigh * 1.6));
  const yLow = Math.min(10 ** x_low * bandwidth, ...rates);
  return {x_low, x_high: Math.ceil(Math.log10(xHigh * 1.5)), y_low: Math.max(Math.floor(Math.log10(yLow / 1.6)), y_high - 18), y_high};
}

// `measured`: {median, ...} of each kernel of a run at these sizes, or null.
function describe(state, measured = null) {
  const {kernels, sizes, context: {program, machine, link, bandwidth, level}} = state;
  const sizeOf = (name) => sizes.integers[program.values.findIndex((v) => v.name === name)];
  const addSize = (text, name) => (text.length >= 90 || sizeOf(name) === undefined ? text : `${text}, ${name} = ${sizeOf(name)}`);
  const subtitle = program.order.reduce(addSize, `on ${machine.title || machine.name}`);
  const all = kernels.map((k, i) => makeDot(state, k, measured && measured[i])), dots = all.filter(Boolean);
  const named = (rate, unit, name) => ({rate, name: `${engineering(rate, unit)} ${name}`}), sent = dots.some((d) => d.sent);
  const peaks = kernels.map((k) => k.peak).filter((p, i, every) => p && every.findIndex((q) => q?.name === p.name) === i);
  const slopes = (program.roofs ? machine.memory.slice(1) : []).filter(([, rate]) => rate).map(([name, rate]) => named(rate, 'B/s', name));
  if (sent) slopes.push(named(link.rate, 'B/s', `${link.name}, sent`));
  const out = {
    title: shortened(program.title, 90), subtitle, bandwidth, dots, sent, slopes, measured: measured !== null,
    not_drawn: kernels.filter((k, i) => !all[i]).map((k) => `${k.called}: ${k.missing ? `no ${k.missing}` : 'it computes nothing'}`),
    bandwidth_name: named(bandwidth, 'B/s', level).name,
    peaks: peaks.map((p) => named(p.rate, p.name.includes(' int') ? 'OP/s' : 'FLOP/s', p.name)),
  };
  return Object.assign(out, findDecades(out));
}
