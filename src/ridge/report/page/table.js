// The table of statements, its columns and sort order, and the table of thresholds.

const limiterCell = (k) => k.limiter ?? '–';
const orDash = (value, text) => (value === null || value === undefined ? '–' : text(value));

// Columns {title, wide: hidden on narrow screens, words: left-aligned text, sort: sort key, cell: shown text}.
function makeColumns(view) {
  const {state, second, measured, sizeIndex} = view, name = sizeIndex < 0 ? '' : state.context.program.values[sizeIndex].name;
  const more = Boolean(measured || second), bar = more ? undefined : (k) => k.share;
  const seconds = (value) => engineering(value, 's');
  const columns = [
    {key: 'op', title: 'op', words: true, sort: (k) => k.called, cell: (k) => k.called},
    {key: 'share', title: 'of time', sort: (k) => k.share ?? 0, cell: (k) => orDash(k.share, percent), bar},
    {key: 'work', title: 'work', wide: true, sort: (k) => Number(k.flops), cell: (k) => engineering(Number(k.flops), k.row.unit)},
    {key: 'bytes', title: 'bytes', wide: true, sort: (k) => Number(k.bytes), cell: (k) => engineering(Number(k.bytes), 'B')},
    {key: 'intensity', title: 'FLOP/B', wide: true, sort: (k) => k.intensity, cell: (k) => significant(k.intensity)},
    {key: 'limiter', title: 'limiter', words: true, wide: more, sort: limiterCell, cell: limiterCell},
    {key: 'lower', title: 'lower', sort: (k) => k.lower, cell: (k) => seconds(k.lower)},
  ];
  if (measured)
    columns.push({key: 'measured', title: 'measured', sort: (k) => k.measured?.median ?? 0, cell: (k) => orDash(k.measured, (m) => seconds(m.median))},
      {key: 'roof', title: 'of roof', wide: true, sort: (k) => (k.measured ? k.lower / k.measured.median : 0), cell: (k) => orDash(k.measured, (m) => percent(k.lower / m.median))});
  if (second)
    columns.push({key: 'second', title: shortened(view.secondName, 16), sort: (k) => k.other?.lower ?? 0, cell: (k) => orDash(k.other, (o) => seconds(o.lower))},
      {key: 'ratio', title: 'second / first', wide: true, sort: (k) => (k.other ? k.other.lower / k.lower : 0), cell: (k) => orDash(k.other, (o) => significant(o.lower / k.lower))});
  if (!second) columns.push({key: 'upper', title: 'no overlap', wide: true, sort: (k) => k.upper, cell: (k) => seconds(k.upper)});
  if (state.total.network !== null)
    columns.push({key: 'network', title: 'network', wide: true, sort: (k) => k.network ?? 0, cell: (k) => orDash(k.network, seconds)});
  if (sizeIndex >= 0)
    columns.push({
      key: 'from', title: 'compute-bound for', words: true, cell: (k) => thresholdCell(view, k, name),
      sort: (k) => Number(firstThreshold(view, k)?.value ?? (firstThreshold(view, k)?.relation === 'never' ? Infinity : 0)),
    });
  return columns;
}

function firstThreshold(view, k) {
  k.from ??= k.fused ? [] : computeThresholds(view.state, k.row, view.sizeIndex);
  return k.from[0];
}

function thresholdCell(view, k, name) {
  firstThreshold(view, k);
  return k.from.length ? k.from.map((t) => thresholdText(name, t)).join(', ') : '–';
}

function sortRows(rows, columns, {key, down}) {
  const column = columns.find((c) => c.key === key) ?? columns[1];
  const compared = (a, b) => {
    const x = column.sort(a), y = column.sort(b);
    return x < y ? -1 : x > y ? 1 : 0;
  };
  return [...rows].sort((a, b) => (down ? -compared(a, b) : compared(a, b)));
}

function makeCells(k, columns) {
  return columns.map((c, i) => ({
    text: c.cell(k), share: c.bar ? c.bar(k) ?? null : null, title: i === 0 ? k.text ?? '' : '',
    kind: [c.wide ? 'wide' : '', c.words ? 'words' : ''].filter(Boolean).join(' '),
  }));
}

const barWidth = (share) => `${(100 * Math.min(1, share)).toFixed(1)}%`;

