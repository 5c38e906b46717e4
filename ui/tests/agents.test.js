// Agents and their memory, as a person uses them.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { axe, begin, codeIn, lookAt, walkThrough } from './harness.js';

const INSTRUCTIONS = 'You are careful.\n\nAnswer in at most ten sentences.\nName your sources.';
const PROPOSED = INSTRUCTIONS.replace('ten', 'five');
const HOSTILE = '<img src="http://evil.test/a.png" onerror="window.harmed=1"> [link](javascript:window.harmed=2) photo\u202egnp.exe';
/** Turns after which an agent looks back. */
const TURNS = 20;

let provider;
let it;
let call, dialog, page, row, show;
let expert;

/** A vendor that answers anything, and proposes other instructions when it is asked what it learned. */
async function startVendor() {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      const content = /REASON:/.test(body) ? `REASON: Short answers are liked.\nINSTRUCTIONS:\n${PROPOSED}` : 'Noted.';
      const send = (data) => response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'fake-model', ...data })}\n\n`);
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      send({ choices: [{ index: 0, delta: { role: 'assistant', content }, finish_reason: null }] });
      send({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
      send({ choices: [], usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 } });
      response.end('data: [DONE]\n\n');
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, stop: () => server.close() };
}

before(async () => {
  [provider, it] = await Promise.all([startVendor(), begin()]);
  ({ call, dialog, page, row, show } = it);
  await call('PUT', '/api/providers/openai/key', { api_key: 'any', base_url: provider.url, default_model: 'fake-model' });
  await call('PUT', '/api/settings/agent', { default_provider: 'openai' });
});

after(async () => {
  await it?.end();
  provider?.stop();
});

test('an agent is made from roles, and a name that is taken is said so', async () => {
  await show('/agents');
  await page.getByRole('button', { name: 'New agent' }).click();
  await dialog().getByLabel('Name', { exact: true }).fill('Ada');
  await dialog().getByRole('button', { name: 'Create agent' }).click();
  await dialog().getByText('There is an agent of that name.').waitFor();
  await dialog().getByLabel('Name', { exact: true }).fill('expert');
  await dialog().getByText('Teacher').click();
  await dialog().getByText('Coach').click();
  assert.ok(await dialog().getByRole('checkbox', { name: 'Writer' }).isDisabled(), 'a fourth role');
  await dialog().getByLabel('Instructions').fill(INSTRUCTIONS);
  await dialog().getByRole('button', { name: 'Create agent' }).click();
  await page.getByRole('heading', { level: 1, name: 'expert' }).waitFor();
  expert = await call('GET', '/api/agents/expert');
  assert.deepEqual([expert.archetype, expert.profile.instructions], [['assistant', 'coach', 'teacher'], INSTRUCTIONS]);
});

test('a profile is changed, and what is not saved is not lost without a question', async () => {
  await show('/agents/expert');
  await page.getByLabel('Tokens a day').fill('5000');
  await page.getByRole('link', { name: 'Usage' }).click();
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  assert.ok(page.url().endsWith('/agents/expert'), page.url());
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved', { exact: true }).waitFor();
  assert.equal((await call('GET', '/api/agents/expert')).profile.daily_token_limit, 5000);
  await page.getByLabel('Tokens a day').fill('');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Save' }).waitFor({ state: 'detached' });
  assert.equal((await call('GET', '/api/agents/expert')).profile.daily_token_limit ?? null, null);
});

test('instructions have versions with differences, and an earlier one is restored', async () => {
  await show('/agents/expert/instructions');
  const text = page.getByRole('textbox', { name: 'Instructions' });
  await text.fill(`${INSTRUCTIONS}\nBe kind.`);
  await page.getByText('1 line added').waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: /Version 2/ }).click();
  await page.locator('#version-2 ins').getByText('Be kind.').waitFor();
  await page.getByRole('button', { name: 'Restore' }).click();
  await dialog().getByRole('button', { name: 'Restore' }).click();
  await page.getByRole('button', { name: /Version 3.*in force.*restored/ }).waitFor();
  assert.equal(await codeIn(text), INSTRUCTIONS);
});

test('instructions that changed meanwhile are overwritten only after a question', async () => {
  const instructions = async () => (await call('GET', '/api/agents/expert')).profile.instructions;
  const kept = await instructions();
  await show('/agents/expert/instructions');
  const field = page.getByRole('textbox', { name: 'Instructions' });
  await field.fill('Mine.');
  await call('PATCH', '/api/agents/expert', { profile: { instructions: 'Changed elsewhere.' } });
  await page.getByRole('button', { name: 'Save' }).click();
  const question = page.getByRole('dialog', { name: 'Overwrite the newer instructions?' });
  await question.getByRole('button', { name: 'Cancel' }).click();
  await page.getByText('These instructions were changed elsewhere while you were editing.').waitFor();
  assert.equal(await codeIn(field), 'Mine.');
  assert.equal(await instructions(), 'Changed elsewhere.');
  await page.getByRole('button', { name: 'Save' }).click();
  await question.getByRole('button', { name: 'Overwrite' }).click();
  await page.getByText('Saved').waitFor();
  assert.equal(await instructions(), 'Mine.');
  await call('PATCH', '/api/agents/expert', { profile: { instructions: kept } });
});

test('a change that the agent proposes is shown as a difference and accepted', async () => {
  for (let i = 0; i < TURNS; i += 1) await call('POST', '/api/chat/messages/stream', { content: `${i}. Shorter, please.`, agent_id: 'expert' });
  await show('/agents');
  // Its model is asked aside, when nobody else waits for it.
  await row('expert').getByText('1 proposal').waitFor({ timeout: 60_000 });
  await row('expert').getByRole('link').click();
  await page.getByRole('link', { name: /Instructions/ }).click();
  const proposal = page.getByRole('region', { name: 'Proposed change' });
  await proposal.getByText('Short answers are liked.').waitFor();
  assert.equal(await proposal.locator('del').textContent(), 'Removed: Answer in at most ten sentences.');
  assert.equal(await proposal.locator('ins').textContent(), 'Added: Answer in at most five sentences.');
  assert.deepEqual(await axe(page), []);
  await proposal.getByRole('button', { name: 'Accept' }).click();
  await page.getByRole('button', { name: /Version \d+.*in force.*by itself/ }).waitFor();
  assert.equal(await codeIn(page.getByRole('textbox', { name: 'Instructions' })), PROPOSED);
});

test('tools are chosen one by one', async () => {
  await show('/agents/expert/tools');
  await page.getByText('Only these').click();
  await page.getByRole('button', { name: 'Clear all shown' }).click();
  await page.getByText('It will have no tools at all.').waitFor();
  await page.getByRole('checkbox', { name: /^read_file/ }).check();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Save' }).waitFor({ state: 'detached' });
  assert.deepEqual((await call('GET', '/api/agents/expert')).profile.tools, ['read_file']);
});

test('usage says what is not known', async () => {
  await show('/agents/expert/usage');
  const cost = page.locator('dl > div').filter({ hasText: 'Cost' });
  await cost.waitFor();
  assert.match(await cost.innerText(), /unknown/);
  await page.getByText(/calls? whose price is not known/).waitFor();
});

test('an episode is written down, found by its words, changed and forgotten, and stays text', async () => {
  await show('/memory');
  await page.getByRole('button', { name: 'Remember something' }).first().click();
  await dialog().getByLabel('What is remembered').fill(`Zebras live in Berlin. ${HOSTILE}`);
  await dialog().getByLabel('Topics').fill('zoo, animals, zoo');
  await dialog().getByLabel('Agent').selectOption('expert');
  await dialog().getByRole('button', { name: 'Remember' }).click();
  await page.getByText('Remembered.').waitFor();
  await row('Zebras live').waitFor();
  assert.equal(await page.getByText('There is more by now.').count(), 0);
  await page.locator('main h1').focus();
  await page.keyboard.press('/');
  await page.keyboard.type('zebra onerror');
  const found = row('Zebras live');
  await found.locator('mark').getByText('onerror').waitFor();
  assert.match(await found.innerText(), /<img src="http:\/\/evil.test\/a.png" onerror="window.harmed=1"> \[link\]\(javascript:window.harmed=2\) photo\\u\{202e\}gnp.exe/);
  assert.match(await found.innerText(), /words: Zebras?, onerror/i);
  assert.deepEqual(await axe(page), []);
  await found.getByRole('button').focus();
  await page.keyboard.press('Enter');
  await dialog().getByText('animals').waitFor();
  assert.deepEqual(await axe(page), []);
  await dialog().getByRole('button', { name: 'Edit' }).click();
  assert.equal(await dialog().getByLabel('Agent').inputValue(), 'expert');
  await dialog().getByLabel('What is remembered').fill('Zebras live in Hamburg.');
  await dialog().getByRole('button', { name: 'Save' }).click();
  await dialog().getByText('Zebras live in Hamburg.').waitFor();
  await dialog().getByRole('button', { name: 'Forget' }).click();
  await dialog().getByRole('button', { name: 'Forget' }).click();
  await page.getByText('Forgotten.').waitFor();
  const left = await call('GET', '/api/memory/search?q=zebra&mode=keyword');
  assert.equal(left.total, 0);
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('what comes into memory meanwhile is said', async () => {
  await show('/memory');
  await call('POST', '/api/memory/episodes', { content: 'Ada uses Rust and PostgreSQL in Berlin.', agent_id: 'ada' });
  await page.getByText('There is more by now.').waitFor();
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await row('Ada uses Rust').waitFor();
});

test('without an embedding model a search says that it went by words, and one by meaning how to get one', async () => {
  await show('/memory?q=rust');
  await page.getByText(/Found by words only/).waitFor();
  await page.getByLabel('Find by').selectOption('semantic');
  await page.getByRole('alert').waitFor();
});

test('the list of the graph says what its drawing says', async () => {
  await show('/memory/graph');
  await page.locator('canvas').first().waitFor();
  await page.getByRole('tab', { name: 'List' }).click();
  await page.getByRole('button', { name: /Rust.*Language/s }).click();
  await page.getByRole('list', { name: 'Relations of Rust' }).getByRole('button', { name: 'PostgreSQL' }).click();
  await page.getByRole('list', { name: 'Relations of PostgreSQL' }).waitFor();
  await page.getByRole('tab', { name: 'Drawing' }).click();
  await page.getByRole('heading', { name: 'PostgreSQL' }).waitFor();
});

test('a job is run and says what came of it, and memory is exported', async () => {
  await show('/memory/overview');
  await page.getByRole('button', { name: 'Run: Consolidate conversations' }).click();
  await page.getByText(/^Consolidate conversations: /).waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export' }).click()]);
  assert.equal(download.suggestedFilename(), 'agentd-memory.json');
});

const VIEWS = ['/agents', '/agents?new=1', '/agents/expert', '/agents/expert/instructions', '/agents/expert/tools', '/agents/expert/usage', '/agents/nobody', '/memory', '/memory?q=rust', '/memory/clusters', '/memory/graph', '/memory/graph?shape=list', '/memory/overview'];

test('agents and memory keep to WCAG 2.2 AA and fit', async () => assert.deepEqual(await lookAt(it, VIEWS), []));
test('agents and memory can be walked through by Tab', async () => assert.deepEqual(await walkThrough(it, VIEWS), []));

test('an agent is deleted only after a question', async () => {
  await show('/agents/expert');
  await page.getByRole('button', { name: 'Actions for expert' }).click();
  await page.getByRole('menuitem', { name: 'Delete agent' }).click();
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  await call('GET', '/api/agents/expert');
  await page.getByRole('button', { name: 'Actions for expert' }).click();
  await page.getByRole('menuitem', { name: 'Delete agent' }).click();
  await dialog().getByRole('button', { name: 'Delete agent' }).click();
  await page.getByText('expert is deleted.').waitFor();
  assert.equal(await row('expert').count(), 0);
});

test('nothing left the daemon, and no script failed', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
