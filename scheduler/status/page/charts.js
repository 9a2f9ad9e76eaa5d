// Drawing: curves with axes, strips of loads, tables. Text is only ever set as text, so names may
// hold anything.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';
const HUES = 8;
const DASHES = ['', '6 3', '2 3'];

// An element with attributes and children; what is no element becomes text.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function shape(tag, attributes = {}) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// A number with `digits` decimals and groups of three; nothing where it is not known.
function fixed(value, digits = 0, factor = 1) {
  if (value === undefined || value === null || !Number.isFinite(value)) return '';
  return (factor * value).toLocaleString('en-US',
    {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

// As many digits as a reader needs.
function short(value) {
  if (value === undefined || value === null) return '';
  const size = Math.abs(value);
  if (size >= 1e9) return fixed(value / 1e9, 2) + ' G';
  if (size >= 1e6) return fixed(value / 1e6, 2) + ' M';
  return fixed(value, size >= 100 || size === Math.round(size) ? 0 : size >= 10 ? 1 : size >= .01 ? 3 : 4);
}

const percent = value => fixed(value, 2, 100);

// "0:42", "12:05", "3:07:00", "2 d 3:07:00".
function duration(seconds) {
  if (seconds === undefined || seconds === null || seconds < 0) return '';
  const s = Math.round(seconds), two = number => String(number).padStart(2, '0');
  const clock = s < 3600 ? Math.floor(s / 60) + ':' + two(s % 60) :
    Math.floor(s / 3600) % 24 + ':' + two(Math.floor(s / 60) % 60) + ':' + two(s % 60);
  return s < 86400 ? clock : Math.floor(s / 86400) + ' d ' + clock;
}

function count(number, one, many = one + 's') {
  return fixed(number) + ' ' + (number === 1 ? one : many);
}

// Sorted by name, server-2 before server-10.
function byName(members) {
  return [...members].sort((a, b) => a.name.localeCompare(b.name, 'en', {numeric: true}));
}

// About `wanted` round numbers from low to high.
function ticks(low, high, wanted, steps = [1, 2, 2.5, 5, 10]) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * steps.find(s => s * power >= rough * .999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; ++n) found.push(n * step);
  return found;
}

const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600,
  43200, 86400];

function clockTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const step = CLOCK_STEPS.find(s => s >= rough);
  if (step === undefined) return ticks(low / 86400, high / 86400, wanted).map(day => day * 86400);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) found.push(at);
  return found;
}

// What runs along the bottom.
const AXES = {
  time: {label: 'time', of: points => points.elapsed_s, ticks: clockTicks, format: duration},
  epochs: {label: 'epochs', of: points => points.epochs, ticks: (low, high, wanted) =>
    ticks(low, high, Math.min(wanted, Math.max(1, high - low)), [1, 2, 5, 10]), format: value => fixed(value, value % 1 ? 2 : 0)},
};

// The index of the value that is nearest to `x` among ascending ones.
function nearest(values, x) {
  let low = 0, high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle; else high = middle;
  }
  return Math.abs(values[low] - x) <= Math.abs(values[high] - x) ? low : high;
}

// A line's sample for a legend.
function swatch(hue, dash) {
  const box = shape('svg', {class: 'swatch', viewBox: '0 0 24 10', 'aria-hidden': 'true'});
  box.append(shape('line', {x1: 0, x2: 24, y1: 5, y2: 5, class: 's' + hue % HUES, 'stroke-width': 3,
    'stroke-dasharray': DASHES[dash % DASHES.length]}));
  return box;
}

// A card with curves. The legend shows the last values, or those under the pointer; with the keyboard
// the arrow keys move, Escape ends that.
class Chart {
  // options: title, unit, format(value), fromZero.
  constructor(host, options) {
    this.options = options;
    this.at = null;
    this.card = element('section', {class: 'card chart'});
    const title = element('h2', {}, options.title);
    if (options.unit) title.append(element('small', {}, options.unit));
    this.legend = element('ul', {class: 'legend'});
    this.plot = shape('svg', {class: 'plot', tabindex: 0, role: 'img'});
    this.card.append(title, this.legend, this.plot);
    host.append(this.card);
    const move = event => this.point(this.valueAt(event));
    this.plot.addEventListener('pointermove', move);
    this.plot.addEventListener('pointerdown', move);
    this.plot.addEventListener('pointerleave', () => this.point(null));
    this.plot.addEventListener('blur', () => this.point(null));
    this.plot.addEventListener('keydown', event => this.key(event));
    addEventListener('resize', () => this.redraw());
  }

  // series: {name, points, y, hue, dash}; `points` has columns, `y` is one of them.
  draw(series, axis) {
    this.series = series.filter(one => one.y && one.y.some(value => value !== null));
    this.axis = AXES[axis];
    this.card.hidden = this.series.length === 0;
    this.redraw();
  }

