// Recipes put together on the page, and bundles that come from elsewhere and go there.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { skip, withPage } from './harness.mjs';

async function newBundle(page, slug) {
  await page.getByRole('button', { name: 'New bundle' }).click();
  await page.getByLabel('Short name', { exact: true }).fill(slug);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: slug }).waitFor();
}

test('a recipe is put together, tried step by step, stored and called', { skip }, () =>
  withPage({ browser: { at: '#/editor' } }, async ({ page, server, browser }) => {
    await newBundle(page, 'flow');
    await page.getByRole('button', { name: 'New recipe' }).click();
    await page.getByLabel('Short name', { exact: true }).fill('names');
    await page.getByRole('button', { name: 'Add argument' }).click();
    await page.getByRole('group', { name: 'argument1' }).getByLabel('Name', { exact: true }).fill('count');
    await page.getByRole('group', { name: 'count' }).getByLabel('Kind').selectOption({ label: 'whole number' });
    await page.getByLabel('Step', { exact: true }).fill('list');
    await page.getByLabel('Tool', { exact: true }).fill('demo.rows');
    await page.getByLabel('Reference for count').selectOption('${args.count}');
    await page.getByRole('button', { name: 'Add step' }).click();
    const second = page.locator('.steps > li').nth(1);
    await second.getByLabel('Step', { exact: true }).fill('shape');
    await second.getByLabel('Tool', { exact: true }).fill('demo.shapes');
    await page.locator('details', { hasText: 'Arguments to try it with' }).getByLabel('count', { exact: true }).fill('3');
    await page.getByRole('button', { name: 'Run to list' }).click();
    await page.locator('.steps > li').first().getByText('row 2').first().waitFor();
    // What the trial has shown can be chosen from.
    await second.getByLabel('Reference for id').selectOption('${steps.list.value[0].n}');
    await page.getByRole('button', { name: 'Run to shape' }).click();
    await second.getByText('1.5', { exact: true }).first().waitFor();
    await page.getByText('Value of the recipe').click();
    await page.getByRole('textbox', { name: 'Result', exact: true }).fill('{"first": "${steps.list.value[0].name}", "id": "${steps.shape.value.id}"}');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('names v1 was saved').waitFor();
    const reply = await server.json('POST', 'api/tools/flow.names/invoke', { args: { count: 2 } });
    assert.deepEqual(reply.body.value, { first: 'row 0', id: 0 });
    // A stored recipe opens in the same form.
    await page.getByRole('button', { name: 'New version' }).click();
    assert.equal(await page.getByLabel('Tool', { exact: true }).first().inputValue(), 'demo.rows');
    await browser.go('#/tools/flow.names');
    await page.getByLabel('count', { exact: true }).waitFor();
  }));

