// Runs tasks of the suite with Playwright: one request per line on stdin, one response per line on stdout.
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const [base, upload] = process.argv.slice(2);
const STEP_MS = 5000;
const launch = () => chromium.launch({ executablePath: '/usr/bin/chromium' });
let browser, context;

const quoted = (line) => { const [, role, name] = /^(\S+) "(.*)"$/.exec(line); return `role=${role}[name="${name}"s]`; };

async function act(place, task, step) {
  const { page } = place;
  let scope = page;
  for (let at = 0; at < task.depth + (step.frame || 0); at++) scope = scope.frameLocator('iframe');
  const at = (selector) => scope.locator(selector);
  const on = (selector) => at(selector ?? quoted(step.ref));
  switch (step.action) {
    case 'goto': return page.goto(step.url.startsWith('/') ? base + step.url : step.url, { waitUntil: step.wait_until || 'load' });
    case 'click': return on(step.selector).click();
    case 'double_click': return on(step.selector).dblclick();
    case 'right_click': return on(step.selector).click({ button: 'right' });
    case 'hover': return on(step.selector).hover();
    case 'type_text': return step.clear ? at(step.selector).fill(step.text) : at(step.selector).pressSequentially(step.text);
    case 'press_key': return step.selector ? at(step.selector).press(step.key) : page.keyboard.press(step.key);
    case 'select_option': return at(step.selector).selectOption(
      step.value !== undefined ? { value: step.value } : step.label !== undefined ? { label: step.label } : { index: step.index });
    case 'check': return at(step.selector).check();
    case 'uncheck': return at(step.selector).uncheck();
    case 'scroll': {
      if (step.selector) await at(step.selector).hover(); else await page.mouse.move(640, 400);
      return page.mouse.wheel(step.x || 0, step.y || 0);
    }
    case 'scroll_to_element': return at(step.selector).scrollIntoViewIfNeeded();
    case 'drag_and_drop': return at(step.source).dragTo(at(step.target));
    case 'focus': return at(step.selector).focus();
    case 'blur': return at(step.selector).blur();
    case 'handle_dialog':
      page.once('dialog', (dialog) => step.accept ? dialog.accept(step.prompt_text) : dialog.dismiss());
      return;
    case 'wait_for_selector': return at(step.selector).waitFor({ state: step.state || 'visible' });
    case 'wait_for_navigation': return page.waitForURL((url) => url.href.includes(step.url));
    case 'wait_for_network_idle': return page.waitForLoadState('networkidle');
    case 'go_back': return page.goBack();
    case 'go_forward': return page.goForward();
    case 'reload': return page.reload();
    case 'upload_file': return at(step.selector).setInputFiles(upload);
    default: throw new Error(`no action ${step.action}`);
  }
}

async function step(place, task, one) {
  const waits = [];
  if (one.opens) waits.push(place.page.waitForEvent('popup'));
  if (one.downloads) waits.push(place.page.waitForEvent('download'));
  const [seen] = await Promise.all([...waits, act(place, task, one)]);
  if (one.downloads) {
    await seen.path();
    if (seen.suggestedFilename() !== one.downloads) throw new Error(`downloaded ${seen.suggestedFilename()}`);
  }
  if (one.opens) { place.opener = place.page; place.page = seen; seen.setDefaultTimeout(STEP_MS); }
  if (one.closes) place.page = place.opener;
}

async function run(task) {
  const steps = [];
  const place = { page: await context.newPage() };
  place.page.setDefaultTimeout(STEP_MS);
  let error;
  try {
    for (const one of [{ action: 'goto', url: task.url }, ...task.steps]) {
      const started = performance.now();
      try { await step(place, task, one); } finally { steps.push(performance.now() - started); }
    }
    const until = performance.now() + STEP_MS;
    while (task.title && (await place.page.title()) !== task.title) {
      if (performance.now() > until) throw new Error(`the title is ${await place.page.title()}`);
      await new Promise((done) => setTimeout(done, 5));
    }
  } catch (caught) { error = String(caught.message || caught).split('\n').slice(0, 3).join(' '); }
  for (const page of context.pages()) await page.close();
  return { steps, error };
}

async function timed(times, work) {
  const taken = [];
  for (let at = 0; at < times; at++) { const started = performance.now(); await work(); taken.push(performance.now() - started); }
  return { times: taken };
}

const answers = {
  async start() { browser = await launch(); context = await browser.newContext({ viewport: { width: 1280, height: 800 } }); return {}; },
  task: ({ task }) => run(task),
  launch: async ({ times }) => {
    const started = [];
    const taken = await timed(times, async () => {
      const one = await launch();
      started.push(one);
      await (await one.newPage()).goto(`${base}/here`);
    });
    for (const one of started) await one.close();
    return taken;
  },
  title_with: async ({ state, url }) => {
    const one = await browser.newContext({ storageState: state });
    const page = await one.newPage();
    await page.goto(url);
    await page.locator('#done').waitFor({ state: 'attached' });
    const title = await page.title();
    await one.close();
    return { title };
  },
  state_after: async ({ url }) => {
    const one = await browser.newContext();
    const page = await one.newPage();
    await page.goto(url);
    await page.locator('#done').waitFor({ state: 'attached' });
    const state = await one.storageState({ indexedDB: true });
    await one.close();
    return { state };
  },
  click: async ({ times }) => {
    const page = await context.newPage();
    await page.goto(`${base}/here`);
    const taken = await timed(times, () => page.locator('text=Here').click());
    await page.close();
    return taken;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  process.stdout.write(JSON.stringify(await answers[request.ask](request)) + '\n');
}
await browser?.close();
