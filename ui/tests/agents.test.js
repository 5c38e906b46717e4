// Agents and their memory.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { axe, begin, codeIn, checkViews, checkTabOrder } from './harness.js';

const INSTRUCTIONS = 'You are careful.\n\nAnswer in at most ten sentences.\nName your sources.';
const PROPOSED = INSTRUCTIONS.replace('ten', 'five');
const HOSTILE = '<img src="http://evil.test/a.png" onerror="window.harmed=1"> [link](javascript:window.harmed=2) photo\u202egnp.exe';
/** Number of turns after which an agent reviews its instructions. */
const TURNS = 20;

let provider;
let it;
let call, dialog, page, row, show;
let expert;

const ENTITIES = {
  entities: [{ name: 'Rust', type: 'language' }, { name: 'PostgreSQL', type: 'tool' }, { name: 'Ada', type: 'person' }],
  relations: [{ source: 'Ada', target: 'Rust', type: 'uses' }, { source: 'Rust', target: 'PostgreSQL', type: 'uses' }],
};

/** Starts a provider that replies to any message, proposes instructions when asked for them, and extracts entities. */
async function startVendor() {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      const content = /REASON:/.test(body)
        ? `REASON: Short answers are liked.\nINSTRUCTIONS:\n${PROPOSED}`
        : /You find entities/.test(body) ? JSON.stringify(ENTITIES) : 'Noted.';
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

test('creating an agent from roles rejects a duplicate name', async () => {
  await show('/agents');
  await page.getByRole('button', { name: 'New agent' }).click();
  await dialog().getByLabel('Name', { exact: true }).fill('Ada');
  await dialog().getByRole('button', { name: 'Create agent' }).click();
  await dialog().getByText('An agent with this name already exists.').waitFor();
  await dialog().getByLabel('Name', { exact: true }).fill('expert');
  await dialog().getByText('Teacher').click();
  await dialog().getByText('Coach').click();
  assert.ok(await dialog().getByRole('checkbox', { name: 'Writer' }).isDisabled(), 'a fourth role can be selected');
  await dialog().getByRole('textbox', { name: 'Instructions' }).fill(INSTRUCTIONS);
  await dialog().getByRole('button', { name: 'Create agent' }).click();
  await page.getByRole('heading', { level: 1, name: 'expert' }).waitFor();
  expert = await call('GET', '/api/agents/expert');
  assert.deepEqual([expert.archetype, expert.profile.instructions], [['assistant', 'coach', 'teacher'], INSTRUCTIONS]);
});

test('profile changes are saved, and leaving with unsaved changes asks first', async () => {
  await show('/agents/expert');
  await page.getByLabel('Daily token limit').fill('5000');
  await page.getByRole('link', { name: 'Usage' }).click();
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  assert.ok(page.url().endsWith('/agents/expert'), page.url());
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved', { exact: true }).waitFor();
  assert.equal((await call('GET', '/api/agents/expert')).profile.daily_token_limit, 5000);
  await page.getByLabel('Daily token limit').fill('');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Save' }).waitFor({ state: 'detached' });
  assert.equal((await call('GET', '/api/agents/expert')).profile.daily_token_limit ?? null, null);
});

test('instruction versions show differences and can be restored', async () => {
  await show('/agents/expert/instructions');
  const text = page.getByRole('textbox', { name: 'Instructions' });
  await text.fill(`${INSTRUCTIONS}\nBe kind.`);
  await page.getByText('1 line added').waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: /Version 2/ }).click();
  await page.locator('#version-2 ins').getByText('Be kind.').waitFor();
  await page.getByRole('button', { name: 'Restore' }).click();
  await dialog().getByRole('button', { name: 'Restore' }).click();
  await page.getByRole('button', { name: /Version 3.*Current.*Restored/ }).waitFor();
  assert.equal(await codeIn(text), INSTRUCTIONS);
});