test('long numbers of a recipe are stored and shown unrounded', { skip }, () =>
  withPage({ browser: { at: '#/editor' } }, async ({ page, server }) => {
    await newBundle(page, 'flow');
    await page.getByRole('button', { name: 'New recipe' }).click();
    await page.getByLabel('Short name', { exact: true }).fill('large');
    await page.getByLabel('Tool', { exact: true }).fill('demo.shapes');
    await page.getByLabel('id', { exact: true }).fill('9007199254740993123');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('large v1 was saved').waitFor();
    const called = await fetch(`${server.base}/api/tools/flow.large/invoke`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' });
    assert.match(await called.text(), /"id":9007199254740993123/);
    await page.getByRole('button', { name: 'New version' }).click();
    await page.getByLabel('id', { exact: true }).waitFor();
    assert.equal(await page.getByLabel('id', { exact: true }).inputValue(), '9007199254740993123');
  }));

test('a mistake in a recipe is told where the form is', { skip }, () =>
  withPage({ browser: { at: '#/editor' } }, async ({ page }) => {
    await newBundle(page, 'flow');
    await page.getByRole('button', { name: 'New recipe' }).click();
    await page.getByLabel('Short name', { exact: true }).fill('wrong');
    await page.getByLabel('Tool', { exact: true }).fill('demo.slow');
    await page.getByText('Value of the recipe').click();
    await page.getByRole('textbox', { name: 'Result', exact: true }).fill('"${steps.nowhere.value}"');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.locator('.notice.bad').getByText(/nowhere/).waitFor();
  }));

test('a curl command becomes a tool, and a bundle goes out and comes in as a file', { skip }, () =>
  withPage({ server: { config: 'http:\n  allowed_hosts: [api.example.com]\n' }, browser: { at: '#/editor' } }, async ({ page, server }) => {
    await page.getByRole('button', { name: 'Import' }).first().click();
    await page.getByLabel('Or a curl command, an address, or a document').fill("curl 'https://api.example.com/v1/items?limit=5' -H 'Accept: application/json'");
    await page.getByLabel('Bundle', { exact: true }).fill('items');
    await page.getByRole('button', { name: 'Preview' }).click();
    await page.getByText('1 tool', { exact: false }).waitFor();
    await page.getByRole('form', { name: 'Import' }).getByRole('button', { name: 'Import' }).click();
    await page.getByRole('link', { name: 'items' }).click();
    await page.getByRole('heading', { name: 'items' }).waitFor();
    const waiting = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Export' }).click();
    const download = await waiting;
    assert.equal(download.suggestedFilename(), 'items.zip');
    const file = join(server.folder, 'items.zip');
    writeFileSync(file, readFileSync(await download.path()));
    await page.getByRole('link', { name: /Bundles/ }).first().click();
    await page.getByRole('button', { name: 'Import' }).first().click();
    await page.getByLabel('File (ZIP, OpenAPI, Arazzo, Postman)').setInputFiles(file);
    await page.getByLabel('Bundle', { exact: true }).fill('again');
    await page.getByRole('form', { name: 'Import' }).getByRole('button', { name: 'Import' }).click();
    await page.getByRole('link', { name: 'again' }).waitFor();
  }));

const OPENAPI = `openapi: 3.1.0
info: {title: Pets, version: "1"}
servers: [{url: https://pets.example.com/v1}]
paths:
  /pets/{id}:
    get:
      operationId: getPet
      summary: One pet
      parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
      responses: {"200": {description: ok}}
  /pets:
    post:
      operationId: addPet
      requestBody: {content: {application/json: {schema: {type: object, properties: {name: {type: string}}, required: [name]}}}}
      responses: {"201": {description: ok}}
`;
const POSTMAN = JSON.stringify({ info: { name: 'Shop', schema: 'https://schema.getpostman.com/json/collection/v2.1.0/collection.json' }, item: [{ name: 'List orders', request: { method: 'GET', url: { raw: 'https://shop.example.com/orders?page={{page}}', protocol: 'https', host: ['shop', 'example', 'com'], path: ['orders'], query: [{ key: 'page', value: '{{page}}' }] } } }] });

test('OpenAPI and Postman documents are looked at first, and become tools with forms', { skip }, () =>
  withPage({ server: { config: 'http: {allowed_hosts: ["*.example.com"]}\n' }, browser: { at: '#/editor' } }, async ({ page, browser }) => {
    const form = page.getByRole('form', { name: 'Import' });
    const open = () => page.getByRole('button', { name: 'Import' }).first().click();
    await open();
    await form.getByRole('textbox', { name: 'Or a curl command' }).fill(OPENAPI);
    await form.getByRole('button', { name: 'Preview' }).click();
    await form.getByRole('status').getByText('2 tools').waitFor();
    await form.getByRole('button', { name: 'Import' }).click();
    await page.getByText('pets was saved').waitFor();
    await open();
    await form.getByLabel('File (ZIP').setInputFiles({ name: 'shop.json', mimeType: 'application/json', buffer: Buffer.from(POSTMAN) });
    await form.getByRole('button', { name: 'Import' }).click();
    await page.getByText('shop was saved').waitFor();
    await browser.show('#/tools/pets.get_pet');
    await page.getByLabel('id', { exact: true }).fill('12');
    await page.getByRole('button', { name: 'Dry run' }).click();
    await page.getByText('https://pets.example.com/v1/pets/12').first().waitFor();
    // A document that is none says so.
    await browser.show('#/editor');
    await open();
    await form.getByRole('textbox', { name: 'Or a curl command' }).fill('nothing of the kind');
    await form.getByRole('button', { name: 'Preview' }).click();
    await form.getByRole('alert').waitFor();
  }));
