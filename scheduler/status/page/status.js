// The status page: asks for the status once a second, and for the history every few seconds.
'use strict';

const REFRESH_MS = 1000;
const HISTORY_EVERY = 3; // refreshes
const byId = id => document.getElementById(id);

const curves = new CurveCards(byId('curves'), byId('axis'));
const strips = new LoadStrips(byId('cluster'), 'Servers over time');
const unless = (value, text) => (value === undefined ? '' : text);
const servers = new TableCard(
  byId('cluster'),
  'Servers',
  [
    {head: 'server', kind: 'left', value: s => s.name},
    {
      head: 'state',
      kind: 'left',
      value: s => s.state,
      mark: s => (s.state === 'serving' ? '' : 'warn'),
    },
    {head: 'slots', value: s => s.slots ?? ''},
    {head: 'load', value: s => fixed(s.load, 2), mark: s => (s.load > 1.15 ? 'warn' : '')},
    {head: 'busy %', value: s => fixed(s.busy, 0, 100)},
    {
      head: 'memory MB',
      value: s =>
        fixed(s.memory_used_mb) + (s.memory_limit_mb ? ' / ' + fixed(s.memory_limit_mb) : '') +
            (s.tier_hits === undefined ? '' : ', tier hits ' + fixed(100 * s.tier_hits) + ' %'),
    },
    {head: 'CPU s', value: s => fixed(s.cpu_seconds, 1)},
    {head: 'peak MB', value: s => fixed(s.peak_rss_mb)},
    {head: 'silent s', value: s => fixed(s.silent_s, 1)},
  ],
  'broad',
);
const checkpoints = new TableCard(byId('cluster'), 'Checkpoints', checkpointColumns, 'narrow');
const tables = new TableCard(
  byId('cluster'),
  'Buckets',
  [
    {head: 'server', kind: 'left', value: s => s.name},
    {head: 'mean', value: s => fixed(s.bucket_mean, 1)},
    {head: '99th percentile', value: s => fixed(s.bucket_p99)},
    {head: 'largest', value: s => fixed(s.bucket_largest)},
    {head: 'largest / mean', value: s => fixed(s.bucket_skew, 1)},
    {head: 'empty %', value: s => fixed(s.bucket_empty_share, 1, 100)},
    {head: 'hash functions', value: s => unless(s.hash_round, 'no. ' + (s.hash_round + 1))},
    {head: 'batches behind', value: s => fixed(s.rehash_lag_batches)},
  ],
  'wide',
);
const workers = new TableCard(
  byId('cluster'),
  'Workers',
  [
    {head: 'worker', kind: 'left', value: w => w.name},
    {
      head: 'state',
      kind: 'left',
      value: workerState,
      mark: w => (workerState(w) === 'working' ? '' : 'warn'),
    },
    {head: 'samples/s', value: w => fixed(w.samples_per_second)},
    {head: 'samples', value: w => fixed(w.samples)},
    {head: 'in flight', value: w => fixed(w.batches_in_flight)},
    {head: 'round trip ms', value: w => fixed(w.round_trip_ms, 1)},
    {head: 'CPU s', value: w => fixed(w.cpu_seconds, 1)},
    {head: 'peak MB', value: w => fixed(w.peak_rss_mb)},
    {head: 'silent s', value: w => fixed(w.silent_s, 1)},
  ],
  'wide',
);
const thanks = new TableCard(
  byId('cluster'),
  'Contributions',
  [
    {head: 'by', kind: 'left', value: c => c.name},
    {head: 'samples today', value: c => fixed(c.today)},
    {head: 'samples', value: c => fixed(c.samples)},
  ],
  'narrow',
);
const figures = new TableCard(
  byId('cluster'),
  'Figures of the run',
  [
    {head: 'figure', kind: 'text', value: ([name]) => name},
    {head: 'value', kind: 'text', value: ([, value]) => short(value)},
  ],
  'wide tall figures',
);
const examples = new TableCard(byId('cluster'), 'Last predictions', exampleColumns, 'wide whole');
const events = new TableCard(byId('cluster'), 'Events and decisions', eventColumns, 'wide');

// Outside loopback the page's address ends with #token=..., which browsers send to nobody.
const token = new URLSearchParams(location.hash.slice(1)).get('token');
byId('more').hidden = token !== null; // links bring no token

let refreshes = 0;
let told = null; // what /api/history said last
let heardMs = 0; // when

function workerState(worker) {
  return worker.state === 'working' && worker.straggler ? 'straggler' : worker.state;
}

// "300 workers: 297 working, 3 suspect; ..."
function workerSummary(all) {
  if (all.length === 0) return 'No worker has joined.';
  const states = new Map();
  for (const worker of all)
    states.set(workerState(worker), (states.get(workerState(worker)) ?? 0) + 1);
  const speeds = all.map(worker => worker.samples_per_second).sort((a, b) => a - b);
  const sum = speeds.reduce((total, speed) => total + speed, 0);
  return (
    count(all.length, 'worker') +
    ': ' +
    [...states].map(([state, n]) => fixed(n) + ' ' + state).join(', ') +
    '. ' +
    fixed(sum) +
    ' samples/s' +
    (all.length < 2
      ? ''
      : '; slowest ' +
        fixed(speeds[0]) +
        ', median ' +
        fixed(speeds[speeds.length >> 1]) +
        ', fastest ' +
        fixed(speeds.at(-1))) +
    '. ' +
    count(
      all.reduce((total, worker) => total + worker.batches_in_flight, 0),
      'batch',
      'batches',
    ) +
    ' in flight.'
  );
}

