// The servers' load over time.
'use strict';

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
    this.box = element(
      'div',
      {
        class: 'strips',
        tabindex: 0,
        role: 'group',
        'aria-label': 'Load of the servers over time. Arrow keys show earlier values.',
      },
      this.grid,
    );
    const scale = element(
      'span',
      {class: 'soft'},
      'busy, of the mean: ',
      element(
        'span',
        {class: 'span'},
        '0.5',
        element('span', {class: 'scale', 'aria-hidden': 'true'}),
        '1.5',
      ),
    );
    this.card.append(
      element('div', {class: 'head'}, element('h2', {}, title), scale),
      this.said,
      this.box,
    );
    host.append(this.card);
    this.at = null;
    this.box.addEventListener('pointermove', event => this.hover(event));
    this.box.addEventListener('pointerleave', () => this.point(null));
    this.box.addEventListener('blur', () => this.point(null));
    this.box.addEventListener('keydown', event => this.key(event));
    addEventListener('resize', () => this.redraw());
  }

  // `lost`: {at_s, server} of servers that were lost.
  draw(loads, lost) {
    this.loads = loads;
    this.lost = lost;
    this.card.hidden = loads.servers.length === 0;
    this.redraw();
  }

  redraw() {
    if (!this.loads || this.card.hidden) return;
    this.rows = byName(this.loads.servers).map(server => ({
      server,
      plot: shape('svg', {class: 'plot', 'data-server': server.name, 'aria-hidden': 'true'}),
      slots: element('span', {class: 'num'}),
      load: element('span', {class: 'num wider'}),
    }));
    this.grid.replaceChildren(
      element('span', {class: 'soft'}, 'server'),
      element('span'),
      element('span', {class: 'num soft'}, 'slots'),
      element('span', {class: 'num soft wider'}, 'load'),
    );
    for (const row of this.rows)
      this.grid.append(element('span', {}, row.server.name), row.plot, row.slots, row.load);
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

  x(i) {
    return i < 0 ? 0 : (this.times[i] / this.last) * this.width;
  }

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
        const cell = shape('rect', {
          x: left.toFixed(1),
          y: 1,
          height: 20,
          width: Math.max(0.5, this.x(i) - left + 0.3).toFixed(1),
        });
        cell.style.fill = colour;
        row.plot.append(cell);
      }
      from = i + 1;
    }
    for (let n = 1; n < slots.length; ++n) {
      const x = Math.max(4, Math.min(this.width - 4, this.x(slots[n][0] - 1))),
        gained = slots[n][1] > slots[n - 1][1];
      row.plot.append(
        shape('path', {class: 'mark', d: gained ? `M${x} 3l5 8h-10z` : `M${x} 19l5-8h-10z`}),
      );
    }
    for (const {at_s: at} of this.lost.filter(one => one.server === row.server.name)) {
      const x = Math.max(5, Math.min(this.width - 5, (at / this.last) * this.width));
      row.plot.append(shape('path', {class: 'loss', d: `M${x - 4} 7l8 8m0-8l-8 8`}));
    }
    row.mark = shape('line', {class: 'cross', y1: 0, y2: 22, visibility: 'hidden'});
    row.plot.append(row.mark);
  }

  drawAxis(axis) {
    axis.setAttribute('viewBox', `0 0 ${this.width} 18`);
    for (const value of clockTicks(0, this.last, this.width / 80)) {
      const x = (value / this.last) * this.width,
        text = duration(value);
      const node = shape('text', {
        x: Math.max(3.3 * text.length, Math.min(this.width - 3.3 * text.length, x)),
        y: 13,
        'text-anchor': 'middle',
      });
      node.textContent = text;
      axis.append(node);
    }
  }

  hover(event) {
    const box = this.rows?.[0]?.plot.getBoundingClientRect();
    if (!box || event.clientX < box.left || event.clientX > box.right) return this.point(null);
    this.point(nearest(this.times, ((event.clientX - box.left) / box.width) * this.last));
  }

  key(event) {
    const end = this.times.length - 1,
      here = this.at === null ? end + 1 : this.at;
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
    setText(
      this.said,
      at !== null
        ? 'at ' + duration(this.times[i])
        : [
            moves === 0
              ? 'No slot has moved'
              : '▲ the server got slots, ▼ it gave some away',
            ...(this.lost.length > 0 ? ['✕ it was lost'] : []),
          ].join(', ') + (moves === 0 ? '.' : ''),
    );
  }
}
