// The table of statements: what stands in each column, and in which order.

const limiterCell = (k) => k.limiter ?? '–';
const optional = (value, text) => (value === null || value === undefined ? '–' : text(value));

function workUnit(state, k) {
  const {program} = state.setting, of = k.kernel ? k.kernel.statements : program.statements.map((_, i) => i);
  return of.every((s) => isWhole(program.statements[s].dtype)) ? 'OP' : 'FLOP';
}

// {title, wide: only where there is room, words: text, sort: what is compared, cell: what is shown}
function columnsOf(view) {
  const {state, second, measured, place} = view, name = place < 0 ? '' : state.setting.program.sizes[place].name;
  const more = Boolean(measured || second), bar = more ? undefined : (k) => k.share;
  const seconds = (value) => engineering(value, 's');
  const columns = [
    {key: 'op', title: 'op', words: true, sort: (k) => k.called, cell: (k) => k.called},
    {key: 'share', title: 'of time', sort: (k) => k.share ?? 0, cell: (k) => optional(k.share, percent), bar},
    {key: 'work', title: 'work', wide: true, sort: (k) => Number(k.flops), cell: (k) => engineering(Number(k.flops), workUnit(state, k))},
    {key: 'bytes', title: 'bytes', wide: true, sort: (k) => Number(k.bytes), cell: (k) => engineering(Number(k.bytes), 'B')},
    {key: 'intensity', title: 'FLOP/B', wide: true, sort: (k) => k.intensity, cell: (k) => significant(k.intensity)},
    {key: 'limiter', title: 'limiter', words: true, wide: more, sort: limiterCell, cell: limiterCell},
    {key: 'lower', title: 'lower', sort: (k) => k.lower, cell: (k) => seconds(k.lower)},
  ];
  if (measured)
    columns.push({key: 'measured', title: 'measured', sort: (k) => k.measured?.median ?? 0, cell: (k) => optional(k.measured, (m) => seconds(m.median))},
      {key: 'roof', title: 'of roof', wide: true, sort: (k) => (k.measured ? k.lower / k.measured.median : 0), cell: (k) => optional(k.measured, (m) => percent(k.lower / m.median))});
  if (second)
    columns.push({key: 'second', title: shortened(view.secondName, 16), sort: (k) => k.other?.lower ?? 0, cell: (k) => optional(k.other, (o) => seconds(o.lower))},
      {key: 'ratio', title: 'second / first', wide: true, sort: (k) => (k.other ? k.other.lower / k.lower : 0), cell: (k) => optional(k.other, (o) => significant(o.lower / k.lower))});
  if (!second) columns.push({key: 'upper', title: 'no overlap', wide: true, sort: (k) => k.upper, cell: (k) => seconds(k.upper)});
  if (state.total.network !== null)
    columns.push({key: 'network', title: 'network', wide: true, sort: (k) => k.network ?? 0, cell: (k) => optional(k.network, seconds)});
  if (place >= 0)
    columns.push({
      key: 'from', title: 'compute-bound for', words: true, cell: (k) => thresholdCell(view, k, name),
      sort: (k) => Number(firstThreshold(view, k)?.value ?? (firstThreshold(view, k)?.relation === 'never' ? Infinity : 0)),
    });
  return columns;
}

function firstThreshold(view, k) {
  if (k.from === undefined) {
    const {state, place} = view;
    const meetings = k.kernel ? meetingsOfKernel(state.setting, k) : meetingsOfTotal(state.setting);
    const meeting = meetings.find((m) => m.roofs === 'compute memory');
    k.from = k.fused || !meeting ? null : thresholdsOf(state, meeting, place, sharedAt(state, place));
  }
  return k.from?.[0];
}

function thresholdCell(view, k, name) {
  firstThreshold(view, k);
  return k.from?.length ? k.from.map((t) => sizeText(name, t)).join(', ') : '–';
}

