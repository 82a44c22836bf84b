// Weight, accessibility and protection of the page.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { Browser, Server, skip, upstream } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const PLACES = ['#/tools', '#/tools/demo.shapes', '#/tools/odd.unions', '#/editor', '#/console', '#/activity', '#/activity/stats', '#/activity/results', '#/activity/servers', '#/approvals', '#/settings'];

async function findings(page) {
  // The page's policy forbids scripts of others; the browser's own door is open to the test.
  const client = await page.context().newCDPSession(page);
  await client.send('Runtime.evaluate', { expression: `${axe}; undefined` });
  const { result } = await client.send('Runtime.evaluate', { expression: "axe.run(document, { resultTypes: ['violations'] }).then((r) => JSON.stringify(r.violations))", awaitPromise: true });
  return JSON.parse(result.value)
    .filter((finding) => ['serious', 'critical', 'moderate'].includes(finding.impact))
    .map((finding) => `${finding.id}: ${finding.help} (${finding.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')})`);
}

for (const look of [{ dark: false, width: 1280 }, { dark: true, width: 1280 }, { dark: false, width: 390 }]) {
  test(`axe finds nothing on any screen (${look.dark ? 'dark' : 'light'}, ${look.width} px)`, { skip }, async () => {
    const server = await Server.start({ config: upstream('hostile') });
    try {
      await server.json('POST', 'api/tools/demo.rows/invoke', { args: {} });
      await server.json('POST', 'api/runs', { command: 'nowhere' });
      const browser = await Browser.open(server, look);
      const { page } = browser;
      await page.locator('.tool-line').first().waitFor();
      const found = {};
      for (const place of PLACES) {
        await browser.go(place);
        await page.waitForTimeout(400);
        if (place.endsWith('demo.shapes')) {
          await page.getByLabel('id', { exact: true }).fill('1');
          await page.getByRole('button', { name: 'Call', exact: true }).click();
          await page.locator('.tree-row').first().waitFor();
        }
        for (const finding of await findings(page)) (found[finding] ??= []).push(place);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${place} scrolls sideways`);
      }
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
    const editor = /assets\/editor-\w+\.js/.exec(html)[0];
    const table = [];
    for (const [name, path, limit] of [['first load', '', 70_000], ['console', editor, 160_000]]) {
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
    // A form of another site can send text, not JSON.
    const form = await fetch(`${server.base}/api/runs`, { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body: '{"command": "1"}' });
    assert.equal(form.status, 415);
  } finally {
    await server.stop();
  }
});
