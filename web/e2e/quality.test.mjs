// Weight, accessibility and protection of the page.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import test from 'node:test';
import { Browser, Server, skip, upstream } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const PLACES = ['#/tools', '#/tools/demo.shapes', '#/tools/odd.unions', '#/editor', '#/console', '#/activity', '#/activity/stats', '#/activity/results', '#/activity/servers', '#/activity/audit', '#/approvals', '#/settings'];

async function findings(page) {
  // The page's policy forbids scripts of others; the browser's own door is open to the test.
  const client = await page.context().newCDPSession(page);
  await client.send('Runtime.evaluate', { expression: `${axe}; undefined` });
  const { result } = await client.send('Runtime.evaluate', { expression: "axe.run(document, { resultTypes: ['violations'] }).then((r) => JSON.stringify(r.violations))", awaitPromise: true });
  return JSON.parse(result.value)
    .filter((finding) => ['serious', 'critical', 'moderate'].includes(finding.impact))
    .map((finding) => `${finding.id}: ${finding.help} (${finding.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')})`);
}

const BUNDLE = '018faf50-b7b6-7a01-9a05-a22a6e0af101';

/** A bundle with a tool, and a call that waits for somebody. */
async function furnish(server) {
  await server.json('PUT', `tools/bundles/${BUNDLE}`, { slug: 'weather', displayName: 'Weather', isEnabled: true });
  await server.json('PUT', `tools/bundles/${BUNDLE}/tools/current/version/v1`, { type: 'http', impl: { urlTemplate: 'https://api.example.com/${city}' }, argSchema: { type: 'object', properties: { city: { type: 'string' }, level: { enum: ['a', 'b'] } }, required: ['city'] } });
  await server.json('POST', 'api/tools/demo.rows/invoke', { args: {} });
  await server.json('POST', 'api/tools/demo.danger/invoke', { args: { path: 'a' } });
  await server.json('POST', 'api/runs', { command: 'nowhere' });
  await server.json('POST', 'api/runs', { command: 'demo.rows(count=400)' });
}

/** What is opened on the way: a place, and what to do there. */
const STATES = [
  ['a form with mistakes', '#/tools/odd.nasty', async (page) => { await page.getByLabel('huge', { exact: true }).fill('-1'); await page.getByRole('button', { name: 'Call', exact: true }).click(); await page.locator('.problem').first().waitFor(); }],
  ['details', '#/tools/weather.current', (page) => page.getByRole('tab', { name: 'Details' }).click()],
  ['use', '#/tools/demo.rows', (page) => page.getByRole('tab', { name: 'Use' }).click()],
  ['a new tool', `#/editor/${BUNDLE}`, async (page) => { await page.getByRole('button', { name: 'New tool' }).click(); await page.getByText('More options').click(); await page.getByRole('button', { name: 'Add argument' }).click(); }],
  ['a new version', `#/editor/${BUNDLE}`, async (page) => { await page.getByRole('button', { name: 'New version' }).click(); await page.locator('.request-preview pre').waitFor(); }],
  ['a new recipe', `#/editor/${BUNDLE}`, async (page) => { await page.getByRole('button', { name: 'New recipe' }).click(); await page.getByLabel('Tool', { exact: true }).fill('demo.shapes'); await page.locator('.step-arguments').waitFor(); await page.getByText('Condition, repetition, errors').click(); }],
  ['an import', '#/editor', (page) => page.getByRole('button', { name: 'Import' }).click()],
  ['a question', `#/editor/${BUNDLE}`, (page) => page.getByRole('button', { name: 'Remove current v1' }).click()],
  ['a call', '#/activity', (page) => page.locator('.activity-row').first().click()],
  ['a log', '#/activity/servers', (page) => page.getByRole('button', { name: 'Log' }).first().click()],
  ['a stored result', '#/activity/results', async (page) => { await page.locator('.plain-list button').first().click(); await page.locator('dialog pre, dialog .lines').waitFor(); }],
  ['a run', '#/console?code=demo.rows(count%3D2)', async (page) => { await page.getByRole('button', { name: 'Run', exact: true }).click(); await page.locator('.tree-row').first().waitFor(); }],
];

