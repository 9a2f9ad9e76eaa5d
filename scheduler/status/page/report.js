// The report of one run, or of several in comparison. A run is
//   {name, state, finished, history, summary, so_far, config: [[key, value, usual, default], ...]}
// `usual`: what the key would be without a value, which may be derived. `history` as /api/history, `summary` as summary.json or null; `so_far`: the costs of a run without
// a summary, or null.
'use strict';

const byId = id => document.getElementById(id);
const runs = JSON.parse(byId('data').textContent).map((run, hue) => ({...run, hue}));
const several = runs.length > 1;

// What the summary says; of a run without one, what its costs and its last records say.
function resultsOf(run) {
  if (run.summary) return {held_out_p_at_1: run.summary.held_out?.p_at_1, ...run.summary};
  const {progress, evaluations, held_out} = run.history,
    last = column => column?.findLast(value => value !== null);
  return {
    held_out_p_at_1: last(held_out?.p_at_1),
    p_at_1: last(evaluations.p_at_1),
    p_at_3: last(evaluations.p_at_3),
    p_at_5: last(evaluations.p_at_5),
    ndcg_at_5: last(evaluations.ndcg_at_5),
    psp_at_1: last(evaluations.psp_at_1),
    psp_at_5: last(evaluations.psp_at_5),
    epochs: last(progress.epochs),
    loss: last(progress.loss),
    samples_per_second: last(progress.samples_per_second),
    active_neurons_per_sample: last(progress.neurons),
    bytes_sent_per_sample: last(progress.bytes_sent),
    bytes_received_per_sample: last(progress.bytes_received),
    tail_error: last(progress.tail_error),
    active_set_recall_at_10: last(progress.recall),
    train_seconds: last(progress.elapsed_s),
    whole_run: false,
    ...run.so_far,
  };
}

// Not to be compared if they are not those of the whole run.
const COSTS = [
  'train_seconds',
  'train_cpu_seconds',
  'cpu_seconds',
  'samples_per_second',
  'bytes_sent_per_sample',
  'bytes_received_per_sample',
  'lease_bytes_per_sample',
  'peak_rss_mb',
];
const comparable = (key, results) => results.whole_run !== false || !COSTS.includes(key);

// [key, name, format, 1: more is better, -1: less is].
const RESULTS = [
  ['p_at_1', 'P@1 %', percent, 1],
  ['p_at_3', 'P@3 %', percent, 1],
  ['p_at_5', 'P@5 %', percent, 1],
  ['ndcg_at_3', 'nDCG@3 %', percent, 1],
  ['ndcg_at_5', 'nDCG@5 %', percent, 1],
  ['psp_at_1', 'PSP@1 %', percent, 1],
  ['psp_at_3', 'PSP@3 %', percent, 1],
  ['psp_at_5', 'PSP@5 %', percent, 1],
  ['evaluated_samples', 'test samples', fixed, 0],
  ['held_out_p_at_1', 'held-out P@1 %', percent, 1],
  ['epochs', 'epochs', short, 0],
  ['samples', 'samples trained', fixed, 0],
  ['train_seconds', 'time of training', duration, -1],
  ['train_cpu_seconds', 'CPU s of training', value => fixed(value, 1), -1],
  ['cpu_seconds', 'CPU s in all', value => fixed(value, 1), -1],
  ['samples_per_second', 'samples a second', fixed, 1],
  ['loss', 'loss, mean over the run', value => fixed(value, 3), 0],
  ['active_neurons_per_sample', 'neurons scored a sample', fixed, 0],
  ['bytes_sent_per_sample', 'bytes to servers, a sample', fixed, -1],
  ['bytes_received_per_sample', 'bytes from servers, a sample', fixed, -1],
  ['lease_bytes_per_sample', 'bytes of leases, a sample', fixed, -1],
  ['tail_error', 'error of the normaliser', value => fixed(value, 3), 0],
  ['active_set_recall_at_10', 'recall@10 of the active set %', percent, 0],
  ['parameters', 'parameters', short, 0],
  ['peak_rss_mb', 'peak memory MB', fixed, -1],
];

// Runs as columns, with their colours.
const runColumns = value =>
  runs.map(run => ({
    head: several ? run.name : 'value',
    kind: several ? '' : 'text',
    value: row => value(row, run),
    mark: row =>
      row.best && row.best === value(row, run) && !row.others.has(run) ? 'best good' : '',
  }));

