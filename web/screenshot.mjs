// Makes the picture of the page that the README shows: `npm run screenshot`, with a binary in ../target/debug or ONETOOL_BIN.
// With SCREENSHOTS=folder it takes every screen instead, light, dark, as wide as a phone and in German, to look at.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Browser, Server, upstream, withPage } from './e2e/harness.mjs';

async function forReadme() {
  const folder = fileURLToPath(new URL('../docs/images', import.meta.url));
  mkdirSync(folder, { recursive: true });
  await withPage({ browser: { at: '#/tools/demo.rows', width: 1280, height: 760 } }, async ({ page }) => {
    await page.getByLabel('count', { exact: true }).fill('5');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await page.getByRole('tab', { name: 'Table' }).click();
    await page.getByRole('columnheader', { name: 'name' }).waitFor();
    await page.locator('.detail-pane').evaluate((pane) => { pane.scrollTop = 0; });
    await page.screenshot({ path: `${folder}/admin-page.png` });
  });
}

const PLACES = ['tools', 'tools/demo.shapes', 'tools/odd.markup', 'editor', 'console', 'activity', 'activity/stats', 'activity/results', 'activity/servers', 'approvals', 'settings'];

async function everything(folder) {
  mkdirSync(folder, { recursive: true });
  const server = await Server.start({ config: `${upstream('hostile')}stats: {flush_interval_seconds: 1}\nrun:\n  timout: 5\nsecurity: {policy: {demo.danger: ask}}\noutput: {max_inline_size: 2000}\n` });
  try {
    for (const count of [1, 20, 300]) await server.json('POST', 'api/tools/demo.rows/invoke', { args: { count } });
    await server.json('POST', 'api/runs', { command: 'demo.rows(count=300)' });
    await server.json('POST', 'api/runs', { command: 'nowhere()' });
    const looks = { light: {}, dark: { dark: true }, phone: { width: 390, height: 800 }, german: { locale: 'de-DE' } };
    for (const [look, options] of Object.entries(looks)) {
      const browser = await Browser.open(server, options);
      await browser.page.locator('.tool-line').first().waitFor();
      const run = server.json('POST', 'api/runs', { command: 'demo.danger(path="/home/me/report.txt")' });
      for (const place of PLACES) {
        await browser.go(`#/${place}`);
        await browser.page.waitForTimeout(500);
        await browser.page.screenshot({ path: join(folder, `${look}-${place.replaceAll('/', '-')}.png`) });
      }
      await browser.go('#/approvals');
      await browser.page.locator('.card .danger').first().click();
      await run;
      await browser.close(server);
    }
  } finally {
    await server.stop();
  }
}

await (process.env.SCREENSHOTS ? everything(process.env.SCREENSHOTS) : forReadme());