for (const look of [{ dark: false, width: 1280 }, { dark: true, width: 1280 }, { dark: false, width: 390 }]) {
  test(`axe finds nothing on any screen (${look.dark ? 'dark' : 'light'}, ${look.width} px)`, { skip }, async () => {
    const server = await Server.start({ config: `${upstream('hostile')}run: {timout: 1}\nsecurity: {policy: {demo.slow: ask}}\noutput: {max_inline_size: 2000}\nhttp: {allowed_hosts: [api.example.com]}\n` });
    try {
      await furnish(server);
      const browser = await Browser.open(server, look);
      const { page } = browser;
      await browser.settled();
      const waiting = server.json('POST', 'api/runs', { command: 'demo.slow(seconds=0)' });
      await page.waitForFunction(() => document.title.startsWith('(1)'));
      const found = {};
      for (const place of PLACES) {
        await browser.show(place);
        if (place.endsWith('demo.shapes')) {
          await page.getByLabel('id', { exact: true }).fill('1');
          await page.getByRole('button', { name: 'Call', exact: true }).click();
          await page.locator('.tree-row').first().waitFor();
        }
        for (const finding of await findings(page)) (found[finding] ??= []).push(place);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${place} scrolls sideways`);
      }
      for (const [name, place, work] of STATES) {
        await browser.show('#/approvals');
        await browser.show(place);
        await work(page);
        await browser.settled();
        for (const finding of await findings(page)) (found[finding] ??= []).push(name);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${name} scrolls sideways`);
        if (await page.getByRole('dialog').count() > 0) await page.keyboard.press('Escape');
      }
      await browser.show('#/approvals');
      await page.getByRole('button', { name: 'Refuse' }).click();
      await waiting;
      await page.keyboard.press('Control+K');
      await page.getByRole('combobox', { name: 'Find a tool, snippet or page' }).waitFor();
      for (const finding of await findings(page)) (found[finding] ??= []).push('palette');
      assert.deepEqual(found, {});
      await browser.close(server);
    } finally {
      await server.stop();
    }
  });
}

test('the first load is one document below 70 kB, the console one file below 160 kB', { skip }, async () => {
  const server = await Server.start();
  try {
    const size = async (path, encoding) => {
      const response = await fetch(`${server.base}/${path}`, { headers: { 'Accept-Encoding': encoding } });
      assert.equal(response.headers.get('content-encoding'), encoding);
      return Number(response.headers.get('content-length'));
    };
    const html = await (await fetch(`${server.base}/`)).text();
    assert.equal(/<(script|link)[^>]+(src|href)="(?!data:)/.exec(html), null);
    const [editor, bundles] = ['editor', 'bundles'].map((name) => new RegExp(`assets/${name}-\\w+\\.js`).exec(html)[0]);
    const table = [];
    for (const [name, path, limit] of [['first load', '', 70_000], ['bundles', bundles, 70_000], ['console', editor, 160_000]]) {
      const row = { name, gzip: await size(path, 'gzip'), brotli: await size(path, 'br'), limit };
      table.push(row);
      assert.ok(row.gzip <= limit && row.brotli <= limit, JSON.stringify(row));
    }
    console.table(table);
  } finally {
    await server.stop();
  }
});

test('other sites cannot frame, read or use the page', { skip }, async () => {
  const server = await Server.start();
  try {
    const { headers } = await fetch(`${server.base}/`);
    const policy = headers.get('content-security-policy');
    for (const part of ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"]) assert.ok(policy.includes(part), part);
    assert.ok(!/unsafe/.test(policy), policy);
    assert.equal(headers.get('x-frame-options'), 'DENY');
    assert.equal(headers.get('access-control-allow-origin'), null);
    const foreign = { Origin: 'https://evil.example' };
    for (const [method, path, body] of [['GET', 'api/tools'], ['POST', 'api/runs', { command: '1' }], ['GET', 'api/session'], ['PATCH', 'api/packs/file', { isEnabled: false }]]) {
      assert.equal((await server.json(method, path, body, foreign)).status, 403, path);
    }
    // A name that somebody else's DNS gives this machine is not ours.
    for (const [path, method] of [['/', 'GET'], ['/api/tools', 'GET'], ['/api/events', 'GET'], ['/api/runs', 'POST']]) assert.equal(await statusFor(server, path, method, { Host: 'evil.example' }), 403, path);
    // No other site is told that it may ask.
    const preflight = await fetch(`${server.base}/api/runs`, { method: 'OPTIONS', headers: { ...foreign, 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'content-type' } });
    assert.equal(preflight.headers.get('access-control-allow-origin'), null);
    assert.ok(preflight.status >= 400, String(preflight.status));
    // A form of another site can send text, not JSON.
    const form = await fetch(`${server.base}/api/runs`, { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body: '{"command": "1"}' });
    assert.equal(form.status, 415);
  } finally {
    await server.stop();
  }
});

/** The status for headers that `fetch` does not let one set. */
function statusFor(server, path, method, headers) {
  const { hostname, port } = new URL(server.base);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, path, method, headers }, (response) => { response.resume(); resolve(response.statusCode); });
    sent.on('error', reject).end();
  });
}

test('the page says when the server is gone, and goes on when it is back', { skip }, async () => {
  const first = await Server.start();
  const browser = await Browser.open(first, { at: '#/tools/demo.rows' });
  const { page } = browser;
  await browser.settled();
  await first.stop();
  await page.getByText('Connection lost').waitFor();
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.locator('.result').getByText('The server does not answer.').waitFor();
  const second = await Server.start({ args: ['serve', '--http', `127.0.0.1:${new URL(first.base).port}`] });
  try {
    await page.locator('main[data-live="open"]').waitFor();
    await page.getByText('Connection lost').waitFor({ state: 'detached' });
    // Said once, in its place: no storm of messages.
    assert.equal(await page.locator('.toast').count(), 0);
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByText('Succeeded').waitFor();
    await browser.close(second);
  } finally {
    await second.stop();
  }
});
