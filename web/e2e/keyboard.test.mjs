// The page with nothing but a keyboard: every step is a key, and what has the focus is always seen.
import assert from 'node:assert/strict';
import test from 'node:test';
import { skip, withPage } from './harness.mjs';

const CONFIG = 'security:\n  policy:\n    "demo.danger": ask\n';

/** What has the focus: its name, and whether one sees that it has. */
function focused(page) {
  return page.evaluate(() => {
    let element = document.activeElement;
    while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
    if (!element || element === document.body) return { tag: 'BODY', name: '', seen: false };
    const style = getComputedStyle(element);
    const editor = element.closest('.cm-editor');
    const outlined = [style, editor && getComputedStyle(editor)].some((look) => look && look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) >= 1);
    const box = element.getBoundingClientRect();
    const inView = box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
    const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(' ');
    const name = (element.getAttribute('aria-label') || labels || element.textContent || '').trim().replace(/\s+/g, ' ');
    return { tag: element.tagName, role: element.getAttribute('role') ?? '', name, seen: outlined && inView, at: [box.left, box.top, box.width, box.height], outline: style.outline };
  });
}

/** Presses Tab until something with this name has the focus. */
async function tabTo(page, name, { key = 'Tab', most = 80 } = {}) {
  const passed = [];
  for (let count = 0; count < most; count += 1) {
    await page.keyboard.press(key);
    const now = await focused(page);
    passed.push(now.name.slice(0, 40));
    // Beyond the last element the focus goes to the browser itself, and comes back.
    if (now.tag === 'BODY') continue;
    assert.ok(now.seen, `the focus is not seen: ${JSON.stringify(now)}`);
    if (typeof name === 'string' ? now.name === name : name.test(now.name)) return now;
  }
  throw new Error(`${name} is not reached with ${key}: ${passed.join(' > ')}`);
}

async function palette(page, text) {
  await page.keyboard.press('Control+K');
  await page.getByRole('combobox', { name: 'Find a tool, snippet or page' }).waitFor();
  const now = await focused(page);
  assert.ok(now.role === 'combobox' && now.seen, JSON.stringify(now));
  await page.keyboard.type(text);
  await page.getByRole('option', { selected: true }).filter({ hasText: new RegExp(text, 'i') }).waitFor();
  await page.keyboard.press('Enter');
}

/** A new screen takes the keyboard. */
const onScreen = (page) => page.waitForFunction(() => document.activeElement?.id === 'main');

test('everything is done with the keyboard alone', { skip }, () =>
  withPage({ server: { config: CONFIG } }, async ({ page, server }) => {
    for (const pointer of ['mouse', 'touchscreen']) page[pointer].click = () => { throw new Error('only keys'); };
    await page.locator('.tool-line').first().waitFor();

    // The first stop leads past the navigation; the navigation is reached, too.
    await tabTo(page, 'Skip to content', { most: 1 });
    await tabTo(page, 'Tools', { most: 1 });
    await tabTo(page, 'Settings', { most: 10 });

    // Tools: search, filter by kind, open.
    await page.keyboard.press('/');
    assert.equal((await focused(page)).name, 'Search tools by name or by what they do');
    await page.keyboard.type('list of records');
    await page.getByText('demo.rows', { exact: true }).waitFor();
    await tabTo(page, 'Kind', { most: 2 });
    await page.keyboard.type('Py');
    await page.waitForFunction(() => [...document.querySelectorAll('.tool-line .tool-name')].every((name) => name.textContent.startsWith('demo.')));
    await tabTo(page, /^demo\.rows/);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'demo.rows' }).waitFor();
    // What was opened is where the keyboard goes on.
    await page.waitForFunction(() => document.activeElement?.id === 'tool-detail');

    // Fill the form, and call.
    await page.locator('.tester').waitFor();
    await tabTo(page, 'count', { most: 20 });
    await page.keyboard.type('2');
    await tabTo(page, 'Call', { most: 10 });
    await page.keyboard.press('Enter');
    await page.getByText('Succeeded').waitFor();
    // The result: its views are tabs that arrows move through.
    await page.getByRole('tab', { name: 'Tree' }).waitFor();
    await tabTo(page, 'Tree', { most: 10 });
    await page.keyboard.press('ArrowLeft');
    await page.getByRole('tab', { name: 'Table', selected: true }).waitFor();
    assert.ok((await focused(page)).seen);
    // History: opened, and called again.
    await tabTo(page, /^History/, { most: 20 });
    await page.keyboard.press('Enter');
    await tabTo(page, 'Call again', { most: 4 });
    await page.keyboard.press('Enter');
    await page.getByText('History (2)').waitFor();
    // Switched off and on again by undo.
    await palette(page, 'Tools');
    await tabTo(page, 'Tool demo.rows');
    await page.keyboard.press('Space');
    await page.getByText('demo.rows is off').waitFor();
    await tabTo(page, 'Undo', { key: 'Shift+Tab', most: 60 });
    await page.keyboard.press('Enter');
    await page.getByText('demo.rows is on').waitFor();

    // The palette: a tool filled in and called in place, and closed.
    await palette(page, 'demo.shapes');
    await page.getByRole('dialog', { name: 'demo.shapes' }).waitFor();
    // What is to be filled in has the keyboard already.
    await page.waitForFunction(() => document.activeElement?.labels?.[0]?.textContent === 'id');
    await page.keyboard.type('9007199254740993');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('dialog').getByText('9007199254740993').first().waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });

    // The console: code, run, out of the editor again.
    await palette(page, 'Console');
    await page.locator('.editor-host[data-ready="true"]').waitFor();
    assert.ok((await focused(page)).seen);
    await page.keyboard.type('len(demo.rows(count=3))');
    await page.keyboard.press('Control+Enter');
    await page.getByText('Succeeded').waitFor();
    await page.keyboard.press('Escape');
    await tabTo(page, 'Run', { most: 3 });
    await tabTo(page, 'Run again', { most: 20 });
    await page.keyboard.press('Enter');
    await page.getByText('Succeeded').waitFor();

    // Approvals: a call waits, and is allowed.
    await palette(page, 'Approvals');
    await page.getByText('Nothing waits for you.').waitFor();
    await onScreen(page);
    const run = server.json('POST', 'api/runs', { command: 'demo.danger(path="a")' });
    await page.getByText('"path": "a"').waitFor();
    await tabTo(page, 'Allow once', { most: 10 });
    await page.keyboard.press('Enter');
    assert.match((await run).body.text, /deleted a/);

    // Activity: tabs, a row, its details.
    await palette(page, 'Activity');
    await onScreen(page);
    await tabTo(page, 'Calls', { most: 5 });
    await tabTo(page, /^(?!Cancel).*demo\.danger/, { most: 10 });
    await page.keyboard.press('Enter');
    await page.getByRole('dialog', { name: 'Call' }).waitFor();
    await page.keyboard.press('Escape');
    assert.match((await focused(page)).name, /demo\.danger/);

    // Settings: a choice.
    await palette(page, 'Settings');
    await page.getByRole('heading', { name: 'Settings' }).waitFor();
    await onScreen(page);
    await tabTo(page, /^Colours/, { most: 10 });
    await page.keyboard.type('Dark');
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
    await tabTo(page, 'Name', { most: 40 });
  }));