  redraw() {
    if (!this.series || this.card.hidden || this.plot.clientWidth === 0) return;
    this.measure();
    this.plot.replaceChildren();
    this.drawAxes();
    for (const one of this.series) this.drawCurve(one);
    this.marks = shape('g');
    this.plot.append(this.marks);
    this.point(this.at);
    this.plot.setAttribute('aria-label', this.options.title + ', ' + this.series.map(one =>
      one.name + ' ' + this.options.format(one.y.findLast(value => value !== null))).join(', ') +
      '. Arrow keys show earlier values.');
  }

  measure() {
    const all = this.series.flatMap(one => one.y.filter(value => value !== null));
    let low = this.options.fromZero ? 0 : Math.min(...all), high = Math.max(...all);
    if (high <= low) high = low + (Math.abs(low) || 1) * .1;
    const room = (high - low) * .06;
    this.low = this.options.fromZero ? 0 : low - room;
    this.high = high + room;
    const xs = this.series.flatMap(one => this.axis.of(one.points));
    this.first = Math.min(0, ...xs);
    this.last = Math.max(...xs);
    if (this.last <= this.first) this.last = this.first + 1;
    this.width = this.plot.clientWidth;
    this.height = this.plot.clientHeight;
    this.levels = ticks(this.low, this.high, 5);
    // No more digits than the lines need.
    let labels = this.levels.map(value => this.options.format(Math.abs(value) < this.high * 1e-9 ? 0 : value));
    while (labels.some(label => label.includes('.')) && labels.every(label => /\.\d*0$|^0$/.test(label))) {
      labels = labels.map(label => label.replace(/\.?0$/, '') || '0');
    }
    this.labels = labels;
    this.left = 10 + 6.6 * Math.max(...labels.map(label => label.length));
    this.right = 16;
    this.bottom = 22;
    this.top = 6;
    this.plot.setAttribute('viewBox', `0 0 ${this.width} ${this.height}`);
  }

  x(value) {
    return this.left + (value - this.first) / (this.last - this.first) * (this.width - this.left - this.right);
  }

  y(value) {
    return this.height - this.bottom -
      (value - this.low) / (this.high - this.low) * (this.height - this.bottom - this.top);
  }

  drawAxes() {
    for (const [n, value] of this.levels.entries()) {
      const y = this.y(value);
      this.plot.append(shape('line', {class: 'grid', x1: this.left, x2: this.width - this.right, y1: y, y2: y}));
      this.addText(this.labels[n], this.left - 5, y + 4, 'end');
    }
    const name = this.axis.label;
    const end = this.width - this.right;
    for (const value of this.axis.ticks(this.first, this.last, (end - this.left) / 70)) {
      const x = this.x(value), text = this.axis.format(value);
      this.plot.append(shape('line', {class: 'grid', x1: x, x2: x, y1: this.height - this.bottom, y2: this.height - this.bottom + 4}));
      if (x + 3.5 * text.length < end - 6.5 * name.length) this.addText(text, x, this.height - 5, 'middle');
    }
    this.addText(name, end, this.height - 5, 'end');
  }

  addText(text, x, y, anchor) {
    const node = shape('text', {x, y, 'text-anchor': anchor});
    node.textContent = text;
    this.plot.append(node);
  }

  drawCurve(one) {
    const xs = this.axis.of(one.points);
    const points = one.y.map((value, i) => value === null ? '' :
      this.x(xs[i]).toFixed(1) + ',' + this.y(value).toFixed(1)).filter(Boolean);
    const hue = one.hue % HUES;
    this.plot.append(shape('polyline', {class: 'curve s' + hue, points: points.join(' '),
      'stroke-dasharray': DASHES[one.dash % DASHES.length], 'data-name': one.name}));
    const span = points.length < 2 ? Infinity : parseFloat(points.at(-1)) - parseFloat(points[0]);
    if (span < 14 * points.length) return;  // dots would run together
    for (const point of points) {
      const [cx, cy] = point.split(',');
      this.plot.append(shape('circle', {class: 'f' + hue, cx, cy, r: 2.4}));
    }
  }

  valueAt(event) {
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    const share = (x - this.left) / (this.width - this.left - this.right);
    return this.first + Math.max(0, Math.min(1, share)) * (this.last - this.first);
  }

  key(event) {
    const xs = this.axis.of(this.series.reduce((longest, one) =>
      this.axis.of(one.points).length > this.axis.of(longest.points).length ? one : longest).points);
    const here = this.at === null ? xs.length : nearest(xs, this.at);
    const next = {ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: xs.length - 1}[event.key];
    if (event.key === 'Escape') return this.point(null);
    if (next === undefined) return;
    event.preventDefault();
    this.point(xs[Math.max(0, Math.min(xs.length - 1, next))]);
  }

