// Demo data for screenshots: a household with a home office.
import { createHmac } from 'node:crypto';
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { program } from '../../tests/harness.js';
import { KEY } from '../../tests/provider.js';

const READINGS = [384, 352, 331, 281, 236, 204, 198, 207, 246, 288, 329, 356];
const CSV = ['month,kwh', ...READINGS.map((kwh, i) => `${i < 1 ? 2025 : 2026}-${String(((i + 11) % 12) + 1).padStart(2, '0')},${kwh}`)].join('\n');

const TARIFFS = `You used **3,412 kWh** in twelve months. At that use, *Grün fix 12* is the cheapest of the three, by €121 a year against what you have now:

| Tariff | Per kWh | Base, a month | A year |
|---|--:|--:|--:|
| **Grün fix 12** | 29.4 ct | €11.90 | **€1,145.93** |
| Flex, by the hour | 27.9 ct on average | €16.50 | €1,149.95 |
| Basis (yours now) | 33.8 ct | €9.50 | €1,267.26 |

*Flex* comes within €4 of it, and wins as soon as the washing machine runs at noon. This is how I computed it:

\`\`\`python
import csv

with open("meter-readings.csv") as file:
    kwh = sum(int(row["kwh"]) for row in csv.DictReader(file))

for name, cents, base in TARIFFS:
    print(f"{name:12} {kwh * cents / 100 + 12 * base:9.2f} €")
\`\`\`

Your notice period ends on 15 December. Shall I write the letter?`;

const LETTER = `# Heating in the study

Dear Mr. Weber,

since Monday the radiator in the study stays cold, while all others are warm. Bleeding it did not help; the valve seems to be stuck.

Could somebody have a look this week? We are at home on Thursday and Friday until 4 pm.

Kind regards
Lena Hoffmann`;

/** Replies of the provider by message; a list has one reply for each round of tools. */
const SCRIPT = [
  [/meter readings of the last/, [{ tool: ['write_file', { path: 'meter-readings.csv', content: CSV }] }, { text: 'Kept in `meter-readings.csv`: twelve months, **3,412 kWh** together.' }], [1840, 96]],
  [/Which electricity tariff/, [{ tool: ['memory_search', { query: 'electricity tariff notice period' }] }, { tool: ['read_file', { path: 'meter-readings.csv' }] }, { text: TARIFFS }], [4210, 612]],
  [/Write to Mr\. Weber/, [{ tool: ['write_file', { path: 'letters/weber-heating.md', content: LETTER }] }, { text: 'The letter is in `letters/weber-heating.md`.' }], [2310, 240]],
  [/Delete the old invoices/, [{ tool: ['shell', { command: 'rm invoices/2015-*.pdf' }] }, { text: 'I left the invoices of 2015 where they are.' }], [1450, 88]],
  [/Put the recipe/, [{ tool: ['write_file', { path: 'recipes/plum-cake.md', content: '# Plum cake\n\n1 kg plums, 300 g flour, 150 g butter' }] }, { text: 'The recipe is in `recipes/plum-cake.md`.' }], [1620, 104]],
  [/birthday/, [{ text: 'Three things are left for Jonas’ birthday on Saturday:\n\n- [x] Invitations: nine sent, eight have said yes\n- [x] Cake ordered at Kramer, to be fetched on Saturday from 9\n- [ ] Present: the telescope is in stock again, €149\n- [ ] Ask Mia’s parents about nuts\n- [ ] Batteries for the lanterns' }], [2120, 176]],
  [/backup.*slow/, [{ text: 'The nightly backup reads every file again, because the share is mounted without stable inode numbers. Tell it to trust size and time instead:\n\n```sh\nrestic backup /srv/photos --ignore-inode --one-file-system\n```\n\nThat brings a night without changes from **3 h 40 min** to about **4 min**.' }], [3880, 410]],
  [/mail from school/, [{ text: '1. **Monday**: parents’ evening, 19:00, room 204\n2. **Wednesday**: swimming is cancelled, normal lessons instead\n3. **By Friday**: €12 for the theatre, in an envelope with the name on it' }], [2650, 150]],
  [/weekend in Dresden/, [{ text: 'Friday 16:32 there, Sunday 17:08 back, both direct and with seats together: **€118** for four with the family card. The hotel near the Zwinger holds two rooms until tonight.' }], [1990, 130]],
  [/Say what is to be done today/, [{ text: 'Good morning. **Three things today:**\n\n- 9:30 call with the tax office, papers are in *taxes/2025*\n- 14:00 dentist, Jonas\n- The notice period of the electricity contract ends in three weeks\n\nIt will rain from noon; the bicycle stays at home.' }], [3120, 205]],
  [/meals/, [{ text: 'Mon lentil soup · Tue pasta with spinach · Wed baked fish · Thu leftovers · Fri pizza · Sat plum cake and coffee · Sun roast vegetables' }], [1480, 120]],
  [/shopping list/, [{ text: '1 kg lentils, 500 g spinach, 4 fillets of cod, 2 kg potatoes, 1 kg plums, yeast, coffee' }], [1210, 80]],
  [/last backup/, [{ text: 'The last backup ended at 02:14, with 1,204 new files (3.1 GB) and no errors.' }], [960, 48]],
  [/tram/, [{ fails: 'This model is at its limit. Try again in an hour.' }]],
  [/REASON:|proposed|INSTRUCTIONS:/, [{ text: 'REASON: Lena repeats words better when she uses them in a sentence of her own.\nINSTRUCTIONS:\nTeach Spanish in ten minutes a day.\n\nBegin with five words of yesterday.\nAsk for a sentence of her own with each word.\nCorrect gently, with one rule at a time.' }]],
  [/.*/, [{ text: 'Muy bien. **La ventana** is right: *Abro la ventana porque hace calor.* Next word: **el puente**.' }], [820, 64]],
];

