// Files of an agent's workspace.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { begin, codeIn, checkViews, checkTabOrder } from './harness.js';

const HOSTILE = '<img src=x onerror="window.harmed=1"> \u202egpj.exe';
const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="80" height="60"><script>window.harmed=2</script><rect width="80" height="60" fill="teal" onload="window.harmed=3"/></svg>';
const PNG = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

let bench;
let page;
let folder;

const contentOf = (path) => `${bench.daemon.url}/api/agents/ada/files/content?path=${encodeURIComponent(path)}`;

async function put(path, content) {
  const response = await page.request.put(contentOf(path), { data: Buffer.from(content), headers: { ...bench.headers, 'Content-Type': 'application/octet-stream' } });
  assert.ok(response.ok(), `${path}: ${response.status()} ${await response.text()}`);
}

async function get(path) {
  const response = await page.request.get(contentOf(path), { headers: bench.headers });
  return response.ok() ? (await response.body()).toString() : null;
}

const row = (name) => page.locator('main tbody tr').filter({ hasText: name });
const edit = () => page.getByRole('button', { name: 'Edit', exact: true });

async function choose(name, action) {
  await row(name).getByRole('button', { name: `Actions for ${name}` }).click();
  await page.getByRole('menuitem', { name: action, exact: true }).click();
}

before(async () => {
  bench = await begin();
  page = bench.page;
  folder = mkdtempSync(join(tmpdir(), 'agentd-files-'));
});

after(async () => {
  await bench?.end();
  rmSync(folder, { recursive: true, force: true });
});

test('an empty workspace explains how to add files', async () => {
  await bench.show('/agents/ada/files');
  await page.getByRole('heading', { name: 'No files yet' }).waitFor();
  await page.getByText('0 of 100,000 files').waitFor();
  assert.deepEqual(await checkViews(bench, ['/agents/ada/files']), []);
  // A bar at 0 shows only its track, in both themes.
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    await page.waitForFunction((theme) => document.documentElement.dataset.theme === theme, colorScheme);
    const picture = (await page.getByRole('progressbar').first().screenshot()).toString('base64');
    const seen = await page.evaluate(async (picture) => {
      const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(picture), (c) => c.charCodeAt(0))]));
      const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
      context.drawImage(bitmap, 0, 0);
      // The middle row, without the rounded ends.
      const { data } = context.getImageData(8, bitmap.height >> 1, bitmap.width - 16, 1);
      const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
      const pixels = new Set(Array.from({ length: data.length / 4 }, (_, i) => `#${[...data.slice(4 * i, 4 * i + 3)].map((part) => part.toString(16).padStart(2, '0')).join('')}`));
      return { pixels: [...pixels], track: colour('--hover') };
    }, picture);
    assert.deepEqual(seen.pixels, [seen.track], colorScheme);
  }
  await page.emulateMedia({ colorScheme: 'light' });
});

test('uploads replace an existing file only after confirmation', async () => {
  const path = join(folder, 'plan.md');
  writeFileSync(path, '# Plan\n');
  const input = page.locator('main input[type=file]');
  await bench.show('/agents/ada/files');
  await input.setInputFiles(path);
  await row('plan.md').waitFor();
  assert.equal(await get('plan.md'), '# Plan\n');
  writeFileSync(path, '# Another\n');
  await input.setInputFiles(path);
  await bench.dialog().getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('list', { name: 'Uploads' }).waitFor({ state: 'detached' });
  assert.equal(await get('plan.md'), '# Plan\n');
  await input.setInputFiles(path);
  const replaced = page.waitForResponse((response) => response.request().method() === 'PUT' && response.ok());
  await bench.dialog().getByRole('button', { name: 'Replace' }).click();
  await replaced;
  await page.getByText('plan.md uploaded.').first().waitFor();
  assert.equal(await get('plan.md'), '# Another\n');
});

test('dropped files are uploaded', async () => {
  const transfer = await page.evaluateHandle(() => {
    const transfer = new DataTransfer();
    transfer.items.add(new File(['dropped'], 'dropped.txt'));
    return transfer;
  });
  const target = page.getByRole('group', { name: 'Drop files to upload' });
  await target.dispatchEvent('dragover', { dataTransfer: transfer });
  await target.dispatchEvent('drop', { dataTransfer: transfer });
  await row('dropped.txt').waitFor();
  assert.equal(await get('dropped.txt'), 'dropped');
});

test('a rejected upload shows the reason', async () => {
  await bench.call('PUT', '/api/sandbox/config', { workspace_limit_mb: 16 });
  const path = join(folder, 'large.bin');
  writeFileSync(path, Buffer.alloc(17 << 20, 1));
  await page.locator('main input[type=file]').setInputFiles(path);
  await page.getByText('workspace_limit_mb').waitFor();
  assert.equal(await row('large.bin').count(), 0);
  await bench.call('PUT', '/api/sandbox/config', { workspace_limit_mb: 4096 });
});

test('folders can be created and navigated, and have their own address', async () => {
  await bench.show('/agents/ada/files');
  await page.getByRole('button', { name: 'New folder' }).click();
  await bench.dialog().getByLabel('Folder name').fill('plan.md');
  await bench.dialog().getByText('This name is already in use.').waitFor();
  await bench.dialog().getByLabel('Folder name').fill('reports & more');
  await bench.dialog().getByRole('button', { name: 'Create' }).click();
  await row('reports & more').getByRole('link').click();
  await page.getByRole('heading', { name: 'No files yet' }).waitFor();
  await put('reports & more/2026/june.md', 'June');
  await page.getByRole('button', { name: 'Refresh' }).click();
  await row('2026').getByRole('link').click();
  await row('june.md').waitFor();
  await page.reload();
  await row('june.md').waitFor();
  const path = page.getByRole('navigation', { name: 'Path' });
  assert.deepEqual(await path.getByRole('listitem').allInnerTexts(), ['Workspace', 'reports & more', '2026']);
  await path.getByRole('link', { name: 'Workspace' }).click();
  await row('plan.md').waitFor();
  await page.goBack();
  await row('june.md').waitFor();
});

