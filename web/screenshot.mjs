// Makes the picture of the page that the README shows: `npm run screenshot`, with a binary in ../target/debug or ONETOOL_BIN.
// `npm run screens` takes every screen, to look at.
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { withPage } from './e2e/harness.mjs';

const folder = fileURLToPath(new URL('../docs/images', import.meta.url));
mkdirSync(folder, { recursive: true });
await withPage({ browser: { at: '#/tools/demo.rows', width: 1280, height: 760 } }, async ({ page, browser }) => {
  await browser.settled();
  await page.getByLabel('count', { exact: true }).fill('5');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await page.getByRole('tab', { name: 'Table' }).click();
  await page.getByRole('columnheader', { name: 'name' }).waitFor();
  await page.locator('.detail-pane').evaluate((pane) => { pane.scrollTop = 0; });
  await page.screenshot({ path: `${folder}/admin-page.png` });
});
