// Bundles and HTTP tools made on the page.
import assert from 'node:assert/strict';
import test from 'node:test';
import { skip, withPage } from './harness.mjs';

test('a bundle and a tool are made, tried dry, versioned, and deleted', { skip }, () =>
  withPage({ server: { config: 'http:\n  allowed_hosts: [api.example.com]\n' }, browser: { at: '#/editor' } }, async ({ page, server, browser }) => {
    await page.getByRole('button', { name: 'New bundle' }).click();
    await page.getByLabel('Short name', { exact: true }).fill('weather');
    await page.getByLabel('Title', { exact: true }).fill('Weather');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'weather' }).waitFor();
    await page.getByRole('button', { name: 'New tool' }).click();
    await page.getByLabel('Short name', { exact: true }).fill('current');
    await page.getByLabel('Title', { exact: true }).fill('Current weather');
    await page.getByLabel('Address', { exact: true }).fill('ftp://nowhere');
    await page.getByRole('button', { name: 'Save' }).click();
    // The server's own words, where the form is.
    await page.getByText(/http/).first().waitFor();
    await page.locator('.notice.bad').waitFor();
    await page.getByLabel('Address', { exact: true }).fill('https://api.example.com/v1?q=${city}');
    await page.getByText('The templates use city').waitFor();
    await page.getByRole('button', { name: 'Add as arguments' }).click();
    // The request as it is typed, with whatever arguments one wants to try.
    const request = page.getByRole('region', { name: 'The request that it would send' }).locator('pre');
    await request.getByText('https://api.example.com/v1?q=city').waitFor();
    await page.getByText('Arguments to try it with').click();
    await page.getByRole('textbox', { name: 'city' }).fill('Bad Düben');
    await request.getByText('https://api.example.com/v1?q=Bad%20D%C3%BCben').waitFor();
    assert.deepEqual((await server.json('GET', 'tools/tools?bundleIDs=weather&includeDisabled=true')).body.tools, []);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('current v1 was saved').waitFor();
    await page.getByRole('button', { name: 'New version' }).click();
    // The next label is suggested.
    assert.equal(await page.getByLabel('Version', { exact: true }).inputValue(), 'v2');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('current v2 was saved').waitFor();
    // A version is switched off and back on.
    const version = page.getByRole('switch', { name: 'Version current v2' });
    await version.click();
    await page.getByText('current v2 is off').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('current v2 is on').waitFor();
    await browser.go('#/tools/weather.current');
    await page.getByLabel('city', { exact: true }).fill('São Paulo');
    await page.getByRole('button', { name: 'Dry run' }).click();
    await page.getByText('https://api.example.com/v1?q=S%C3%A3o%20Paulo').waitFor();
    await browser.go('#/editor');
    await page.getByRole('link', { name: 'weather' }).click();
    for (const name of ['current v1', 'current v2']) {
      await page.getByRole('button', { name: `Remove ${name}` }).click();
      await page.getByRole('dialog', { name: `Delete ${name}?` }).getByRole('button', { name: 'Delete', exact: true }).click();
      await page.getByRole('button', { name: `Remove ${name}` }).waitFor({ state: 'detached' });
    }
    await page.getByText('This bundle has no tools yet.').waitFor();
    await page.getByRole('button', { name: 'Delete bundle' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByText('No bundles of your own yet.').waitFor();
    assert.equal((await server.json('GET', 'api/tools/weather.current')).status, 404);
  }));

test('the server’s errors are at their fields', { skip }, () =>
  withPage({ server: { config: 'http:\n  allowed_hosts: [api.example.com]\n' }, browser: { at: '#/editor' } }, async ({ page }) => {
    await page.getByRole('button', { name: 'New bundle' }).click();
    await page.getByLabel('Short name', { exact: true }).fill('weather');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'weather' }).waitFor();
    await page.getByRole('button', { name: 'New tool' }).click();
    await page.getByLabel('Short name', { exact: true }).fill('current');
    await page.getByLabel('Address', { exact: true }).fill('https://api.example.com/');
    /** What is said of a field that is not valid. */
    const said = async (label) => {
      const field = page.getByLabel(label, { exact: true });
      await page.waitForFunction((element) => element.getAttribute('aria-invalid') === 'true', await field.elementHandle());
      const ids = (await field.getAttribute('aria-describedby')).split(' ');
      return (await Promise.all(ids.map((id) => page.locator(`[id="${id}"]`).textContent()))).join(' ');
    };
    const isFine = async (label) => page.waitForFunction((element) => element.getAttribute('aria-invalid') !== 'true', await page.getByLabel(label, { exact: true }).elementHandle());
    await page.getByText('More options').click();
    await page.getByLabel('Timeout in milliseconds', { exact: true }).fill('0');
    assert.match(await said('Timeout in milliseconds'), /at least 1/);
    await page.getByLabel('Timeout in milliseconds', { exact: true }).fill('500');
    await isFine('Timeout in milliseconds');
    await page.getByLabel('Retries', { exact: true }).fill('11');
    assert.match(await said('Retries'), /at most 10/);
    await page.getByLabel('Retries', { exact: true }).fill('2');
    await isFine('Retries');
    await page.getByRole('group', { name: 'Status codes of success' }).getByRole('button', { name: 'Add item' }).click();
    const code = page.getByRole('group', { name: 'Status codes of success' }).getByRole('textbox').first();
    await code.fill('99');
    await page.getByText('99 is not a status that ends a request').first().waitFor();
    await page.waitForFunction((element) => element.getAttribute('aria-invalid') === 'true', await code.elementHandle());
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.notice.bad').waitFor();
    await code.fill('201');
    await page.waitForFunction((element) => element.getAttribute('aria-invalid') !== 'true', await code.elementHandle());
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('current v1 was saved').waitFor();
  }));

test('a bundle is changed: its authentication, with the variant’s type filled in', { skip }, () =>
  withPage({ browser: { at: '#/editor' } }, async ({ page, server }) => {
    await page.getByRole('button', { name: 'New bundle' }).click();
    await page.getByLabel('Short name', { exact: true }).fill('weather');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('heading', { name: 'weather' }).waitFor();
    await page.getByRole('button', { name: 'Edit bundle' }).click();
    assert.equal(await page.getByLabel('Short name', { exact: true }).inputValue(), 'weather');
    await page.getByLabel('Title', { exact: true }).fill('Weather of today');
    await page.getByLabel('Variant of Authentication', { exact: true }).selectOption({ label: 'API key' });
    await page.getByLabel('Sent in', { exact: true }).selectOption({ label: 'header' });
    await page.getByLabel('Name of the header or parameter', { exact: true }).fill('X-Key');
    await page.getByLabel('Value', { exact: true }).fill('${WEATHER_KEY}');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('weather was saved').waitFor();
    const { body } = await server.json('GET', 'tools/bundles/weather');
    assert.equal(body.displayName, 'Weather of today');
    assert.deepEqual({ type: body.auth.type, in: body.auth.in, name: body.auth.name, value: body.auth.value }, { type: 'apiKey', in: 'header', name: 'X-Key', value: '${WEATHER_KEY}' });
    // What is stored opens in the same form, and a mistake is told at its field.
    await page.getByRole('button', { name: 'Edit bundle' }).click();
    assert.equal(await page.getByLabel('Name of the header or parameter', { exact: true }).inputValue(), 'X-Key');
    await page.getByLabel('Address of the documentation', { exact: true }).fill('nowhere');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.notice.bad').getByText(/docs must be a web address/).waitFor();
    await page.getByRole('button', { name: 'Cancel' }).click();
  }));
