import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { plan, resolve, valueOf, Entries, RawText, Chosen, stringify } = await load('src/form/schema.ts', 'src/form/draft.ts', 'src/json/lossless.ts');

const control = (schema, root = schema) => plan(schema, root).control;

test('every keyword of a simple schema has its control', () => {
  for (const [schema, expected] of [
    [{ type: 'string' }, 'text'],
    [{ type: 'integer' }, 'number'],
    [{ type: 'number' }, 'number'],
    [{ type: 'boolean' }, 'boolean'],
    [{ type: 'null' }, 'null'],
    [{ enum: ['a', 1, null] }, 'choice'],
    [{ const: 1 }, 'choice'],
    [{ oneOf: [{ const: 'a' }, { const: 'b' }] }, 'choice'],
    [{ type: 'array', items: { type: 'string' } }, 'list'],
    [{ type: 'array' }, 'list'],
    [{ type: 'object', properties: { a: {} } }, 'object'],
    [{ properties: { a: {} } }, 'object'],
    [{ type: 'object', additionalProperties: { type: 'string' } }, 'map'],
    [{ type: ['string', 'null'] }, 'text'],
    [{ anyOf: [{ type: 'array', items: {} }, { type: 'null' }] }, 'list'],
    [{ type: ['string', 'integer', 'null'] }, 'union'],
    [{ anyOf: [{ type: 'string' }, { type: 'integer' }] }, 'union'],
    [{ allOf: [{ type: 'object', properties: { a: {} } }, { properties: { b: {} }, required: ['b'] }] }, 'object'],
  ]) assert.equal(control(schema), expected, JSON.stringify(schema));
});

test('what a control cannot express is a JSON editor', () => {
  const recursive = { $defs: { a: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' };
  for (const schema of [
    {}, true, false, null, 7, 'x', [], undefined,
    { type: 'object' },
    { type: 'array', prefixItems: [{ type: 'string' }] },
    { not: { type: 'string' } },
    { type: 'object', patternProperties: { '^a': {} } },
    { $ref: '#/nowhere' },
    { $ref: 'https://example.org/schema' },
    { $ref: 12 },
    { $ref: '#/%E0%A4%A' },
    recursive,
    { allOf: [{ type: 'string' }, { type: 'integer' }] },
    { type: 'nonsense' },
    { enum: [] },
    { enum: Array.from({ length: 600 }, (_, n) => n) },
    { anyOf: [] },
    { anyOf: Array.from({ length: 100 }, () => ({ type: 'string' })) },
    { type: 'object', properties: Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`p${n}`, {}])) },
  ]) assert.equal(control(schema), 'json', JSON.stringify(schema));
});

test('references keep what stands beside them', () => {
  const root = { $defs: { A: { type: 'string', description: 'inner' } } };
  assert.deepEqual(resolve({ $ref: '#/$defs/A', description: 'outer' }, root), { type: 'string', description: 'outer' });
});

test('required properties come first, each group in the order of the schema', () => {
  const planned = plan({ type: 'object', properties: { a: {}, b: {}, c: {} }, required: ['c'] }, {});
  assert.deepEqual(planned.properties.map(({ name }) => name), ['c', 'a', 'b']);
});

test('an untouched field is absent, a number is sent as it was typed', () => {
  const draft = new Entries([['id', new RawText('9007199254740993')], ['price', new RawText('1.50')], ['none', undefined], ['list', [new RawText('1')]], ['u', new Chosen(0, 'x')], ['e', new Entries([])]]);
  const { value, problems } = valueOf(draft);
  assert.equal(stringify(value), '{"id":9007199254740993,"price":1.50,"list":[1],"u":"x","e":{}}');
  assert.deepEqual(problems, []);
});

test('what is not yet a value is a problem at its place', () => {
  const { problems } = valueOf(new Entries([['a/b', new Entries([['n', new RawText('1.')]])]]));
  assert.deepEqual(problems.map(({ path }) => path), ['/a~1b/n']);
});

test('variables of templates become arguments', async () => {
  const { missingArguments, withArguments, sample } = await load('src/form/templates.ts', 'src/form/sample.ts');
  const tool = { impl: { urlTemplate: 'https://x/${city}?key=${API_KEY}&lang=${lang:-en}', headers: { A: '${ token }' }, secrets: ['token'] }, argSchema: { type: 'object', properties: {}, additionalProperties: false } };
  const missing = missingArguments(tool, ['API_KEY']);
  assert.deepEqual(missing, [{ name: 'city', isRequired: true }, { name: 'lang', isRequired: false }]);
  const done = withArguments(tool, missing);
  assert.deepEqual(done.argSchema, { type: 'object', properties: { city: { type: 'string' }, lang: { type: 'string' } }, additionalProperties: false, required: ['city'] });
  assert.deepEqual(missingArguments(done, ['API_KEY']), []);
  assert.deepEqual(sample(done.argSchema), { city: 'city', lang: 'lang' });
  assert.deepEqual(sample({ properties: { n: { type: 'integer', minimum: 3 }, e: { enum: ['a', 'b'] }, l: { type: 'array', items: { type: 'boolean' } }, d: { default: null } } }), { n: 3, e: 'a', l: [true], d: null });
  assert.deepEqual(sample('nonsense'), {});
});