test('instructions changed elsewhere are overwritten only after confirmation', async () => {
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

test('a proposed change shows its differences and can be accepted', async () => {
  for (let i = 0; i < TURNS; i += 1) await call('POST', '/api/chat/messages/stream', { content: `${i}. Shorter, please.`, agent_id: 'expert' });
  await show('/agents');
  // The proposal comes from a background model call.
  await row('expert').getByText('1 proposal').waitFor({ timeout: 60_000 });
  await row('expert').getByRole('link').click();
  await page.getByRole('link', { name: /Instructions/ }).click();
  const proposal = page.getByRole('region', { name: 'Proposed change' });
  await proposal.getByText('Short answers are liked.').waitFor();
  assert.equal(await proposal.locator('del').textContent(), 'Removed: Answer in at most ten sentences.');
  assert.equal(await proposal.locator('ins').textContent(), 'Added: Answer in at most five sentences.');
  assert.deepEqual(await axe(page), []);
  await proposal.getByRole('button', { name: 'Accept' }).click();
  await page.getByRole('button', { name: /Version \d+.*Current.*By the agent/ }).waitFor();
  assert.equal(await codeIn(page.getByRole('textbox', { name: 'Instructions' })), PROPOSED);
});

test('tools can be selected individually', async () => {
  await show('/agents/expert/tools');
  await page.getByText('Selected tools').click();
  await page.getByRole('button', { name: 'Deselect all shown' }).click();
  await page.getByText('No tools selected. The agent can’t use any tools.').waitFor();
  await page.getByRole('checkbox', { name: /^read_file/ }).check();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Save' }).waitFor({ state: 'detached' });
  assert.deepEqual((await call('GET', '/api/agents/expert')).profile.tools, ['read_file']);
});

test('usage marks an unknown cost', async () => {
  await show('/agents/expert/usage');
  const cost = page.locator('dl > div').filter({ hasText: 'Cost' });
  await cost.waitFor();
  assert.match(await cost.innerText(), /Unknown/);
  await page.getByText(/Excludes \d+ calls? with unknown price/).waitFor();
});

test('an episode is added, found by keywords, edited and deleted, and its markup is not interpreted', async () => {
  await show('/memory');
  await page.getByRole('button', { name: 'Add episode' }).first().click();
  await dialog().getByLabel('Content').fill(`Zebras live in Berlin. ${HOSTILE}`);
  await dialog().getByLabel('Topics').fill('zoo, animals, zoo');
  await dialog().getByLabel('Agent').selectOption('expert');
  await dialog().getByRole('button', { name: 'Add' }).click();
  await page.getByText('Episode added.').waitFor();
  await row('Zebras live').waitFor();
  assert.equal(await page.getByText('New episodes available.').count(), 0);
  await page.locator('main h1').focus();
  await page.keyboard.press('/');
  await page.keyboard.type('zebra onerror');
  const found = row('Zebras live');
  await found.locator('mark').getByText('onerror').waitFor();
  assert.match(await found.innerText(), /<img src="http:\/\/evil.test\/a.png" onerror="window.harmed=1"> \[link\]\(javascript:window.harmed=2\) photo\\u\{202e\}gnp.exe/);
  assert.match(await found.innerText(), /keywords: Zebras?, onerror/i);
  assert.deepEqual(await axe(page), []);
  await found.getByRole('button').focus();
  await page.keyboard.press('Enter');
  await dialog().getByText('animals').waitFor();
  assert.deepEqual(await axe(page), []);
  await dialog().getByRole('button', { name: 'Edit' }).click();
  assert.equal(await dialog().getByLabel('Agent').inputValue(), 'expert');
  await dialog().getByLabel('Content').fill('Zebras live in Hamburg.');
  await dialog().getByRole('button', { name: 'Save' }).click();
  await dialog().getByText('Zebras live in Hamburg.').waitFor();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await page.getByText('Episode deleted.').waitFor();
  const remaining = await call('GET', '/api/memory/search?q=zebra&mode=keyword');
  assert.equal(remaining.total, 0);
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('a new episode is announced', async () => {
  await show('/memory');
  await call('POST', '/api/memory/episodes', { content: 'Ada uses Rust and PostgreSQL in Berlin.', agent_id: 'ada' });
  await page.getByText('New episodes available.').waitFor();
  await page.getByRole('button', { name: 'Refresh', exact: true }).click();
  await row('Ada uses Rust').waitFor();
});

test('search without an embedding model uses keywords, and semantic search reports what is missing', async () => {
  await show('/memory?q=rust');
  await page.getByText(/Keyword results only/).waitFor();
  await page.getByLabel('Search by').selectOption('semantic');
  await page.getByRole('alert').waitFor();
});

test('the graph without an embedding model explains why it is empty', async () => {
  await show('/memory/graph');
  await page.getByText(/Entity extraction is unavailable: .*`entity_extraction` to `llm`/).waitFor();
});

test('the graph is available as a list', async () => {
  await call('PUT', '/api/settings/memory', { entity_extraction: 'llm' });
  for (const end = Date.now() + 30_000; (await call('GET', '/api/memory/stats')).total_entities < 3; await page.waitForTimeout(100)) {
    assert.ok(Date.now() < end, 'no entities were extracted');
  }
  await show('/memory/graph');
  await page.locator('canvas').first().waitFor();
  await page.getByRole('tab', { name: 'List' }).click();
  await page.getByRole('button', { name: /Rust.*Language/s }).click();
  await page.getByRole('list', { name: 'Relations of Rust' }).getByRole('button', { name: 'PostgreSQL' }).click();
  await page.getByRole('list', { name: 'Relations of PostgreSQL' }).waitFor();
  await page.getByRole('tab', { name: 'Graph' }).click();
  await page.getByRole('heading', { name: 'PostgreSQL' }).waitFor();
});

test('a memory task reports its result, and memory is exported', async () => {
  await show('/memory/overview');
  await page.getByRole('button', { name: 'Run: Consolidate conversations' }).click();
  await page.getByText(/^Consolidate conversations: /).waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export' }).click()]);
  assert.equal(download.suggestedFilename(), 'agentd-memory.json');
});

const VIEWS = ['/agents', '/agents?new=1', '/agents/expert', '/agents/expert/instructions', '/agents/expert/tools', '/agents/expert/usage', '/agents/nobody', '/memory', '/memory?q=rust', '/memory/clusters', '/memory/graph', '/memory/graph?shape=list', '/memory/overview'];

test('agents and memory conform to WCAG 2.2 AA without overflow', async () => assert.deepEqual(await checkViews(it, VIEWS), []));
test('agents and memory are reachable by Tab', async () => assert.deepEqual(await checkTabOrder(it, VIEWS), []));

test('an agent is deleted only after confirmation', async () => {
  await show('/agents/expert');
  await page.getByRole('button', { name: 'Actions for expert' }).click();
  await page.getByRole('menuitem', { name: 'Delete agent' }).click();
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  await call('GET', '/api/agents/expert');
  await page.getByRole('button', { name: 'Actions for expert' }).click();
  await page.getByRole('menuitem', { name: 'Delete agent' }).click();
  await dialog().getByRole('button', { name: 'Delete agent' }).click();
  await page.getByText('expert deleted.').waitFor();
  assert.equal(await row('expert').count(), 0);
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual(it.strays, []);
  assert.deepEqual(it.problems, []);
});
