import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { axe, DESKTOP, openPage, PHONE, startBrowser, startDaemon, walk } from './harness.js';
import { KEY, startProvider } from './provider.js';

let daemon;
let provider;
let browser;
let opened;
let page;

before(async () => {
  [daemon, provider, browser] = await Promise.all([startDaemon(), startProvider(), startBrowser()]);
  opened = await openPage(browser, daemon.url);
  page = opened.page;
});

after(async () => {
  await browser?.close();
  await daemon?.stop();
  provider?.stop();
});

// Everything stands on what was set up first: where that failed, the rest would only wait.
let isSetUp = false;
beforeEach((t) => {
  if (!isSetUp && !t.name.startsWith('the first run')) throw new Error('the first run failed');
});
// What a failed test left behind must not disturb the next one. AGENTD_TEST_PICTURES is a folder for what was seen last.
afterEach(async (t) => {
  if (process.env.AGENTD_TEST_PICTURES) await page.screenshot({ path: `${process.env.AGENTD_TEST_PICTURES}/${t.name.replace(/\W+/g, '-')}.png` });
  provider.release();
  await page.setViewportSize(DESKTOP);
  await page.emulateMedia({ colorScheme: 'light' });
});

const composer = () => page.getByRole('textbox', { name: /^Message to/ });
const replies = () => page.locator('main article').filter({ has: page.locator('.markdown, [role=alert]') });

async function say(text) {
  await composer().fill(text);
  await composer().press('Enter');
}

/** Waits until the last reply is whole: only then can it be answered anew. */
async function settled() {
  await page.getByRole('button', { name: 'Answer anew' }).and(page.locator(':enabled')).waitFor();
}

async function newConversation() {
  await page.goto(`${daemon.url}/chat`);
  await composer().waitFor();
}

