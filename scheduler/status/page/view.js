// The cards that the status page and the report share. A run is {history, hue}: `history` is what
// /api/history says.
'use strict';

// A line is [column, name, part]. `part` names the part of the history that has the column; without
// it that is the curve's own part, `of`.

const CURVES = [
  {
    title: 'Loss',
    unit: 'training, mean of a sample',
    of: 'progress',
    lines: [['loss', 'loss']],
    format: value => fixed(value, value < 1 ? 3 : 2),
  },
  {
    title: 'Precision',
    unit: '%, after each evaluation',
    of: 'evaluations',
    fromZero: true,
    lines: [
      ['p_at_1', 'P@1'],
      ['p_at_3', 'P@3'],
      ['p_at_5', 'P@5'],
      ['p_at_1', 'P@1 held out', 'held_out'],
    ],
    format: percent,
  },
  {
    title: 'Gain and rare labels',
    unit: '%, after each evaluation',
    of: 'evaluations',
    fromZero: true,
    lines: [
      ['ndcg_at_5', 'nDCG@5'],
      ['psp_at_1', 'PSP@1'],
      ['psp_at_5', 'PSP@5'],
      ['ndcg_at_5', 'nDCG@5 held out', 'held_out'],
    ],
    format: percent,
  },
  {
    title: 'Recall of the active set',
    unit: '% of the true top 10',
    of: 'progress',
    fromZero: true,
    lines: [['recall', 'recall@10']],
    format: percent,
  },
  {
    title: 'Error of the softmax normaliser',
    unit: 'relative, from the draw of neurons',
    of: 'progress',
    fromZero: true,
    lines: [['tail_error', 'tail error']],
    format: value => fixed(value, 3),
  },
  {
    title: 'Throughput',
    unit: 'samples a second',
    of: 'progress',
    fromZero: true,
    lines: [['samples_per_second', 'all workers']],
    format: short,
  },
  {
    title: 'Bytes',
    unit: 'a sample, between workers and servers',
    of: 'progress',
    fromZero: true,
    lines: [
      ['bytes_sent', 'to servers'],
      ['bytes_received', 'from servers'],
    ],
    format: short,
  },
  {
    title: 'Neurons scored',
    unit: 'a sample',
    of: 'progress',
    fromZero: true,
    lines: [['neurons', 'neurons']],
    format: short,
  },
];

// With more runs a chart has one measure only.
const MOST_RUNS = 3;

// All curves of some runs. One run: a colour a measure. Several: a colour a run.
class CurveCards {
  constructor(host, choice) {
    this.charts = CURVES.map(curve => new Chart(host, curve));
    this.axis = 'time';
    for (const input of choice.querySelectorAll('input')) {
      input.addEventListener('change', () => {
        this.axis = input.value;
        this.draw(this.runs);
      });
    }
  }

  draw(runs) {
    this.runs = runs;
    CURVES.forEach((curve, n) =>
      this.charts[n].draw(
        curve.lines
          .slice(0, runs.length > MOST_RUNS ? 1 : undefined)
          .flatMap(([column, name, part = curve.of], line) =>
            runs
              .filter(run => run.history[part]?.[column]?.length)
              .map(run => ({
                points: run.history[part],
                y: run.history[part][column],
                hue: runs.length > 1 ? run.hue : line,
                dash: line,
                name: runs.length > 1 ? run.name + ' ' + name : name,
              })),
          ),
        this.axis,
        runs.flatMap(run => lossMarks(run, this.axis, runs.length > 1)),
      ),
    );
  }
}

// Where servers were lost, for Chart.draw().
function lossMarks(run, axis, several) {
  const {lost, progress} = run.history;
  return lost.map(({at_s: at, server}) => ({
    x: axis === 'time' ? at : epochsAt(progress, at),
    text: (several ? run.name + ': ' : '') + server + ' was lost at ' + duration(at),
  }));
}

// How many epochs were trained at a time, between the points of `progress`.
function epochsAt(progress, at) {
  const {elapsed_s: times, epochs} = progress,
    next = times.findIndex(time => time >= at);
  if (next < 0) return epochs.at(-1) ?? 0;
  const time = next > 0 ? times[next - 1] : 0,
    done = next > 0 ? epochs[next - 1] : 0;
  return done + ((epochs[next] - done) * (at - time)) / Math.max(times[next] - time, 1e-9);
}

// "14,231 samples, ..." of a run.
function factLine(run) {
  const facts = [];
  if (run.train_samples) facts.push(count(run.train_samples, 'training sample'));
  if (run.held_out_samples) facts.push(short(run.held_out_samples) + ' held out');
  if (run.test_samples) facts.push(count(run.test_samples, 'test sample'));
  facts.push(
    count(run.labels, 'label'),
    count(run.features, 'feature'),
    'H = ' + run.layers,
    short(run.parameters) + ' parameters',
    count(run.epochs, 'epoch'),
  );
  return facts.join(' · ');
}

function fileLine(run) {
  return run.data + (run.test ? ', tested on ' + run.test : '');
}

function size(bytes) {
  return bytes >= 1e9
    ? fixed(bytes / 1e9, 2) + ' GB'
    : bytes >= 1e5
      ? fixed(bytes / 1e6, 1) + ' MB'
      : fixed(bytes / 1e3, 1) + ' KB';
}

// Checkpoints with their age at `now`, seconds since 1970; null: with the time of writing.
const checkpointColumns = [
  {head: 'checkpoint', kind: 'left', value: row => row.name},
  {
    head: 'age',
    value: row =>
      row.now === null
        ? new Date(row.written * 1000).toISOString().slice(0, 16).replace('T', ' ')
        : duration(row.now - row.written),
  },
  {head: 'size', value: row => size(row.bytes)},
  {head: 'samples', value: row => fixed(row.samples)},
];

const eventColumns = [
  {head: 'time', value: row => duration(row.at_s)},
  {head: 'what', kind: 'text', value: row => row.text},
];

// Newest first.
const eventRows = history => [...history.events].reverse();

function chips(names, others, kind) {
  const list = element('ul', {class: 'chips'});
  for (const name of names) {
    const hit = others.includes(name);
    list.append(
      element(
        'li',
        {
          class: hit ? 'hit' : kind,
          title: hit
            ? 'predicted and true'
            : kind === 'miss'
              ? 'true, not predicted'
              : 'predicted, not true',
        },
        name,
      ),
    );
  }
  if (names.length === 0) list.append(element('li', {class: 'soft'}, 'none'));
  return list;
}

const exampleColumns = [
  {head: 'test sample', value: row => fixed(row.number)},
  {head: 'true labels', kind: 'text', value: row => chips(row.labels, row.predicted, 'miss')},
  {
    head: 'predicted, the best first',
    kind: 'text',
    value: row => chips(row.predicted, row.labels, ''),
  },
];

// A badge with a state in words.
function showState(node, text, kind) {
  setText(node, text);
  node.className = 'state ' + kind;
}