function showResults(host) {
  const all = runs.map(resultsOf);
  const rows = RESULTS.filter(([key]) => all.some(results => Number.isFinite(results[key]))).map(
    ([key, name, format, better]) => {
      const others = new Set(runs.filter(run => !comparable(key, all[run.hue])));
      const values = runs
        .filter(run => !others.has(run))
        .map(run => all[run.hue][key])
        .filter(Number.isFinite);
      const best = Math.max(...values.map(value => better * value));
      const differs =
        several && better !== 0 && new Set(values.map(value => format(value))).size > 1;
      return {key, name, format, others, best: differs ? format(better * best) : null};
    },
  );
  const parts = runs.filter(run => all[run.hue].whole_run === false).map(run => run.name);
  const notes = [];
  if (several) notes.push('The best of each row is green and bold.');
  if (parts.length > 0)
    notes.push(
      (several ? parts.join(', ') + ': ' : '') +
        'times, speed, bytes and memory are those of a part of the run.',
    );
  new TableCard(
    host,
    'Results',
    [
      {head: 'measure', kind: 'text', value: row => row.name},
      ...runColumns((row, run) => row.format(all[run.hue][row.key])),
    ],
    several ? 'wide tall' : 'tall',
  ).show(rows, notes.join(' '));
}

function showConfiguration(host) {
  const values = runs.map(run => new Map(run.config.map(([key, value]) => [key, value])));
  const rows = runs[0].config
    .filter(([key, value, usual]) =>
      several ? values.some(other => other.get(key) !== value) : value !== usual,
    )
    .map(([key, , usual, plain]) => ({key, usual, plain}));
  const said = value => (value === '' ? '(none)' : value);
  const isDerived = row => row.usual !== row.plain;
  const notes = [
    rows.length === 0
      ? several
        ? 'No key differs.'
        : 'All keys have their defaults.'
      : several
        ? 'What differs between the runs.'
        : 'What differs from the defaults.',
  ];
  if (rows.some(isDerived))
    notes.push(
      'Behind an arrow is what the default means with the data and the other keys' +
        (several ? ' of the first run.' : '.'),
    );
  new TableCard(
    host,
    'Configuration',
    [
      {head: 'key', kind: 'left', value: row => row.key},
      ...runs.map(run => ({
        head: several ? run.name : 'value',
        kind: 'text',
        value: row => said(values[run.hue].get(row.key) ?? ''),
      })),
      {
        head: 'default',
        kind: 'text',
        value: row => said(row.plain) + (isDerived(row) ? ' → ' + said(row.usual) : ''),
      },
    ],
    several ? 'wide tall' : 'tall',
  ).show(rows, notes.join(' '));
}

function showRuns(host) {
  new TableCard(
    host,
    'Runs',
    [
      {head: 'run', kind: 'left', value: run => element('span', {}, swatch(run.hue, 0), run.name)},
      {
        head: 'state',
        kind: 'text',
        value: run => run.state,
        mark: run => (run.finished ? '' : 'warn'),
      },
      {head: 'model and data', kind: 'text', value: run => factLine(run.history.run)},
      {head: 'training file', kind: 'text', value: run => fileLine(run.history.run)},
    ],
    'wide',
  ).show(runs);
}

// What a run has of its own.
function showRun(host, run) {
  const of = title => (several ? run.name + ': ' + title[0].toLowerCase() + title.slice(1) : title);
  new LoadStrips(host, of('Servers over time')).draw(run.history.loads, run.history.lost);
  new TableCard(
    host,
    of('Checkpoints'),
    checkpointColumns.map(column =>
      column.head === 'age' ? {...column, head: 'written, UTC'} : column,
    ),
  ).show(
    run.history.checkpoints.map(checkpoint => ({...checkpoint, now: null})),
    run.history.checkpoints.length > 0 ? '' : 'None.',
  );
  new TableCard(host, of('Last predictions'), exampleColumns, 'wide whole').show(
    run.history.examples,
  );
  new TableCard(host, of('Events and decisions'), eventColumns, 'wide').show(
    eventRows(run.history),
  );
}

function showTiles(run) {
  const results = resultsOf(run);
  for (const key of [
    'p_at_1',
    'p_at_5',
    'samples_per_second',
    'train_seconds',
    'train_cpu_seconds',
    'parameters',
    'peak_rss_mb',
  ]) {
    const [, name, format] = RESULTS.find(([known]) => known === key);
    if (Number.isFinite(results[key]))
      byId('tiles').append(
        element('div', {}, element('dt', {}, name), element('dd', {}, format(results[key]))),
      );
  }
}

function showReport() {
  const [first] = runs,
    title = several ? runs.length + ' runs: ' + runs.map(run => run.name).join(', ') : first.name;
  document.title = title + ' – D-SLIDE';
  setText(byId('name'), title);
  byId('state').hidden = several;
  if (!several) {
    showState(byId('state'), first.state, first.finished ? 'plain' : 'warn');
    setText(byId('facts'), factLine(first.history.run));
    setText(byId('files'), fileLine(first.history.run));
    showTiles(first);
  }
  if (several) {
    const top = element('div', {class: 'cards'});
    byId('tiles').replaceWith(top);
    showRuns(top);
    showResults(top);
    showConfiguration(top);
  }
  new CurveCards(byId('curves'), byId('axis')).draw(runs);
  if (!several) {
    showResults(byId('rest'));
    showConfiguration(byId('rest'));
  }
  for (const run of runs) showRun(byId('rest'), run);
}

showReport();
