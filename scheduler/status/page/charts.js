// Curves with axes, a legend and the values under the pointer.
'use strict';

// About `wanted` round numbers from low to high.
function ticks(low, high, wanted, steps = [1, 2, 2.5, 5, 10]) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * steps.find(s => s * power >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; ++n)
    found.push(n * step);
  return found;
}

const CLOCK_STEPS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400,
];

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
  epochs: {
    label: 'epochs',
    of: points => points.epochs,
    ticks: (low, high, wanted) =>
      ticks(low, high, Math.min(wanted, Math.max(1, high - low)), [1, 2, 5, 10]),
    format: value => fixed(value, value % 1 ? 2 : 0),
  },
};

// The index of the value that is nearest to `x` among ascending ones.
function nearest(values, x) {
  let low = 0,
    high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle;
    else high = middle;
  }
  return Math.abs(values[low] - x) <= Math.abs(values[high] - x) ? low : high;
}

// A line's sample for a legend.
function swatch(hue, dash) {
  const box = shape('svg', {class: 'swatch', viewBox: '0 0 24 10', 'aria-hidden': 'true'});
  box.append(
    shape('line', {
      x1: 0,
      x2: 24,
      y1: 5,
      y2: 5,
      class: 's' + (hue % HUES),
      'stroke-width': 3,
      'stroke-dasharray': DASHES[dash % DASHES.length],
    }),
  );
  return box;
}

// "✕ server-2 was lost at 0:42"; of several the last.
function lossText(losses) {
  const all = losses.length > 1 ? '; ' + count(losses.length, 'loss', 'losses') + ' in all' : '';
  return '✕ ' + losses.at(-1).text + all;
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

  // series: {name, points, y, hue, dash}; `points` has columns, `y` is one of them. `losses`: {x, text}
  // of servers that were lost.
  draw(series, axis, losses = []) {
    this.losses = losses;
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
    for (const one of this.losses) this.drawLoss(one);
    this.marks = shape('g');
    this.plot.append(this.marks);
    this.point(this.at);
    this.plot.setAttribute(
      'aria-label',
      this.options.title +
        ', ' +
        this.series
          .map(one => one.name + ' ' + this.options.format(one.y.findLast(value => value !== null)))
          .concat(this.losses.map(one => one.text))
          .join(', ') +
        '. Arrow keys show earlier values.',
    );
  }

  measure() {
    const all = this.series.flatMap(one => one.y.filter(value => value !== null));
    let low = this.options.fromZero ? 0 : Math.min(...all),
      high = Math.max(...all);
    if (high <= low) high = low + (Math.abs(low) || 1) * 0.1;
    const room = (high - low) * 0.06;
    this.low = this.options.fromZero ? 0 : low - room;
    this.high = high + room;
    const xs = this.series
      .flatMap(one => this.axis.of(one.points))
      .concat(this.losses.map(one => one.x));
    this.first = Math.min(0, ...xs);
    this.last = Math.max(...xs);
    if (this.last <= this.first) this.last = this.first + 1;
    this.width = this.plot.clientWidth;
    this.height = this.plot.clientHeight;
    this.levels = ticks(this.low, this.high, 5);
    // No more digits than the lines need.
    let labels = this.levels.map(value =>
      this.options.format(Math.abs(value) < this.high * 1e-9 ? 0 : value),
    );
    while (
      labels.some(label => label.includes('.')) &&
      labels.every(label => /\.\d*0$|^0$/.test(label))
    ) {
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
    return (
      this.left +
      ((value - this.first) / (this.last - this.first)) * (this.width - this.left - this.right)
    );
  }

  y(value) {
    return (
      this.height -
      this.bottom -
      ((value - this.low) / (this.high - this.low)) * (this.height - this.bottom - this.top)
    );
  }

  drawAxes() {
    for (const [n, value] of this.levels.entries()) {
      const y = this.y(value);
      this.plot.append(
        shape('line', {class: 'grid', x1: this.left, x2: this.width - this.right, y1: y, y2: y}),
      );
      this.addText(this.labels[n], this.left - 5, y + 4, 'end');
    }
    const name = this.axis.label;
    const end = this.width - this.right;
    for (const value of this.axis.ticks(this.first, this.last, (end - this.left) / 70)) {
      const x = this.x(value),
        text = this.axis.format(value);
      this.plot.append(
        shape('line', {
          class: 'grid',
          x1: x,
          x2: x,
          y1: this.height - this.bottom,
          y2: this.height - this.bottom + 4,
        }),
      );
      if (x + 3.5 * text.length < end - 6.5 * name.length)
        this.addText(text, x, this.height - 5, 'middle');
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
    const points = one.y
      .map((value, i) =>
        value === null ? '' : this.x(xs[i]).toFixed(1) + ',' + this.y(value).toFixed(1),
      )
      .filter(Boolean);
    const hue = one.hue % HUES;
    this.plot.append(
      shape('polyline', {
        class: 'curve s' + hue,
        points: points.join(' '),
        'stroke-dasharray': DASHES[one.dash % DASHES.length],
        'data-name': one.name,
      }),
    );
    const span = points.length < 2 ? Infinity : parseFloat(points.at(-1)) - parseFloat(points[0]);
    if (span < 14 * points.length) return; // dots would run together
    for (const point of points) {
      const [cx, cy] = point.split(',');
      this.plot.append(shape('circle', {class: 'f' + hue, cx, cy, r: 2.4}));
    }
  }

  drawLoss({x: at, text}) {
    const x = this.x(at),
      y = this.top + 5;
    const mark = shape('g', {class: 'loss'});
    const title = shape('title');
    title.textContent = text;
    mark.append(
      title,
      shape('line', {x1: x, x2: x, y1: y, y2: this.height - this.bottom}),
      shape('path', {d: `M${x - 4} ${y - 4}l8 8m0-8l-8 8`}),
    );
    this.plot.append(mark);
  }

  valueAt(event) {
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    const share = (x - this.left) / (this.width - this.left - this.right);
    return this.first + Math.max(0, Math.min(1, share)) * (this.last - this.first);
  }

  key(event) {
    const xs = this.axis.of(
      this.series.reduce((longest, one) =>
        this.axis.of(one.points).length > this.axis.of(longest.points).length ? one : longest,
      ).points,
    );
    const here = this.at === null ? xs.length : nearest(xs, this.at);
    const next = {ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: xs.length - 1}[
      event.key
    ];
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
        this.marks.append(
          shape('circle', {
            class: 'f' + (one.hue % HUES),
            cx: this.x(xs[i]),
            cy: this.y(one.y[i]),
            r: 4,
          }),
        );
      }
      return element(
        'li',
        {},
        swatch(one.hue, one.dash),
        one.name + ' ',
        element('b', {}, one.y[i] === null ? '–' : this.options.format(one.y[i])),
      );
    });
    if (this.losses.length > 0) items.push(element('li', {class: 'lost'}, lossText(this.losses)));
    if (at !== null) {
      this.marks.prepend(
        shape('line', {
          class: 'cross',
          x1: this.x(at),
          x2: this.x(at),
          y1: this.top,
          y2: this.height - this.bottom,
        }),
      );
      items.push(
        element(
          'li',
          {class: 'at'},
          'at ' + this.axis.format(this.axis === AXES.epochs ? Math.round(at * 100) / 100 : at),
        ),
      );
    }
    this.legend.replaceChildren(...items);
    this.legend.setAttribute(
      'aria-live',
      at !== null && document.activeElement === this.plot ? 'polite' : 'off',
    );
  }
}