function cellMarkup(cell, i) {
  const text = escapeText(cell.text), title = cell.title ? ` title="${escapeText(cell.title)}"` : '';
  if (i === 0) return `<th scope="row"${title}>${text}</th>`;
  const bar = cell.share === null ? '' : `<span class="share" aria-hidden="true"><i style="width:${barWidth(cell.share)}"></i></span>`;
  return `<td${cell.kind ? ` class="${cell.kind}"` : ''}>${text}${bar}</td>`;
}

const rowsMarkup = (rows) => rows.map((cells) => `<tr>${cells.map(cellMarkup).join('')}</tr>`).join('');

// A table in an element. If its shape is unchanged, only changed texts are updated, because laying out a table takes a
// browser several times as long as computing it.
class Table {
  constructor(host) {
    this.host = host;
    this.shape = '';
  }
  // `head` is markup, `body` and `foot` rows of cells {text, share, title, kind}.
  show(head, body, foot = []) {
    const rows = [...body, ...foot];
    const shape = `${head}|${body.length}|${rows.map((r) => r.map((c) => `${c.kind}${c.share === null} ${c.title}`).join()).join(';')}`;
    if (shape !== this.shape) {
      this.host.innerHTML = `<table>${head}<tbody>${rowsMarkup(body)}</tbody>${foot.length > 0 ? `<tfoot>${rowsMarkup(foot)}</tfoot>` : ''}</table>`;
      this.cells = Array.from(this.host.querySelectorAll('tbody tr, tfoot tr'), (row) => Array.from(row.children));
    } else {
      rows.forEach((row, i) => row.forEach((cell, j) => this.change(i, j, cell)));
    }
    this.shape = shape;
    this.rows = rows;
  }
  change(i, j, cell) {
    const before = this.rows[i][j], node = this.cells[i][j];
    if (cell.text !== before.text) node.firstChild.data = cell.text;
    if (cell.share !== before.share) node.querySelector('i').style.width = barWidth(cell.share);
  }
}

function headMarkup(columns, sort) {
  const cell = (c) => {
    const kind = [c.wide ? 'wide' : '', c.words ? 'words' : ''].filter(Boolean).join(' ');
    const order = c.key === sort.key ? (sort.down ? 'descending' : 'ascending') : 'none';
    return `<th scope="col"${kind ? ` class="${kind}"` : ''} aria-sort="${order}"><button type="button" data-sort="${c.key}">${escapeText(c.title)}</button></th>`;
  };
  return `<thead><tr>${columns.map(cell).join('')}</tr></thead>`;
}

function updateStatements(table, view) {
  const columns = makeColumns(view), {state, sort} = view, sums = [];
  if (state.kernels.length > 1)
    sums.push(Object.assign(state.total, {called: 'total', share: 1, other: view.second?.total, measured: view.measuredTotal}));
  if (state.fused)
    sums.push(Object.assign(state.fused, {called: 'fused', fused: true, share: state.fused.lower / state.total.lower, other: view.second?.fused}));
  const cells = (rows) => rows.map((k) => makeCells(k, columns));
  table.show(headMarkup(columns, sort), cells(sortRows(state.kernels, columns, sort)), cells(sums));
}

// Shows one row per size: where compute time exceeds memory time, and the largest size that fits.
function updateThresholds(table, state) {
  const {program} = state.context, {capacity} = state.context, several = state.kernels.length > 1;
  const titles = ['size', 'value', 'compute time exceeds memory time', ...(several ? ['every product compute-bound'] : []), 'fits up to'];
  const rows = freeSizes(program).map((sizeIndex) => {
    const name = program.values[sizeIndex].name;
    const every = several ? everyProductThreshold(state, sizeIndex) : null, most = maxSizeThatFits(state, sizeIndex);
    const texts = [name, grouped(state.sizes.integers[sizeIndex]), computeThresholds(state, state.context.total, sizeIndex).map((t) => thresholdText(name, t)).join(', ') || '–'];
    if (several) texts.push(every ? thresholdText(name, every) : '–');
    texts.push(capacity === null ? '–' : most === null ? 'any' : grouped(most));
    return texts.map((text) => ({text, share: null, title: '', kind: ''}));
  });
  table.show(`<thead><tr>${titles.map((t) => `<th scope="col">${t}</th>`).join('')}</tr></thead>`, rows);
}