  // Shows the values at `at`; null: the last ones.
  point(at) {
    if (!this.marks) return;
    this.at = at;
    this.marks.replaceChildren();
    const items = this.series.map(one => {
      const xs = this.axis.of(one.points);
      let i = at === null ? xs.length - 1 : nearest(xs, at);
      if (at === null) while (i > 0 && one.y[i] === null) --i;
      if (at !== null && one.y[i] !== null) {
        this.marks.append(shape('circle', {class: 'f' + one.hue % HUES, cx: this.x(xs[i]), cy: this.y(one.y[i]), r: 4}));
      }
      return element('li', {}, swatch(one.hue, one.dash), one.name + ' ',
        element('b', {}, one.y[i] === null ? '–' : this.options.format(one.y[i])));
    });
    if (at !== null) {
      this.marks.prepend(shape('line', {class: 'cross', x1: this.x(at), x2: this.x(at), y1: this.top, y2: this.height - this.bottom}));
      items.push(element('li', {class: 'at'}, 'at ' + this.axis.format(this.axis === AXES.epochs ? Math.round(at * 100) / 100 : at)));
    }
    this.legend.replaceChildren(...items);
    this.legend.setAttribute('aria-live', at !== null && document.activeElement === this.plot ? 'polite' : 'off');
  }
}

// The colour of a load in percent of the mean.
function loadColour(load) {
  const off = Math.max(-1, Math.min(1, (load - 100) / 50));
  const share = Math.round(Math.abs(off) * 10) * 10;
  return `color-mix(in srgb, var(--${off < 0 ? 'cold' : 'hot'}) ${share}%, var(--cell))`;
}

// A server's slots at a point; `changes` are pairs (point, slots from there on).
function slotsAt(changes, point) {
  let slots = 0;
  for (const [from, number] of changes) if (from <= point) slots = number;
  return slots;
}

// A row a server: its load over time, marks where it got or gave slots, its slots and load at the end
// or under the pointer.
class LoadStrips {
  constructor(host, title) {
    this.card = element('section', {class: 'card wide strips-card'});
    this.said = element('p', {class: 'soft'});
    this.grid = element('div', {class: 'strip'});
    this.box = element('div', {class: 'strips', tabindex: 0, role: 'group', 'aria-label': 'Load of the servers over time. Arrow keys show earlier values.'}, this.grid);
    const scale = element('span', {class: 'soft'}, 'load over capacity, of the mean: ',
      element('span', {class: 'span'}, '0.5', element('span', {class: 'scale', 'aria-hidden': 'true'}), '1.5'));
    this.card.append(element('div', {class: 'head'}, element('h2', {}, title), scale), this.said, this.box);
    host.append(this.card);
    this.at = null;
    this.box.addEventListener('pointermove', event => this.hover(event));
    this.box.addEventListener('pointerleave', () => this.point(null));
    this.box.addEventListener('blur', () => this.point(null));
    this.box.addEventListener('keydown', event => this.key(event));
    addEventListener('resize', () => this.redraw());
  }

  draw(loads) {
    this.loads = loads;
    this.card.hidden = loads.servers.length === 0;
    this.redraw();
  }

  redraw() {
    if (!this.loads || this.card.hidden) return;
    this.rows = byName(this.loads.servers).map(server => ({
      server, plot: shape('svg', {class: 'plot', 'data-server': server.name, 'aria-hidden': 'true'}),
      slots: element('span', {class: 'num'}), load: element('span', {class: 'num wider'})}));
    this.grid.replaceChildren(element('span', {class: 'soft'}, 'server'), element('span'),
      element('span', {class: 'num soft'}, 'slots'), element('span', {class: 'num soft wider'}, 'load'));
    for (const row of this.rows) this.grid.append(element('span', {}, row.server.name), row.plot, row.slots, row.load);
    const axis = shape('svg', {class: 'plot axis', 'aria-hidden': 'true'});
    this.grid.append(element('span'), axis);
    this.times = this.loads.elapsed_s;
    this.last = Math.max(1, ...this.times);
    this.width = axis.clientWidth;
    if (this.width === 0) return;
    for (const row of this.rows) this.drawRow(row);
    this.drawAxis(axis);
    this.point(this.at);
  }

  x(i) { return i < 0 ? 0 : this.times[i] / this.last * this.width; }