test('the first run leads to an answer in six clicks, and keeps no key that does not work', async () => {
  let clicks = 0;
  const click = async (locator) => {
    clicks += 1;
    await locator.click();
  };
  await page.goto(daemon.url);
  await page.getByRole('heading', { name: 'Welcome to agentd' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill('correct horse battery');
  await click(page.getByRole('button', { name: 'Create account' }));

  await click(page.getByRole('radio', { name: /Another provider/ }));
  await page.getByLabel('Provider', { exact: true }).selectOption('openai');
  await page.getByLabel('Key', { exact: true }).fill('a-wrong-key');
  await click(page.getByText('Other address').first());
  await page.getByRole('textbox', { name: 'Other address' }).fill(provider.url);
  await page.getByRole('button', { name: 'Try the key and continue' }).click();
  await page.getByRole('alert').waitFor();
  assert.deepEqual(await axe(page), []);
  const kept = await page.evaluate(async () => (await (await fetch('/api/providers')).json()).providers.find(({ id }) => id === 'openai').configured);
  assert.equal(kept, false);
  await page.getByLabel('Key', { exact: true }).fill(KEY);
  await page.getByLabel('Model', { exact: true }).fill('fake-model');
  await click(page.getByRole('button', { name: 'Try the key and continue' }));

  await page.getByRole('heading', { name: 'Your first agent' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await click(page.getByRole('button', { name: 'Create agent and chat' }));
  await say('good morning');
  await settled();
  assert.match(await replies().last().innerText(), /You said: good morning/);
  assert.equal(await replies().last().locator('em').innerText(), 'good morning');
  assert.ok(clicks <= 6, `it took ${clicks} clicks`);
  isSetUp = true;
});

test('no secret is where a script could read it', async () => {
  const found = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]));
  assert.doesNotMatch(found, /sess_|svc_/);
  const cookie = (await opened.context.cookies()).find(({ name }) => name === 'svc_session');
  assert.ok(cookie?.httpOnly && cookie.sameSite === 'Strict');
});

test('a hostile reply runs and fetches nothing', async () => {
  await newConversation();
  await say('do me harm <img src=x onerror="window.harmed = 10">');
  await page.locator('main article').getByText('END OF IT').waitFor();
  await settled();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.deepEqual(opened.strays, []);
  const reply = replies().last();
  assert.equal(await reply.locator('img, iframe, script, style, base, form, input, object, embed, svg:not([class*=lucide])').count(), 0);
  const links = await reply.locator('a').evaluateAll((all) => all.map(({ href, rel, target }) => ({ href, rel, target })));
  assert.deepEqual(links, [{ href: 'https://example.org/fine', rel: 'noopener noreferrer nofollow', target: '_blank' }]);
  assert.doesNotMatch(await reply.innerText(), /[\u202a-\u202e\u2066-\u2069]/);
  assert.deepEqual(await axe(page), []);
  // What was said stands again after a reload, as harmless.
  await page.reload();
  await page.locator('main article').getByText('END OF IT').waitFor();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  assert.deepEqual(opened.strays, []);
});

test('a reload in the middle of a reply loses nothing', async () => {
  await newConversation();
  const half = provider.halfway();
  await say('answer slowly');
  await half;
  await replies().last().getByText('The first half.').waitFor();
  await page.reload();
  await replies().last().getByText('The first half.').waitFor();
  await page.getByRole('button', { name: 'Stop the reply' }).waitFor();
  provider.release();
  await settled();
  assert.match(await replies().last().innerText(), /The first half\. The second half\./);
});

test('another conversation goes on, what is typed meanwhile is sent afterwards, and stop stops', async () => {
  await newConversation();
  const half = provider.halfway();
  await say('answer slowly please');
  await half;
  await replies().last().getByText('The first half.').waitFor();
  const slow = page.url();
  await say('and then this');
  await page.getByText('Will be sent next').waitFor();
  await page.getByRole('link', { name: 'New conversation' }).first().click();
  await page.getByRole('heading', { name: 'What is to be done?' }).waitFor();
  await page.getByRole('img', { name: 'A reply is being written' }).first().waitFor();
  provider.release();
  await page.getByRole('img', { name: 'A reply is being written' }).first().waitFor({ state: 'hidden' });
  await page.locator(`a[href="${new URL(slow).pathname}"]`).first().click();
  await page.locator('main article').getByText('You said: and then this').waitFor();
  await settled();
  const again = provider.halfway();
  await say('slowly once more');
  await again;
  await page.getByRole('button', { name: 'Stop the reply' }).click();
  await page.getByText('Stopped').waitFor();
  await settled();
});

test('a message is edited and everything after it said anew', async () => {
  await newConversation();
  await say('first');
  await settled();
  await say('second');
  await settled();
  await page.locator('main article').first().hover();
  await page.getByRole('button', { name: 'Edit and go on from here' }).first().click();
  await page.getByRole('textbox', { name: 'Edit and go on from here' }).fill('changed');
  await page.getByRole('button', { name: 'Send anew' }).click();
  await replies().last().getByText('You said: changed').waitFor();
  await settled();
  assert.equal(await page.locator('main article').count(), 2);
  await page.getByRole('button', { name: 'Answer anew' }).click();
  await settled();
  assert.equal(await page.locator('main article').count(), 2);
});

test('a tool that needs approval is approved inside its card, and its trace can be seen', async () => {
  await newConversation();
  await page.getByRole('button', { name: /^Whether it asks first/ }).click();
  await page.getByRole('menuitemradio', { name: 'Asks before it changes something' }).click();
  await say('write a file');
  const card = page.locator('main article').filter({ hasText: 'write_file' });
  await card.getByText('waits for you').waitFor();
  await card.getByText('"note.txt"').waitFor();
  await page.getByRole('link', { name: /Approvals/ }).getByText('1').first().waitFor();
  assert.deepEqual(await axe(page), []);
  await card.getByRole('button', { name: 'Approve' }).click();
  await page.locator('main article strong', { hasText: 'written' }).waitFor();
  await settled();
  await page.getByRole('button', { name: 'How this reply came about' }).last().click();
  const trace = page.getByRole('dialog');
  await trace.getByText('Tool: write_file').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('Escape');
  await trace.waitFor({ state: 'hidden' });
});

test('an approval is refused in the inbox with a key', async () => {
  await newConversation();
  await page.getByRole('button', { name: /^Whether it asks first/ }).click();
  await page.getByRole('menuitemradio', { name: 'Asks before it changes something' }).click();
  await say('write a file again');
  await page.locator('main article').getByText('waits for you').waitFor();
  await page.getByRole('link', { name: /Approvals/ }).first().click();
  await page.getByRole('listitem').getByText('"note.txt"').waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('r');
  await page.getByRole('heading', { name: 'Nothing waits for you' }).waitFor();
  await page.getByRole('tab', { name: 'Answered' }).click();
  await page.getByText('refused').first().waitFor();
});

test('a conversation is found, renamed and deleted, and a draft is kept', async () => {
  await newConversation();
  await say('the one to be renamed');
  await settled();
  await composer().fill('not sent yet');
  const menu = page.getByRole('button', { name: 'Actions for the one to be renamed' });
  await menu.focus();
  await menu.press('Enter');
  await page.getByRole('menuitem', { name: 'Rename' }).press('Enter');
  await page.getByLabel('Title').fill('Quarterly figures');
  await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('heading', { name: 'Quarterly figures' }).waitFor();
  await page.getByRole('button', { name: 'Actions for Quarterly figures' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('menuitem', { name: 'Move to a project' }).press('Enter');
  await page.getByRole('textbox', { name: 'New project' }).fill('Figures');
  await page.getByRole('button', { name: 'Move', exact: true }).click();
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await page.getByRole('combobox', { name: 'Project' }).selectOption({ label: 'Figures' });
  await page.getByRole('navigation', { name: 'Conversations' }).getByRole('listitem').nth(1).waitFor({ state: 'detached' });
  await page.reload();
  await page.getByRole('heading', { name: 'Quarterly figures' }).waitFor();
  assert.equal(await composer().inputValue(), 'not sent yet');
  await page.getByRole('searchbox', { name: 'Search conversations' }).fill('quarterly');
  await page.getByRole('button', { name: 'Actions for Quarterly figures' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete conversation' }).click();
  await page.getByRole('heading', { name: 'What is to be done?' }).waitFor();
  await page.getByText('No conversation is called that.').waitFor();
});

test('settings show the difference before they are saved, and name what is wrong', async () => {
  await page.goto(`${daemon.url}/settings/agent`);
  await page.getByLabel('Rounds of tools in a turn').fill('9');
  await page.getByText('1 change').waitFor();
  assert.match(await page.locator('form dl').innerText(), /Rounds of tools in a turn\s*16 → 9/);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved').waitFor();
  await page.reload();
  assert.equal(await page.getByLabel('Rounds of tools in a turn').inputValue(), '9');
  await page.goto(`${daemon.url}/settings/profile`);
  await page.getByLabel('Time zone').fill('Middle/Earth');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').waitFor();
  assert.equal(await page.getByLabel('Time zone').getAttribute('aria-invalid'), 'true');
  // Leaving asks first.
  await page.getByRole('link', { name: 'Interface', exact: true }).click();
  await page.getByRole('dialog', { name: 'Leave without saving?' }).getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('heading', { name: 'Interface' }).waitFor();
});

test('the palette and the shortcuts lead by keyboard, and focus follows', async () => {
  await newConversation();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search and commands' }).fill('sett');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Profile' }).waitFor();
  await page.waitForFunction(() => document.activeElement?.tagName === 'H1');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press('Escape');
  await page.keyboard.press('g');
  await page.keyboard.press('a');
  await page.getByRole('heading', { name: 'Approvals' }).waitFor();
});

/** Opens a view and waits until everything that it loads is there. */
async function show(view) {
  await page.goto(daemon.url + view);
  await page.locator('main h1').waitFor();
  await page.waitForFunction((name) => !document.querySelector(`main [role=status][aria-label="${name}"]`), 'Loading');
}

const VIEWS = ['/chat', '/channels', '/devices', '/scheduler', '/hooks', '/monitoring', '/approvals', '/approvals?tab=answered', '/browser', '/browser/requests', '/browser/recordings', '/browser/signins', '/no-such-page', ...['profile', 'interface', 'notifications', 'providers', 'agent', 'strategy', 'proactive', 'memory', 'tools', 'servers', 'browser', 'email', 'security', 'sandbox', 'keys', 'sessions', 'backup', 'data'].map((each) => `/settings/${each}`)];

for (const [size, viewport] of [['desktop', DESKTOP], ['phone', PHONE]]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`every view keeps to WCAG 2.2 AA and fits: ${size}, ${colorScheme}`, async () => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      const wrong = [];
      for (const view of VIEWS) {
        await show(view);
        wrong.push(...(await axe(page)).map((line) => `${view} ${line}`));
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (overflow > 0) wrong.push(`${view} is ${overflow} px wider than the window`);
      }
      assert.deepEqual(wrong, []);
    });
  }
}