export function script(asked, round, messages) {
  const whole = JSON.stringify(messages);
  const of = /REASON:/.test(whole) ? 'REASON:' : asked;
  const [, answers, usage] = SCRIPT.find(([pattern]) => pattern.test(of));
  return { usage, ...answers[Math.min(round, answers.length - 1)] };
}

const EPISODES = [
  ['The electricity contract with Basis runs until 31 January; notice is due by 15 December.', 0.82, 3, ['home', 'energy'], 'ada'],
  ['Lena Hoffmann moved her office from Berlin to Leipzig in March.', 0.7, 240, ['work'], 'ada'],
  ['Jonas is allergic to hazelnuts. Walnuts are fine.', 0.95, 120, ['family', 'health'], 'ada'],
  ['Mr. Weber of Hausverwaltung Weber GmbH looks after heating and water in the house.', 0.66, 60, ['home'], 'ada'],
  ['The radiator in the study was bled in October and was warm again.', 0.48, 42, ['home', 'heating'], 'ada'],
  ['Photos are kept on the NAS and backed up every night with restic to Hetzner.', 0.74, 90, ['backup'], 'bruno'],
  ['Bruno uses Python and PostgreSQL for the evaluation of meter readings.', 0.6, 30, ['energy', 'code'], 'bruno'],
  ['The website of the practice runs on GitHub Pages; Lena Hoffmann changes it with Markdown.', 0.58, 75, ['work', 'code'], 'bruno'],
  ['Lena prefers short answers with a table when figures are compared.', 0.88, 14, ['preferences'], 'bruno'],
  ['Lena learns Spanish because the family goes to Valencia in May.', 0.64, 20, ['spanish', 'travel'], 'greta'],
  ['The words el puente and la ventana were mixed up twice.', 0.35, 2, ['spanish'], 'greta'],
  ['The family goes to Dresden by train with the Deutsche Bahn family card.', 0.5, 9, ['travel'], 'ada'],
  ['Jonas wishes for a telescope; Lena Hoffmann has looked at one for 149 euros.', 0.72, 5, ['family'], 'ada'],
  ['The tax return of 2025 is due on 31 July; papers are in taxes/2025.', 0.8, 110, ['taxes'], 'ada'],
  ['Kramer in Leipzig bakes the cake with plums on Saturdays.', 0.4, 6, ['family', 'food'], 'ada'],
  ['The washing machine can start at noon by itself through Home Assistant.', 0.55, 18, ['home', 'energy'], 'bruno'],
  ['Restic runs on the NAS with Docker; PostgreSQL is dumped before.', 0.62, 35, ['backup', 'code'], 'bruno'],
  ['Mia comes on Saturdays; her parents are called Sarah and Tom.', 0.45, 50, ['family'], 'ada'],
];

const listen = (handler) =>
  new Promise((resolve) => {
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk) => (body += chunk));
      request.on('end', () => handler(request, response, body));
    });
    server.listen(0, '127.0.0.1', () => resolve({ url: `http://127.0.0.1:${server.address().port}`, stop: () => (server.close(), server.closeAllConnections()) }));
  });