  drawRow(row) {
    row.plot.setAttribute('viewBox', `0 0 ${this.width} 22`);
    const {load, slots} = row.server;
    // Neighbours of one colour are one rectangle.
    for (let i = 0, from = 0; i < load.length; ++i) {
      const colour = load[i] === null ? '' : loadColour(load[i]);
      const next = load[i + 1] === undefined || load[i + 1] === null ? '' : loadColour(load[i + 1]);
      if (i + 1 < load.length && next === colour) continue;
      if (colour) {
        const left = this.x(from - 1);
        const cell = shape('rect', {x: left.toFixed(1), y: 1, height: 20, width: Math.max(.5, this.x(i) - left + .3).toFixed(1)});
        cell.style.fill = colour;
        row.plot.append(cell);
      }
      from = i + 1;
    }
    for (let n = 1; n < slots.length; ++n) {
      const x = Math.max(4, Math.min(this.width - 4, this.x(slots[n][0] - 1))), gained = slots[n][1] > slots[n - 1][1];
      row.plot.append(shape('path', {class: 'mark', d: gained ? `M${x} 3l5 8h-10z` : `M${x} 19l5-8h-10z`}));
    }
    row.mark = shape('line', {class: 'cross', y1: 0, y2: 22, visibility: 'hidden'});
    row.plot.append(row.mark);
  }

  drawAxis(axis) {
    axis.setAttribute('viewBox', `0 0 ${this.width} 18`);
    for (const value of clockTicks(0, this.last, this.width / 80)) {
      const x = value / this.last * this.width, text = duration(value);
      const node = shape('text', {x: Math.max(3.3 * text.length, Math.min(this.width - 3.3 * text.length, x)), y: 13, 'text-anchor': 'middle'});
      node.textContent = text;
      axis.append(node);
    }
  }

  hover(event) {
    const box = this.rows?.[0]?.plot.getBoundingClientRect();
    if (!box || event.clientX < box.left || event.clientX > box.right) return this.point(null);
    this.point(nearest(this.times, (event.clientX - box.left) / box.width * this.last));
  }

  key(event) {
    const end = this.times.length - 1, here = this.at === null ? end + 1 : this.at;
    const next = {ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: end}[event.key];
    if (event.key === 'Escape') return this.point(null);
    if (next === undefined) return;
    event.preventDefault();
    this.point(Math.max(0, Math.min(end, next)));
  }

  point(at) {
    if (!this.rows) return;
    this.at = at;
    const i = at === null || at >= this.times.length ? this.times.length - 1 : at;
    let moves = 0;
    for (const row of this.rows) {
      const {load, slots} = row.server;
      moves += Math.max(0, slots.length - 1);
      setText(row.slots, fixed(slotsAt(slots, i)));
      setText(row.load, load[i] === null ? '–' : fixed(load[i] / 100, 2));
      if (!row.mark) continue;
      row.mark.setAttribute('visibility', at === null ? 'hidden' : 'visible');
      row.mark.setAttribute('x1', this.x(i));
      row.mark.setAttribute('x2', this.x(i));
    }
    setText(this.said, at !== null ? 'at ' + duration(this.times[i]) :
      moves === 0 ? 'No slot has moved.' : '▲ the server got slots, ▼ it gave some away');
  }
}

// Fills a table, cell by cell, so that the focus and the scroll position stay.
// columns: {head, title, kind, value(row), mark(row)}; kind: '' numbers, 'left', 'text'.
function fillTable(table, columns, rows) {
  if (!table.tHead) {
    const line = table.createTHead().insertRow();
    for (const column of columns) line.append(element('th', {scope: 'col', class: column.kind ?? ''}, column.head));
    table.createTBody();
  }
  const body = table.tBodies[0];
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((row, n) => {
    const line = body.rows[n] ?? body.insertRow();
    columns.forEach((column, c) => {
      const cell = line.cells[c] ?? line.insertCell();
      const content = column.value(row);
      if (cell.dataset.head === undefined) cell.dataset.head = column.head;
      cell.className = [column.kind ?? '', column.mark ? column.mark(row) : ''].join(' ').trim();
      if (content instanceof Node) cell.replaceChildren(content); else setText(cell, String(content ?? ''));
    });
  });
}

// A card with a table that scrolls. `kind`: 'narrow', 'broad', 'wide', 'tall' (does not scroll), 'whole'
// (nor that, and in a narrow window a row is a block).
class TableCard {
  constructor(host, title, columns, kind = '') {
    this.columns = columns;
    this.card = element('section', {class: 'card ' + kind});
    this.note = element('p', {class: 'soft'});
    this.table = element('table');
    this.note.hidden = true;
    this.card.append(element('h2', {}, title), this.note,
      element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title}, this.table));
    host.append(this.card);
  }

  // `note`: a line above the table. Without rows the note is all, without both there is no card.
  show(rows, note = '') {
    this.card.hidden = rows.length === 0 && note === '';
    this.table.parentElement.hidden = rows.length === 0;
    this.note.hidden = note === '';
    setText(this.note, note);
    if (rows.length > 0) fillTable(this.table, this.columns, rows);
  }
}
