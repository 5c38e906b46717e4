// Menus, tabs, the combobox and the code editor by keyboard, under the page's Content-Security-Policy.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, begin, codeIn, PHONE, DESKTOP } from './harness.js';

let it;
let page;
before(async () => {
  it = await begin();
  ({ page } = it);
});
after(() => it.end());

const focused = () => page.evaluate(() => document.activeElement?.textContent?.trim());

test('a menu opens, moves and closes by keyboard, and focus returns to its button', async () => {
  await it.show('/agents');
  const button = page.getByRole('button', { name: /^Account and appearance/ });
  await button.press('Enter');
  const menu = page.getByRole('menu', { name: 'Account and appearance' });
  await menu.waitFor();
  const items = await menu.locator('[role^=menuitem]').allInnerTexts();
  await page.waitForFunction(() => document.activeElement?.getAttribute('role') === 'menuitemradio');
  await page.keyboard.press('ArrowUp');
  assert.equal(await focused(), items.at(-1), 'focus wraps around');
  await page.keyboard.press('ArrowDown');
  assert.ok((await focused()).startsWith(items[0].split('\n')[0]));
  await page.keyboard.press('Escape');
  await menu.waitFor({ state: 'hidden' });
  assert.ok(await button.evaluate((element) => element === document.activeElement));
});

test('in a dialog, Escape closes the menu and then the dialog', async () => {
  await page.setViewportSize(PHONE);
  await it.show('/agents');
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  const drawer = page.getByRole('dialog', { name: 'agentd' });
  await drawer.getByRole('button', { name: /^Account and appearance/ }).click();
  const menu = page.getByRole('menu', { name: 'Account and appearance' });
  await menu.waitFor();
  const { x, y, width, height } = await menu.boundingBox();
  assert.ok(x >= 0 && y >= 0 && x + width <= PHONE.width && y + height <= PHONE.height, 'the menu fits the window');
  await page.keyboard.press('Escape');
  await menu.waitFor({ state: 'hidden' });
  assert.ok(await drawer.isVisible());
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'hidden' });
  await page.setViewportSize(DESKTOP);
});

test('tabs are selected by arrow keys', async () => {
  await it.show('/hooks');
  const tabs = page.getByRole('tab');
  await tabs.first().focus();
  await page.keyboard.press('ArrowLeft');
  assert.equal(await tabs.last().getAttribute('aria-selected'), 'true');
  await page.keyboard.press('Home');
  assert.equal(await tabs.first().getAttribute('aria-selected'), 'true');
  assert.ok(await tabs.first().evaluate((element) => element === document.activeElement));
});

test('a time zone is found by part of its name', async () => {
  await it.show('/settings/profile');
  const field = page.getByRole('combobox', { name: 'Time zone' });
  await field.click();
  await page.getByRole('listbox', { name: 'Time zone' }).waitFor();
  assert.deepEqual(await axe(page), []);
  await field.fill('');
  await field.pressSequentially('new_y');
  const list = page.getByRole('listbox', { name: 'Time zone' });
  await list.getByRole('option', { name: 'America/New_York' }).waitFor();
  assert.equal(await list.getByRole('option').count(), 1);
  await page.keyboard.press('Enter');
  await list.waitFor({ state: 'hidden' });
  assert.equal(await field.inputValue(), 'America/New_York');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved').waitFor();
  assert.equal((await it.call('GET', '/api/settings/profile')).timezone, 'America/New_York');
});

test('the code editor loads, is styled, and does not trap Tab', async () => {
  await it.show('/agents/ada/instructions');
  const editor = page.getByRole('textbox', { name: 'Instructions' });
  await editor.locator('.cm-line').waitFor();
  assert.equal(await page.locator('style').count(), 0);
  assert.equal(await editor.evaluate((element) => getComputedStyle(element).paddingTop), '6px');
  await page.locator('label').filter({ hasText: 'Instructions' }).click();
  await page.keyboard.type('- one');
  await page.keyboard.press('Enter');
  await page.keyboard.type('two');
  assert.equal(await codeIn(editor), '- one\n- two', 'the list continues');
  await page.keyboard.press('Tab');
  assert.ok(await editor.evaluate((element) => element !== document.activeElement));
  await page.getByText('11 of 20,000 characters').waitFor();
  await page.getByRole('button', { name: 'Discard' }).click();
  assert.equal(await codeIn(editor), '');
});

test('the editor search is translated, and Escape closes only the search', async () => {
  await page.evaluate(() => localStorage.setItem('language', 'de'));
  await page.goto(`${it.daemon.url}/hooks`);
  await page.getByRole('button', { name: 'Neuer Hook' }).click();
  const dialog = page.getByRole('dialog', { name: 'Neuer Hook' });
  await dialog.getByLabel('Aktion').selectOption('python');
  const code = dialog.getByRole('textbox', { name: 'Code' });
  await code.locator('.cm-line').first().waitFor();
  await code.click();
  await page.keyboard.press('Control+f');
  await dialog.getByRole('textbox', { name: 'Suchen' }).fill('return');
  await page.keyboard.press('Escape');
  await dialog.getByRole('textbox', { name: 'Suchen' }).waitFor({ state: 'hidden' });
  assert.ok(await dialog.isVisible());
  await page.evaluate(() => localStorage.setItem('language', 'en'));
});

test('text beyond the limit is cut off', async () => {
  await it.show('/agents/ada/instructions');
  const editor = page.getByRole('textbox', { name: 'Instructions' });
  await editor.locator('.cm-line').first().waitFor();
  await editor.fill('x'.repeat(20_010));
  await page.getByText('20,000 of 20,000 characters').waitFor();
  await page.getByRole('button', { name: 'Discard' }).click();
});

test('pages request no external host and raise no script error', () => {
  assert.deepEqual([it.strays, it.problems], [[], []]);
});
