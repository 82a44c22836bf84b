// The console's memory: sessions, and code that is kept.
import assert from 'node:assert/strict';
import test from 'node:test';
import { skip, withPage } from './harness.mjs';

async function type(page, code) {
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(code);
}

test('runs of a session share their names, others do not', { skip }, () =>
  withPage({ browser: { at: '#/console' } }, async ({ page }) => {
    await page.locator('.editor-host[data-ready="true"]').waitFor();
    await page.getByLabel('Session').fill('work');
    await type(page, 'total = 20 + 22');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.locator('.result').waitFor();
    await type(page, 'print("it is", total)');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('it is 42').first().waitFor();
    await page.getByLabel('Session').fill('');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText(/NameError/).first().waitFor();
  }));

test('code is kept as a snippet and runs again', { skip }, () =>
  withPage({ browser: { at: '#/console' } }, async ({ page, server }) => {
    await page.locator('.editor-host[data-ready="true"]').waitFor();
    await type(page, 'word = "ab"\nword * 3');
    await page.getByRole('button', { name: 'Save as snippet' }).click();
    await page.getByLabel('Name', { exact: true }).fill('thrice');
    await page.getByLabel('Description', { exact: true }).fill('Repeats a word');
    await page.getByRole('button', { name: 'Run and save' }).click();
    await page.getByText('ababab').first().waitFor();
    await type(page, '$thrice');
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.getByText('ababab').first().waitFor();
    const found = await server.json('GET', 'api/tools/saved.thrice');
    assert.equal(found.status, 200);
  }));