test('a text file is edited, and leaving with unsaved changes asks first', async () => {
  await put('notes.txt', 'one\r\ntwo\r\n');
  await bench.show('/agents/ada/files?file=notes.txt');
  await page.locator('main pre').getByText('two').waitFor();
  await edit().click();
  const text = page.getByRole('textbox', { name: 'Contents of notes.txt' });
  await text.fill('one\n2\n');
  await page.getByRole('link', { name: 'Workspace' }).click();
  await bench.dialog().getByRole('button', { name: 'Cancel' }).click();
  assert.equal(await codeIn(text), 'one\n2\n');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('main pre').getByText('2').waitFor();
  assert.equal(await get('notes.txt'), 'one\r\n2\r\n', 'line endings are kept');
});

test('a file changed by the agent is overwritten only after confirmation', async () => {
  const text = page.getByRole('textbox', { name: 'Contents of notes.txt' });
  for (const [answer, expected] of [['Reload', 'by the agent'], ['Overwrite', 'by the owner']]) {
    await put('notes.txt', `before ${answer}`);
    await bench.show('/agents/ada/files?file=notes.txt');
    await edit().click();
    await text.fill('by the owner');
    await put('notes.txt', 'by the agent');
    await page.getByRole('button', { name: 'Save' }).click();
    const conflict = page.getByRole('alert').filter({ hasText: 'This file has changed' });
    await conflict.waitFor();
    assert.equal(await get('notes.txt'), 'by the agent');
    assert.equal(await codeIn(text), 'by the owner', 'the typed text is kept');
    await conflict.getByRole('button', { name: answer }).click();
    await page.locator('main pre').getByText(expected).waitFor();
    assert.equal(await get('notes.txt'), expected);
  }
});

test('images are shown without running scripts, and other files can be downloaded', async () => {
  await put('dot.png', PNG);
  await put('drawing.svg', SVG);
  await put('data.bin', Buffer.from([0, 1, 2, 255]));
  for (const name of ['dot.png', 'drawing.svg']) {
    await bench.show(`/agents/ada/files?file=${name}`);
    const picture = page.getByRole('img', { name: `Image ${name}` });
    await picture.waitFor();
    assert.ok(await picture.evaluate((img) => img.decode().then(() => img.naturalWidth > 0)), name);
  }
  await bench.show('/agents/ada/files?file=data.bin');
  await page.getByRole('heading', { name: 'Can’t preview this file' }).waitFor();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download' }).click()]);
  assert.equal(download.suggestedFilename(), 'data.bin');
  assert.deepEqual([...readFileSync(await download.path())], [0, 1, 2, 255]);
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('hostile file names are escaped', async () => {
  await put(HOSTILE, HOSTILE);
  await bench.show('/agents/ada/files');
  await row('onerror').waitFor();
  assert.ok((await row('onerror').innerText()).includes('<img src=x'));
  assert.ok(!(await row('onerror').innerText()).includes('\u202e'));
  await row('onerror').getByRole('link').click();
  await page.locator('main pre').getByText('onerror').waitFor();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
});

test('files are moved and deleted', async () => {
  await bench.show('/agents/ada/files');
  await choose('dropped.txt', 'Rename or move');
  const field = bench.dialog().getByLabel('Path in the workspace');
  await field.fill('plan.md');
  await bench.dialog().getByRole('button', { name: 'Rename or move' }).click();
  await bench.dialog().getByText('already exists').waitFor();
  await field.fill('reports & more/moved.txt');
  await bench.dialog().getByRole('button', { name: 'Rename or move' }).click();
  await row('dropped.txt').waitFor({ state: 'detached' });
  assert.equal(await get('reports & more/moved.txt'), 'dropped');
  await choose('reports & more', 'Delete');
  await bench.dialog().getByText('everything in it will be deleted').waitFor();
  await bench.dialog().getByRole('button', { name: 'Delete' }).click();
  await row('reports & more').waitFor({ state: 'detached' });
  assert.equal(await get('reports & more/moved.txt'), null);
  await bench.show('/agents/ada/files?file=gone.txt');
  await page.getByRole('heading', { name: 'File or folder not found' }).waitFor();
});

test('file views conform to WCAG 2.2 AA and are reachable by Tab', async () => {
  await put('long/'.concat('a-rather-long-name-'.repeat(10), '.json'), JSON.stringify({ text: 'x'.repeat(600) }));
  const views = ['/agents/ada/files', '/agents/ada/files?path=long', '/agents/ada/files?file=notes.txt', '/agents/ada/files?file=drawing.svg', '/agents/ada/files?path=none'];
  assert.deepEqual(await checkViews(bench, views), []);
  assert.deepEqual(await checkTabOrder(bench, views), []);
  await bench.show('/agents/ada/files?file=notes.txt');
  await edit().click();
  await page.getByRole('textbox', { name: 'Contents of notes.txt' }).fill('changed');
  assert.deepEqual(bench.problems, []);
  assert.deepEqual(bench.strays, []);
});
