// Starts a daemon on an empty directory and a browser that opens its page.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
export const DESKTOP = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

/** The agentd program, which is also the device client. */
export const program = process.env.AGENTD_BIN ?? '../target/debug/agentd';

/** `AGENTD_BIN` is the program; `AGENTD_TEST_PAGE` a server that serves the page for a daemon on `AGENTD_TEST_PORT`. */
export async function startDaemon() {
  const folder = mkdtempSync(join(tmpdir(), 'agentd-page-'));
  const port = process.env.AGENTD_TEST_PORT ?? (await freePort());
  const start = async () => {
    const env = { ...process.env, SVC_PORT: String(port), SVC_DATA_DIR: join(folder, 'data'), SVC_LOG: 'warn' };
    const child = spawn(program, [], { env, stdio: ['ignore', 'inherit', 'inherit'] });
    let ended = false;
    child.on('exit', () => (ended = true));
    for (const end = Date.now() + 30_000; ; ) {
      if (ended) throw new Error(`${program} ended at its start`);
      if (await fetch(`http://127.0.0.1:${port}/health/ready`).then(({ ok }) => ok, () => false)) return child;
      if (Date.now() > end) throw new Error('the daemon was not ready within 30 seconds');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  let child = await start();
  const end = (signal) =>
    new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve();
      child.on('exit', resolve);
      child.kill(signal);
    });
  return {
    url: process.env.AGENTD_TEST_PAGE ?? `http://127.0.0.1:${port}`,
    direct: `http://127.0.0.1:${port}`,
    async restart() {
      await end('SIGKILL');
      child = await start();
    },
    async stop() {
      await end('SIGTERM');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export async function startBrowser() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  return chromium.launch({ executablePath, args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
}

/** Opens a page and records requests to other hosts and script errors. */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: DESKTOP, locale: 'en-US', ...options });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  const strays = [];
  const problems = [];
  context.on('request', (request) => {
    if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== new URL(url).origin) strays.push(request.url());
  });
  page.on('pageerror', (error) => problems.push(String(error.stack ?? error)));
  page.on('dialog', (dialog) => {
    problems.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('console', (message) => {
    if (message.type() === 'error' && /Content.Security.Policy|violat/i.test(message.text())) problems.push(message.text());
  });
  return { page, context, strays, problems };
}

const STANDARDS = { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] };
/** Rules that depend on the theme. */
const COLOURS = { runOnly: { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } };

/** Returns the WCAG 2.2 AA violations that axe-core finds, as lines. */
export async function axe(page, rules = STANDARDS) {
  // Evaluated by DevTools, so that the page's Content-Security-Policy still applies.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(AXE);
  const { violations } = await page.evaluate((rules) => window.axe.run(document, rules), rules);
  return violations.flatMap(({ id, help, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${help}\n  ${target.join(' ')}\n  ${failureSummary}`));
}

/** Presses Tab until focus repeats; returns the visited and the unreachable elements. */
export async function walk(page) {
  await page.locator('a[href="#main"]').focus();
  await page.evaluate(() => {
    const walk = (window.walk = { seen: new Set(), ended: false });
    document.addEventListener('focusin', ({ target }) => {
      if (walk.seen.has(target)) walk.ended = true;
      walk.seen.add(target);
    });
  });
  for (let before = -1, now = 0, ended = false; !ended && now > before; ) {
    for (let i = 0; i < 10; i += 1) await page.keyboard.press('Tab');
    before = now;
    ({ now, ended } = await page.evaluate(() => ({ now: window.walk.seen.size, ended: window.walk.ended })));
  }
  return page.evaluate(() => {
    const { seen } = window.walk;
    const nameOf = (element) => element.getAttribute('aria-label') ?? element.labels?.[0]?.textContent ?? element.textContent?.trim().slice(0, 40);
    const describe = (element) => ({ name: nameOf(element), tag: element.tagName });
    const inside = document.querySelector('dialog:modal') ?? document;
    const isSeen = (element) => {
      const { width, height } = element.getBoundingClientRect();
      return width > 2 && height > 2 && element.checkVisibility({ visibilityProperty: true });
    };
    const missed = [...inside.querySelectorAll('a[href], button, input, select, textarea, summary, [role=button], [role=switch], [tabindex="0"]')].filter((element) => {
      if (seen.has(element) || element.matches(':disabled') || element.closest('[inert]') || !isSeen(element)) return false;
      // Composite widgets have one tab stop; arrow keys reach the other items.
      if (element.tabIndex < 0) return !element.closest('[role=tablist], [role=radiogroup], [role=menu], [role=listbox], [role=grid], [role=toolbar]');
      return element.type !== 'radio' || ![...seen].some((other) => other.type === 'radio' && other.name === element.name);
    });
    return { seen: [...seen].map(describe), missed: missed.map(describe) };
  });
}

export const PASSWORD = 'correct horse battery';

/** Stores the page secret of a session that was created in the page's context. */
export async function signIn({ page }, url, { page_secret }) {
  await page.goto(`${url}/manifest.webmanifest`);
  await page.evaluate((secret) => localStorage.setItem('page-secret', secret), page_secret);
}

/** Starts a daemon with an account and an agent, and opens a signed-in page. */
export async function begin() {
  const [daemon, browser] = await Promise.all([startDaemon(), startBrowser()]);
  const opened = await openPage(browser, daemon.url);
  const { page } = opened;
  const headers = { 'X-Svc-Csrf': '1' };
  const call = async (method, path, data) => {
    const response = await page.request.fetch(daemon.url + path, { method, data, headers });
    assert.ok(response.ok(), `${method} ${path}: ${response.status()} ${await response.text()}`);
    // Event streams are returned as text.
    const text = await response.text();
    return response.headers()['content-type']?.startsWith('application/json') ? JSON.parse(text) : text;
  };
  await signIn(opened, daemon.url, await call('POST', '/api/auth/register', { username: 'owner', password: PASSWORD, cookie: true }));
  const { key } = await call('POST', '/api/auth/keys', { name: 'page' });
  // Test setup uses an API key, which requires no password confirmation.
  headers.Authorization = `Bearer ${key}`;
  await call('PUT', '/api/settings/profile', { display_name: 'Owner' });
  await call('POST', '/api/agents', { svc_name: 'ada', user_name: 'Owner', archetype: 'assistant' });
  return {
    ...opened,
    browser,
    daemon,
    call,
    headers,
    /** Enters the password in the confirmation dialog. */
    async confirmPassword() {
      const asked = page.getByRole('dialog', { name: 'Confirm your password' });
      await asked.getByRole('textbox', { name: 'Password' }).fill(PASSWORD);
      await asked.getByRole('button', { name: 'Confirm' }).click();
      await asked.waitFor({ state: 'hidden' });
    },
    /** Opens a view and waits until it has loaded. */
    async show(view) {
      await page.goto(daemon.url + view);
      await page.locator('main h1').waitFor();
      await page.waitForFunction(() => !document.querySelector('main [role=status][aria-label="Loading"]'));
    },
    dialog: () => page.locator('dialog[open]').last(),
    row: (text) => page.locator('main li').filter({ hasText: text }),
    async end() {
      await browser.close();
      await daemon.stop();
    },
  };
}

/** Performs an action and returns the page's longest task meanwhile, in milliseconds of CPU time. */
export async function longestTask(page, browser, action) {
  await browser.startTracing(page, { categories: ['toplevel'] });
  await action();
  const { traceEvents } = JSON.parse(await browser.stopTracing());
  const place = ({ pid, tid }) => `${pid}:${tid}`;
  const main = new Set(traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(place));
  const tasks = traceEvents.filter((event) => event.name === 'ThreadControllerImpl::RunTask' && main.has(place(event)));
  assert.ok(tasks.length > 0, 'the trace contains no tasks');
  return Math.round(Math.max(...tasks.map(({ tdur }) => tdur)) / 1000);
}

/** Returns the text of a code editor once it has loaded. */
export async function codeIn(field) {
  const lines = field.locator('.cm-line');
  await lines.first().waitFor();
  return (await lines.allTextContents()).join('\n');
}

/** Helpers for a conversation. */
export function talking(page, daemon) {
  const composer = () => page.getByRole('textbox', { name: /^Message to/ });
  return {
    composer,
    replies: () => page.locator('main article').filter({ has: page.locator('.markdown, [role=alert]') }),
    async say(text) {
      await composer().fill(text);
      await composer().press('Enter');
    },
    /** Waits until the last reply is complete and can be regenerated. */
    async settled() {
      await page.getByRole('button', { name: 'Regenerate' }).and(page.locator(':enabled')).waitFor();
    },
    async newConversation() {
      await page.goto(`${daemon.url}/chat`);
      await composer().waitFor();
    },
  };
}

/** Returns accessibility violations and overflow of views, in both sizes and themes. */
export async function checkViews({ page, show }, views) {
  const wrong = [];
  // Colours in transition would distort the contrast.
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  for (const viewport of [DESKTOP, PHONE]) {
    await page.setViewportSize(viewport);
    for (const view of views) {
      await show(view);
      const note = (theme, lines) => wrong.push(...lines.map((line) => `${view} at ${viewport.width} px, ${theme}: ${line}`));
      note('light', await axe(page));
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (overflow > 0) note('light', [`${overflow} px wider than the window`]);
      await page.emulateMedia({ colorScheme: 'dark' });
      await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
      note('dark', await axe(page, COLOURS));
      await page.emulateMedia({ colorScheme: 'light' });
    }
  }
  await page.setViewportSize(DESKTOP);
  await page.emulateMedia({ reducedMotion: null });
  return wrong;
}

/** Returns unnamed tab stops and unreachable elements of views, in both sizes. */
export async function checkTabOrder({ page, show }, views) {
  const wrong = [];
  for (const viewport of [DESKTOP, PHONE]) {
    await page.setViewportSize(viewport);
    for (const view of views) {
      await show(view);
      let { seen, missed } = await walk(page);
      // Elements that appeared during the walk, such as a live picture, are found by a second one.
      if (missed.length) ({ seen, missed } = await walk(page));
      const at = `${view} at ${viewport.width} px`;
      if (seen.length <= 5) wrong.push(`${at}: ${seen.length} tab stops`);
      wrong.push(...seen.filter(({ name, tag }) => !name && !['INPUT', 'SELECT', 'TEXTAREA', 'DIV', 'LI', 'PRE'].includes(tag)).map(({ tag }) => `${at}: a ${tag} without a name`));
      wrong.push(...missed.map(({ name, tag }) => `${at}: Tab does not reach the ${tag} “${name}”`));
    }
  }
  await page.setViewportSize(DESKTOP);
  return wrong;
}
