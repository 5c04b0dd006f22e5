// The tables of statements and of thresholds. A column is [key, title, value to sort by, shown text, classes]: `wide` ones
// are hidden on narrow screens, `words` are left-aligned. A value of null is shown as a dash.

function makeColumns({state, second, secondName, measured, sizeIndex}) {
  const more = Boolean(measured || second), bytes = (x) => engineering(x, 'B'), shown = (x) => x;
  return [
    ['op', 'op', (k) => k.called, shown, 'words'],
    ['share', 'of time', (k) => k.share, percent, more ? '' : 'bars'],
    ['work', 'work', (k) => Number(k.flops), (x, k) => engineering(x, k.row.unit), 'wide'],
    ['bytes', 'bytes', (k) => Number(k.bytes), bytes, 'wide'],
    ['intensity', 'FLOP/B', (k) => k.intensity, (x) => significant(x), 'wide'],
    ['limiter', 'limiter', (k) => k.limiter, shown, more ? 'wide words' : 'words'],
    ['lower', 'lower', (k) => k.lower, seconds],
    measured && ['measured', 'measured', (k) => k.measured?.median, seconds],
    measured && ['roof', 'of roof', (k) => k.measured && (k.measured.fraction_of_roof ?? 0), (x, k) => roofText(k.measured), 'wide'],
    second && ['second', shortened(secondName, 16), (k) => k.other?.lower, seconds],
    second ? ['ratio', 'second / first', (k) => (k.other ? k.other.lower / k.lower : null), (x) => significant(x), 'wide']
      : ['upper', 'no overlap', (k) => k.upper, seconds, 'wide'],
    state.total.network !== null && ['network', 'network', (k) => k.network, seconds, 'wide'],
    sizeIndex >= 0 && ['from', 'compute exceeds memory for', (k) => {
      const [first] = computeThresholds(state, k.row, sizeIndex);
      return Number(first?.value ?? (first?.relation === 'never' ? Infinity : 0));
    }, (x, k) => thresholdsText(state, k.row, sizeIndex) || '–', 'words'],
  ].filter(Boolean);
}

function cellMarkup(k, [, , value, text, kind = ''], i) {
  const x = value(k) ?? null, shown = escapeText(x === null ? '–' : text(x, k));
  if (i === 0) return `<th scope="row"${k.text ? ` title="${escapeText(k.text)}"` : ''}>${shown}</th>`;
  const bar = kind === 'bars' && x !== null ? `<span class="share" aria-hidden="true"><i style="width:${(100 * Math.min(1, x)).toFixed(1)}%"></i></span>` : '';
  return `<td class="${kind}">${shown}${bar}</td>`;
}

// Shows rows and sums; the head has buttons if the table can be sorted.
function showTable(host, columns, rows, sums = [], sort = null) {
  const headMarkup = ([key, title, , , kind = '']) => {
    if (!sort) return `<th scope="col">${title}</th>`;
    const order = key === sort.key ? (sort.down ? 'descending' : 'ascending') : 'none';
    return `<th scope="col" class="${kind}" aria-sort="${order}"><button type="button" data-sort="${key}">${escapeText(title)}</button></th>`;
  };
  const markup = (all) => all.map((k) => `<tr>${columns.map((c, i) => cellMarkup(k, c, i)).join('')}</tr>`).join('');
  host.innerHTML = `<table><thead><tr>${columns.map(headMarkup).join('')}</tr></thead><tbody>${markup(rows)}</tbody>` +
    `${sums.length > 0 ? `<tfoot>${markup(sums)}</tfoot>` : ''}</table>`;
}

function showStatements(host, view) {
  const {state, second, sort, measuredTotal} = view, {kernels, total, fused} = state, columns = makeColumns(view), sums = [];
  if (kernels.length > 1) sums.push(Object.assign(total, {called: 'total', share: 1, other: second?.total, measured: measuredTotal}));
  if (fused) sums.push(Object.assign(fused, {called: 'fused', share: fused.lower / total.lower, other: second?.fused}));
  const [,, value] = columns.find((c) => c[0] === sort.key) ?? columns[1], compare = (x, y) => (x < y ? -1 : x > y ? 1 : 0);
  const rows = [...kernels].sort((a, b) => (sort.down ? -1 : 1) * compare(value(a) ?? 0, value(b) ?? 0));
  showTable(host, columns, rows, sums, sort);
}

// Shows one row per size: where compute time exceeds memory time, and the largest size that fits.
function showThresholds(host, state) {
  const {context: {program, capacity}, kernels, total, fused} = state, name = (i) => program.values[i].name, shown = (x) => x;
  const columns = [['', 'size', name, shown], ['', 'value', (i) => grouped(state.sizes.integers[i]), shown],
    ['', 'compute time exceeds memory time', (i) => thresholdsText(state, total.row, i) || null, shown]];
  if (fused) columns.push(['', 'in one kernel', (i) => thresholdsText(state, fused.row, i) || null, shown]);
  if (kernels.length > 1) columns.push(['', 'every product compute-bound', (i) => everyProductThreshold(state, i), (t, i) => thresholdText(name(i), t)]);
  columns.push(['', 'fits up to', (i) => (capacity === null ? null : maxSizeThatFits(state, i) ?? 'any'), grouped]);
  showTable(host, columns, freeSizes(program));
}