function sortedRows(rows, columns, {key, down}) {
  const column = columns.find((c) => c.key === key) ?? columns[1];
  const compared = (a, b) => {
    const x = column.sort(a), y = column.sort(b);
    return x < y ? -1 : x > y ? 1 : 0;
  };
  return [...rows].sort((a, b) => (down ? -compared(a, b) : compared(a, b)));
}

function cellsOf(k, columns) {
  return columns.map((c, i) => ({
    text: c.cell(k), share: c.bar ? c.bar(k) ?? null : null, title: i === 0 ? k.text ?? '' : '',
    kind: [c.wide ? 'wide' : '', c.words ? 'words' : ''].filter(Boolean).join(' '),
  }));
}

const widthOf = (share) => `${(100 * Math.min(1, share)).toFixed(1)}%`;

function cellMarkup(cell, i) {
  const text = escapedText(cell.text), title = cell.title ? ` title="${escapedText(cell.title)}"` : '';
  if (i === 0) return `<th scope="row"${title}>${text}</th>`;
  const bar = cell.share === null ? '' : `<span class="share" aria-hidden="true"><i style="width:${widthOf(cell.share)}"></i></span>`;
  return `<td${cell.kind ? ` class="${cell.kind}"` : ''}>${text}${bar}</td>`;
}

const rowsMarkup = (rows) => rows.map((cells) => `<tr>${cells.map(cellMarkup).join('')}</tr>`).join('');

// A table in an element. Where its shape stays, only the texts that change are touched: a browser lays out a table anew
// several times as long as it takes to compute one.
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
    const before = this.rows[i][j], place = this.cells[i][j];
    if (cell.text !== before.text) place.firstChild.data = cell.text;
    if (cell.share !== before.share) place.querySelector('i').style.width = widthOf(cell.share);
  }
}

function headMarkup(columns, sort) {
  const cell = (c) => {
    const kind = [c.wide ? 'wide' : '', c.words ? 'words' : ''].filter(Boolean).join(' ');
    const order = c.key === sort.key ? (sort.down ? 'descending' : 'ascending') : 'none';
    return `<th scope="col"${kind ? ` class="${kind}"` : ''} aria-sort="${order}"><button type="button" data-sort="${c.key}">${escapedText(c.title)}</button></th>`;
  };
  return `<thead><tr>${columns.map(cell).join('')}</tr></thead>`;
}

function showStatements(table, view) {
  const columns = columnsOf(view), {state, sort} = view, sums = [];
  if (state.kernels.length > 1)
    sums.push(Object.assign(state.total, {called: 'total', share: 1, other: view.second?.total, measured: view.measuredTotal}));
  if (state.fused)
    sums.push(Object.assign(state.fused, {called: 'fused', fused: true, share: state.fused.lower / state.total.lower, other: view.second?.fused}));
  const cells = (rows) => rows.map((k) => cellsOf(k, columns));
  table.show(headMarkup(columns, sort), cells(sortedRows(state.kernels, columns, sort)), cells(sums));
}

// A row for each size: from where on compute takes longer, and what fits.
function showLimits(table, state) {
  const {program} = state.setting, {capacity} = state.setting, several = state.kernels.length > 1;
  const titles = ['size', 'now', 'computes longer than it moves', ...(several ? ['every product by itself'] : []), 'fits up to'];
  const rows = freePlaces(program).map((place) => {
    const name = program.sizes[place].name, shared = sharedAt(state, place);
    const every = several ? everyProduct(state, place, shared) : null, most = fitsUpTo(state, place);
    const texts = [name, grouped(state.sizes.whole[place]), computeBoundFrom(state, place).map((t) => sizeText(name, t)).join(', ') || '–'];
    if (several) texts.push(every ? sizeText(name, every) : '–');
    texts.push(capacity === null ? '–' : most === null ? 'any' : grouped(most));
    return texts.map((text) => ({text, share: null, title: '', kind: ''}));
  });
  table.show(`<thead><tr>${titles.map((t) => `<th scope="col">${t}</th>`).join('')}</tr></thead>`, rows);
}