function showTiles(status) {
  const last = status.evaluations.at(-1);
  const most = Math.max(0, ...status.members.map(member => member.load ?? 0));
  const tiles = [
    ...(last || !status.held_out
      ? [['P@1', last ? percent(last.p_at_1) : '–', last ? 'best ' + percent(status.best_p_at_1) : '']]
      : []),
    ...(status.held_out
      ? [['held-out P@1', percent(status.held_out.p_at_1), short(status.held_out.samples) + ' samples']]
      : []),
    ['loss', status.loss === undefined ? '–' : fixed(status.loss, 3), ''],
    ['samples a second', fixed(status.figures['samples per second']), ''],
    ['bytes a sample', fixed(status.figures['bytes per sample']), ''],
    ['time left', status.eta_s >= 0 && status.progress < 1 ? duration(status.eta_s) : '–', ''],
    ['busiest server', most > 0 ? fixed(most, 2) : '–', 'of the mean'],
    [
      'slots moved',
      fixed(status.moves.slots_moved),
      status.moves.in_progress
        ? status.moves.in_progress + ' moving'
        : status.moves.slots_moved
          ? size(status.moves.bytes_moved)
          : '',
    ],
  ];
  const list = byId('tiles');
  while (list.children.length < tiles.length)
    list.append(element('div', {}, element('dt'), element('dd', {}, '', element('small'))));
  tiles.forEach(([name, value, note], n) => {
    const [dt, dd] = list.children[n].children;
    setText(dt, name);
    if (!dd.firstChild || dd.firstChild.nodeType !== Node.TEXT_NODE) dd.prepend('');
    dd.firstChild.data = value + ' ';
    setText(dd.querySelector('small'), note);
  });
}

function showStatus(status) {
  const training = status.phase === 'training' || status.phase === 'evaluating';
  showState(
    byId('state'),
    status.phase,
    status.phase === 'finished' ? 'plain' : training ? 'good' : 'warn',
  );
  setText(
    byId('epoch'),
    status.stream ? 'segment ' + status.epoch : 'epoch ' + status.epoch + ' of ' + status.epochs,
  );
  const problem = status.checkpoint_problem;
  byId('line').hidden = !problem && !status.waits && (training || status.phase === 'finished');
  setText(byId('line'), problem ?? status.line);
  const done = 100 * status.progress;
  byId('bar').setAttribute('aria-valuenow', done.toFixed(0));
  byId('bar').firstElementChild.style.width = done.toFixed(1) + '%';
  showTiles(status);
  const byRole = role => byName(status.members.filter(member => member.role === role));
  servers.show(byRole('server'), byRole('server').length === 0 ? 'No server has joined.' : '');
  tables.show(byRole('server').filter(server => server.bucket_largest !== undefined));
  workers.show(byRole('worker'), workerSummary(byRole('worker')));
  thanks.show(status.contributions);
  figures.show(Object.entries(status.figures).filter(([, value]) => typeof value === 'number'));
}

function showHistory() {
  const run = told.run;
  document.title = run.name + ' – D-SLIDE';
  setText(byId('name'), run.name);
  setText(byId('facts'), factLine(run));
  setText(byId('files'), fileLine(run));
  curves.draw([{history: told, hue: 0, name: run.name}]);
  strips.draw(told.loads, told.lost);
  examples.show(
    told.examples,
    told.examples.length > 0
      ? ''
      : run.test_samples > 0
        ? 'After the first evaluation.'
        : 'The run has no test file.',
  );
  events.show(eventRows(told));
  showCheckpoints();
}

function showCheckpoints() {
  const now = told.time + (performance.now() - heardMs) / 1000;
  checkpoints.show(
    [...told.checkpoints].reverse().map(checkpoint => ({...checkpoint, now})),
    told.checkpoints.length > 0 ? '' : 'None yet.',
  );
}

const NO_TOKEN = 'this page needs the token of the address that the scheduler printed';

async function ask(path) {
  const headers = token === null ? {} : {Authorization: 'Bearer ' + token};
  const answer = await fetch(path, {headers});
  if (answer.status === 401) throw new Error(NO_TOKEN);
  return answer.json();
}

async function refresh() {
  let status, earlier;
  const wanted = told === null || refreshes % HISTORY_EVERY === 0;
  try {
    status = await ask('/api/status');
    if (wanted) earlier = await ask('/api/history');
  } catch (error) {
    return showState(
      byId('state'),
      error.message === NO_TOKEN
        ? NO_TOKEN
        : 'the scheduler does not answer: it has ended, or cannot be reached',
      'warn',
    );
  }
  if (status.phase === undefined) return; // it has just started
  ++refreshes;
  showStatus(status);
  if (earlier?.run) {
    told = earlier;
    heardMs = performance.now();
    showHistory();
  } else if (told !== null) {
    showCheckpoints();
  }
}

// One after the other, however slow the scheduler is.
async function keepRefreshing() {
  await refresh();
  setTimeout(keepRefreshing, REFRESH_MS);
}

keepRefreshing();