test('every view can be walked through by Tab', async () => {
  for (const view of ['/chat', '/approvals', '/settings/profile', '/settings/providers', '/settings/security']) {
    await show(view);
    const seen = await walk(page);
    assert.ok(seen.length > 5, `${view}: ${seen.length} places`);
    assert.deepEqual(seen.filter(({ name, tag }) => !name && !['INPUT', 'SELECT', 'TEXTAREA', 'LI', 'PRE', 'DIV'].includes(tag)), [], view);
  }
});

test('the page speaks German', async () => {
  await page.goto(`${daemon.url}/settings/security`);
  await page.getByRole('button', { name: /^Account and appearance/ }).click();
  await page.getByRole('menuitem', { name: 'Deutsch' }).click();
  await page.getByRole('heading', { name: 'Sicherheit' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'de');
  await page.getByRole('button', { name: /^Konto und Aussehen/ }).click();
  await page.getByRole('menuitem', { name: 'English' }).click();
  await page.getByRole('heading', { name: 'Security' }).waitFor();
});

test('signing out closes the page, and signing in opens it where it was', async () => {
  await page.goto(`${daemon.url}/approvals`);
  await page.getByRole('button', { name: /^Account and appearance/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await page.getByLabel('Name').fill('owner');
  await page.getByLabel('Password').fill('wrong wrong wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Password').fill('correct horse battery');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Approvals' }).waitFor();
});

test('a second tab sees what the first one says, as it is said', async () => {
  await newConversation();
  await say('the beginning');
  await settled();
  const other = await opened.context.newPage();
  await other.goto(page.url());
  await other.getByText('You said: the beginning').first().waitFor();
  const half = provider.halfway();
  await say('answer slowly for both');
  await half;
  await other.locator('main article').getByText('answer slowly for both').waitFor();
  await other.locator('main article').getByText('The first half.').waitFor();
  provider.release();
  await other.locator('main article').getByText('The first half. The second half.').waitFor();
  await settled();
  await other.close();
});

test('a daemon that is killed in the middle of a reply loses nothing of it', async () => {
  await newConversation();
  const half = provider.halfway();
  await say('slowly until the end');
  await half;
  await replies().last().getByText('The first half.').waitFor();
  await daemon.restart();
  await page.getByText('The daemon was stopped before the reply was complete').waitFor({ timeout: 30_000 });
  assert.match(await replies().last().innerText(), /The first half\./);
  await settled();
});

test('a killed daemon is told, and the page goes on by itself', async () => {
  await newConversation();
  await say('before the end');
  await settled();
  await daemon.restart();
  await say('after the end');
  await replies().last().getByText('You said: after the end').waitFor({ timeout: 30_000 });
  await settled();
});

test('nothing left the daemon, and no script failed', () => {
  assert.deepEqual(opened.strays, []);
  assert.deepEqual(opened.problems, []);
});