const SHOP = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Northlight Energy · Tariffs</title><link rel="stylesheet" href="/site.css">
<header><b>Northlight Energy</b><nav><a href="/">Tariffs</a><a href="/help" target="_blank">Help</a></nav></header>
<h1>Electricity that fits your home</h1><p>Prices for your address, without a call.</p>
<form onsubmit="event.preventDefault(); fetch('/api/quote?zip=' + zip.value + '&kwh=' + kwh.value).then((answer) => answer.json()).then(({ tariffs }) => (said.innerHTML = tariffs.map(([name, price]) => '<article><h2>' + name + '</h2><strong>' + price + '</strong><small>a year, all included</small><button type=button>Choose</button></article>').join('')))">
<label>Postcode <input id="zip"></label><label>Use a year (kWh) <input id="kwh"></label><label>People <select id="people"><option>1</option><option>2</option><option>4</option></select></label><button id="compare">Compare</button></form>
<section id="said"><article><h2>Grün fix 12</h2><strong>29.4 ct</strong><small>for each kWh</small></article><article><h2>Flex</h2><strong>27.9 ct</strong><small>on average</small></article><article><h2>Basis</h2><strong>33.8 ct</strong><small>for each kWh</small></article></section><script>document.cookie = 'visit=1'; localStorage.zip = '04109'</script></html>`;
const STYLE = `body { margin: 0 auto; max-width: 960px; padding: 0 32px; font: 16px/1.5 system-ui, sans-serif; color: #12312b; background: #f3f8f5 } header { display: flex; justify-content: space-between; padding: 24px 0; color: #0b6b50 } nav a { margin-left: 24px; color: inherit } h1 { margin: 24px 0 0; font-size: 36px } form { display: flex; gap: 16px; align-items: end; margin: 24px 0; padding: 20px; border-radius: 12px; background: #fff } label { display: grid; gap: 4px; font-size: 14px } input, select, button { font: inherit; padding: 8px 12px; border: 1px solid #9bb8ae; border-radius: 8px } button { background: #0b6b50; color: #fff; border-color: #0b6b50 } section { display: grid; grid-template-columns: repeat(3, 1fr); gap: 16px } article { display: grid; gap: 4px; padding: 20px; border-radius: 12px; background: #fff } h2 { margin: 0; font-size: 18px } strong { font-size: 28px; color: #0b6b50 } small { color: #52706a }`;

/** Starts the surrounding services and fills the daemon. Returns the ids of the records to show. */
export async function fill({ daemon, page, call, provider, folder }) {
  const servers = [];
  const post = (path, body) => call('POST', path, body);
  const put = (path, body) => call('PUT', path, body);

  await put('/api/settings/profile', { display_name: 'Lena', email: 'lena@example.org', timezone: 'Europe/Berlin' });
  for (const [id, model] of [['openai', 'gpt-4.1'], ['mistral', 'mistral-small-2603']]) await put(`/api/providers/${id}/key`, { api_key: KEY, base_url: provider.url, default_model: model });
  await put('/api/settings/agent', { default_provider: 'openai' });
  await post('/api/auth/keys', { name: 'Home Assistant' });
  await post('/api/auth/keys', { name: 'Laptop' });

  // Agents.
  const agent = (svc_name, archetype, profile, more) => post('/api/agents', { svc_name, user_name: 'Lena', archetype, profile, ...more });
  await agent('ada', ['assistant', 'planner'], { instructions: 'Look after the household: appointments, letters, shopping.\n\nAsk before anything leaves the house.\nKeep letters short and friendly.' });
  await agent('bruno', ['developer', 'analyst'], { instructions: 'Answer with a table when figures are compared.\nShow how you computed.', daily_token_limit: 200000 });
  await agent('greta', 'teacher', { provider: 'mistral', model: 'mistral-small-2603', instructions: 'Teach Spanish in ten minutes a day.\n\nBegin with five words of yesterday.\nCorrect gently.' }, { evolution_choice: 'check' });
  await call('PATCH', '/api/agents/ada', { profile: { instructions: 'Look after the household: appointments, letters, shopping and meals.\n\nAsk before anything leaves the house or costs money.\nKeep letters short and friendly.\nSay dates with their weekday.' } });

  // Memory.
  for (const [content, importance, days, topics, agent_id] of EPISODES) await post('/api/memory/episodes', { content, importance, topics, agent_id, occurred_at: new Date(Date.now() - days * 86_400_000).toISOString() });

  // Conversations, in reverse list order.
  const turn = async (agent_id, content, conversation_id, until = /event: (done|error)/) => {
    const response = await fetch(`${daemon.direct}/api/chat/messages/stream`, { method: 'POST', body: JSON.stringify({ content, ...(conversation_id ? { conversation_id } : { agent_id }) }), headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${key}` } });
    let said = '';
    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
      said += piece;
      if (until.test(said)) break;
    }
    return said.match(/"conversation_id":"([^"]+)"/)[1];
  };
  const { key } = await post('/api/auth/keys', { name: 'Terminal' });
  const asks = async (agent_id, title, content) => {
    const { id } = await post('/api/chat/conversations', { agent_id, title, execution_mode: 'approval_required' });
    await turn(agent_id, content, id, /event: approval_request/);
    return id;
  };
  const answer = async (decision, reason) => {
    const { approvals } = await call('GET', '/api/chat/approvals?status=pending');
    for (const { id } of approvals.filter(({ kind }) => kind !== 'evolution')) await post(`/api/chat/approvals/${id}`, { decision, reason });
  };
  const spanish = await turn('greta', 'Hola! Ten minutes of Spanish, please.');
  for (const word of ['la mesa', 'la ventana', 'el puente', 'la calle', 'el viaje', 'la playa', 'el pan', 'la cuenta', 'el tren', 'la tarde', 'el mercado', 'la llave', 'el billete', 'la comida', 'el barrio', 'la salida', 'el pueblo', 'la noche', 'el regalo']) await turn('greta', `I would say: ${word}`, spanish);
  await put(`/api/chat/conversations/${spanish}`, { title: 'Spanish, ten minutes a day' });
  const named = async (agent_id, title, content) => {
    const id = await turn(agent_id, content);
    await put(`/api/chat/conversations/${id}`, { title });
    return id;
  };
  await named('ada', 'A weekend in Dresden', 'Find trains and a hotel for a weekend in Dresden, two adults and two children.');
  await asks('ada', 'Plum cake', 'Put the recipe for plum cake into my recipes.');
  await answer('approve');
  await named('bruno', 'Why is the backup slow?', 'The nightly backup is so slow. Why?');
  await named('ada', 'Mail from school', 'What was in the mail from school this week?');
  await asks('bruno', 'Old invoices', 'Delete the old invoices of 2015.');
  await answer('reject', 'Keep them until the tax office has answered.');
  await named('ada', 'Birthday of Jonas', 'What is left to do for the birthday of Jonas?');
  const waiting = await asks('ada', 'The cold radiator', 'Write to Mr. Weber that the radiator in the study stays cold.');
  const tariffs = await turn('bruno', 'Here are the meter readings of the last twelve months: 384, 352, 331, 281, 236, 204, 198, 207, 246, 288, 329 and 356 kWh. Keep them in a file.');
  await turn('bruno', 'Which electricity tariff is the cheapest for us? Grün fix 12, Flex, or do we stay?', tariffs);
  await put(`/api/chat/conversations/${tariffs}`, { title: 'Electricity tariffs compared' });
  const { id: house } = await post('/api/projects', { name: 'House', description: 'Everything about the flat' });
  await post('/api/projects', { name: 'Practice', description: 'Lena’s work' });
  for (const id of [tariffs, waiting]) await put(`/api/chat/conversations/${id}`, { project_id: house });

  // The scheduler.
  const cron = (expression) => ({ type: 'cron', expression, timezone: 'Europe/Berlin' });
  const job = (name, goal, agent_id, schedule, more) => post('/api/scheduler/jobs', { name, goal, agent_id, schedule, ...more });
  const briefing = await job('Morning briefing', 'Say what is to be done today.', 'ada', cron('0 7 * * 1-5'));
  const meals = await job('Meals of the week', 'Plan the meals of the week.', 'ada', cron('0 10 * * 6'));
  const list = await job('Shopping list', 'Make the shopping list from the plan.', 'ada', cron('30 10 * * 6'));
  const backup = await job('Check the backup', 'Look whether the last backup went well.', 'bruno', { type: 'every', interval: 21600 });
  const tram = await job('Changes of the tram', 'Look whether the tram runs.', 'ada', cron('30 6 * * 1-5'), { retry: { max_attempts: 1, strategy: 'none', base_delay: 60 } });
  await job('Meter reading', 'Remind me to read the meter.', 'ada', cron('0 18 1 * *'));
  await job('Words of the day', 'Send five words of yesterday.', 'greta', cron('15 12 * * *'), { status: 'paused' });
  await job('Renew the passports', 'Remind me to renew the passports.', 'ada', { type: 'at', datetime: new Date(Date.now() + 40 * 86_400_000).toISOString() });
  const ended = async (path, count = 1) => {
    for (const end = Date.now() + 60_000; Date.now() < end; ) {
      const { runs } = await call('GET', path);
      if (runs.filter(({ status }) => !['pending', 'queued', 'running', 'waiting'].includes(status)).length >= count) return;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    throw new Error(`${path}: no run ended within a minute`);
  };
  for (const { id } of [tram, backup, briefing]) {
    await post(`/api/scheduler/jobs/${id}/trigger`);
    await ended(`/api/scheduler/jobs/${id}/runs`);
  }
  const chain = await post('/api/scheduler/chains', { name: 'Saturday', jobs: [meals.id, list.id, backup.id], edges: [{ from: meals.id, to: list.id, type: 'on_success' }, { from: meals.id, to: backup.id, type: 'on_complete' }] });
  await post(`/api/scheduler/chains/${chain.id}/trigger`);
  await ended(`/api/scheduler/chains/${chain.id}/runs`);

  // Hooks, webhooks and their receiver.
  const taker = await listen((request, response) => response.writeHead(request.url.startsWith('/tickets') ? 500 : 204).end());
  servers.push(taker);
  const assistant = await post('/api/hooks', { name: 'Light in the hall when a reply is done', event_type: 'task.completed', hook_type: 'http', config: { url: `${taker.url}/api/webhook/hall` }, tags: ['home'] });
  const tickets = await post('/api/hooks', { name: 'Ticket for a failed task', event_type: 'task.failed', hook_type: 'http', config: { url: `${taker.url}/tickets`, queued: true }, max_retries: 1, tags: ['work'] });
  await post('/api/hooks', { name: 'Count what is remembered', event_type: 'memory.stored', hook_type: 'python', source_code: "result = {'importance': event['data']['importance']}" });
  await post('/api/hooks/bundled/message-failed-memory/install', {});
  for (let i = 0; i < 6; i += 1) await post(`/api/hooks/${assistant.id}/test-delivery`);
  for (let i = 0; i < 2; i += 1) await post(`/api/hooks/${tickets.id}/test-delivery`);
  for (const [name, body] of [['Paperless', { document: 'invoice-2026-118.pdf', correspondent: 'Stadtwerke', amount: '84.20' }], ['GitHub', { action: 'opened', issue: { title: 'The contact form is empty', number: 41 } }]]) {
    const webhook = await post('/api/webhooks', { name, secret: 'a secret of at least thirty-two characters' });
    const text = JSON.stringify(body);
    const signature = createHmac('sha256', 'a secret of at least thirty-two characters').update(text).digest('hex');
    for (let i = 0; i < 3; i += 1) await fetch(`${daemon.direct}/api/webhooks/${webhook.id}/receive`, { method: 'POST', body: text, headers: { 'Content-Type': 'application/json', 'X-Svc-Signature': `sha256=${signature}` } });
  }

  // Channels.
  const telegram = await listen((request, response) => {
    const method = request.url.split('/').at(-1);
    const answers = { getMe: { id: 77, is_bot: true, first_name: 'Ada', username: 'hoffmann_ada_bot' }, getWebhookInfo: { url: '', pending_update_count: 0 }, sendMessage: { message_id: 5, date: 1, chat: { id: 1, type: 'private' } } };
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ ok: true, result: answers[method] ?? true }));
  });
  servers.push(telegram);
  const secret = '4f1d'.repeat(12);
  await put('/api/channels/settings', { telegram: { api_base_url: telegram.url } });
  await put('/api/channels/settings', { telegram: { enabled: true, mode: 'webhook', bot_token: '4711:a-token-of-a-bot', secret_token: secret, agent_id: 'ada' } });
  let update = 0;
  const writes = (id, first_name, text) => {
    update += 1;
    return fetch(`${daemon.direct}/api/channels/telegram/webhook`, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Telegram-Bot-Api-Secret-Token': secret }, body: JSON.stringify({ update_id: update, message: { message_id: update, date: Math.floor(Date.now() / 1000), chat: { id, type: 'private' }, from: { id, is_bot: false, first_name }, text } }) });
  };
  await writes(101, 'Jonas', 'hello');
  const pairings = async (count) => {
    for (const end = Date.now() + 20_000; Date.now() < end; ) {
      const found = (await call('GET', '/api/channels/pairings')).pairings;
      if (found.length >= count) return found;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error('nobody asked to be let in');
  };
  const [{ code }] = await pairings(1);
  await post(`/api/channels/telegram/pairings/${code}/approve`);
  await writes(102, 'Sarah Keller', 'hello');
  await writes(103, 'Opa Heinz', 'hello');
  await pairings(2);

  // Devices.
  const join = async (name) => {
    const { code } = await post('/api/auth/device/code');
    return spawn(program, ['device', 'join', daemon.direct, code, '--name', name, '--allow-shell', '--no-sandbox', '--state', `${folder}/${name}`], { stdio: 'ignore' });
  };
  const device = await join('workshop');
  process.on('exit', () => device.kill('SIGKILL'));
  for (const end = Date.now() + 20_000; (await call('GET', '/api/devices')).total < 1; await new Promise((resolve) => setTimeout(resolve, 100))) if (Date.now() > end) throw new Error('the device did not join');
  await post('/api/auth/device/pair', { code: (await post('/api/auth/device/code')).code, name: 'Kitchen tablet', platform: 'Android 16', metadata: { model: 'Tab A11' } });

  // Prices, alerts and tools.
  const alert = (name, condition, threshold, severity, more) => post('/api/monitoring/alerts', { name, condition, threshold, severity, ...more });
  await alert('A job fails', 'consecutive_failed_runs >= threshold', 1, 'critical');
  await alert('The disk is almost full', 'disk_percent >= threshold', 95, 'warning', { for_minutes: 10 });
  await alert('More than five dollars a day', 'cost > threshold', 5, 'warning', { period_minutes: 1440 });
  await alert('Replies are slow', 'latency_p95_ms > threshold', 30000, 'info', { for_minutes: 5 });
  await post('/api/settings/skills/custom', { name: 'tram_departures', description: 'Says when the next trams leave at a stop.', kind: 'http', request: { method: 'GET', url: 'https://transit.example.org/departures' } });

  // The browser.
  const site = await listen((request, response, body) => {
    const path = new URL(request.url, 'http://site').pathname;
    const send = (type, text, status = 200) => response.writeHead(status, { 'Content-Type': type }).end(text);
    if (path === '/') send('text/html; charset=utf-8', SHOP);
    else if (path === '/site.css') send('text/css', STYLE);
    else if (path === '/help') send('text/html', '<!doctype html><title>Help · Northlight Energy</title><h1>Help</h1>');
    else if (path === '/api/quote') send('application/json', JSON.stringify({ tariffs: [['Grün fix 12', '€1,145.93'], ['Flex', '€1,149.95'], ['Basis', '€1,267.26']] }));
    else send('text/plain', 'no', 404);
  });
  servers.push(site);
  await put('/api/browser/config', { ssrf_allowlist: ['127.0.0.1'], stream_fps: 2 });
  const act = (action, fields) => post('/api/browser/action', { action, ...fields });
  await act('goto', { url: `${site.url}/help` });
  await post('/api/browser/recording/start', { name: 'Compare tariffs' });
  await act('goto', { url: `${site.url}/` });
  await act('type_text', { selector: '#zip', text: '04109' });
  await act('type_text', { selector: '#kwh', text: '3412' });
  await act('select_option', { selector: '#people', label: '4' });
  await act('click', { selector: '#compare' });
  await post('/api/browser/recording/stop');
  await post('/api/browser/auth-states', { name: 'northlight-energy' });
  const { recordings } = await call('GET', '/api/browser/recordings');

  for (const end = Date.now() + 30_000; ; ) {
    const { alerts } = await call('GET', '/api/monitoring/alerts');
    if (alerts.some(({ status, state }) => /firing/.test(status ?? state))) break;
    if (Date.now() > end) throw new Error('no alert fired within 30 seconds');
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  return {
    tariffs,
    waiting,
    job: briefing.id,
    hook: assistant.id,
    recording: recordings[0].recording_id,
    end() {
      device.kill('SIGKILL');
      servers.forEach(({ stop }) => stop());
    },
  };
}
