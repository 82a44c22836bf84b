import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

globalThis.navigator ??= { languages: ['en'] };
const { plan, resolve, valueOf, draftOfPlain, Entries, RawText, Chosen, stringify, parse, toExact, guess, initial, messages } =
  await load('src/form/schema.ts', 'src/form/draft.ts', 'src/form/fit.ts', 'src/form/messages.ts', 'src/json/lossless.ts');
const { Validator } = await import('@cfworker/json-schema');

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
    [{ allOf: [{ type: 'number', minimum: 1 }, { type: 'integer', minimum: 3 }] }, 'number'],
    [{ allOf: [{ enum: ['a', 'b'] }, { enum: ['b', 'c'] }] }, 'choice'],
    [{ type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }] }, 'list'],
    [{ type: 'array', items: [{ type: 'string' }] }, 'list'],
    [{ type: 'object', patternProperties: { '^a': {} } }, 'map'],
    [{ type: 'object', properties: { a: {} }, if: { required: ['a'] }, then: { required: ['b'] } }, 'object'],
    [{ type: 'object', properties: { a: {}, b: {} }, oneOf: [{ required: ['a'] }, { required: ['b'] }] }, 'object'],
    [{ type: 'string', not: { const: '' } }, 'text'],
    [{ anyOf: [{ type: 'string', format: 'date' }, { type: 'string', format: 'date-time' }] }, 'union'],
  ]) assert.equal(control(schema), expected, JSON.stringify(schema));
});

test('what a control cannot express is a JSON editor', () => {
  const recursive = { $defs: { a: { $ref: '#/$defs/a' } }, $ref: '#/$defs/a' };
  for (const schema of [
    {}, true, false, null, 7, 'x', [], undefined,
    { type: 'object' },
    { not: { type: 'string' } },
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

const union = { oneOf: [
  { type: 'object', properties: { kind: { const: 'circle' }, radius: { type: 'number' } }, required: ['kind', 'radius'] },
  { type: 'object', properties: { kind: { enum: ['square'] }, side: { type: 'number' } }, required: ['kind', 'side'] },
  { type: 'object', properties: { points: { type: 'array', items: { type: 'number' } } }, required: ['points'] },
  { type: 'string' },
] };

test('variants are told apart by their fixed values, their names and their kinds', () => {
  const planned = plan(union, union);
  assert.deepEqual(planned.options.map(({ label }) => label), ['kind: circle', 'kind: square', '{points}', 'string']);
  for (const [value, expected] of [[{ kind: 'square', side: 1 }, 1], [{ kind: 'circle' }, 0], [{ points: [] }, 2], ['x', 3]]) assert.equal(guess(planned, draftOfPlain(value), union), expected, JSON.stringify(value));
  assert.equal(stringify(valueOf(initial(planned.options[1].schema, union)).value), '{"kind":"square"}');
});

test('variants have what stands beside them', () => {
  const schema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'], oneOf: [{ properties: { a: { type: 'integer' } }, required: ['a'] }, { properties: { b: { type: 'integer' } } }] };
  const planned = plan(schema, schema);
  assert.deepEqual(planned.options.map(({ label }) => label), ['{a}', '{b}']);
  assert.deepEqual(plan(planned.options[0].schema, schema).properties.map(({ name, required }) => [name, required]), [['a', true], ['name', true]]);
});

test('conditions do not hide fields, and required names without a schema have one', () => {
  const schema = { type: 'object', properties: { a: {} }, required: ['a', 'z'], if: { properties: { a: { const: 1 } } }, then: { properties: { b: { type: 'string' } } }, dependentSchemas: { a: { properties: { c: {} } } } };
  assert.deepEqual(plan(schema, schema).properties.map(({ name }) => name), ['a', 'z', 'b', 'c']);
});

test('what must be there and can be one thing only is filled in; nothing else is', () => {
  const schema = { type: 'object', properties: { v: { const: 2 }, w: { const: 3 }, o: { type: 'object', properties: { k: { const: 'x' }, t: { type: 'string' } }, required: ['k', 't'] }, l: { type: 'array', items: {} }, pair: { prefixItems: [{ type: 'string' }, { type: 'number' }], type: 'array' }, m: { type: 'object', additionalProperties: {} } }, required: ['v', 'o', 'l', 'm'] };
  assert.equal(stringify(valueOf(initial(schema, schema)).value), '{"v":2,"o":{"k":"x"}}');
  const endless = { $defs: { n: { type: 'object', properties: { next: { $ref: '#/$defs/n' } }, required: ['next'] } }, $ref: '#/$defs/n' };
  assert.ok(initial(endless, endless) instanceof Entries);
});

test('integers of a schema are not rounded', () => {
  const schema = toExact(parse('{"enum": [9007199254740993, 9223372036854775808], "default": 9007199254740993}'));
  const planned = plan(schema, schema);
  assert.equal(planned.default, '9007199254740993');
  assert.deepEqual(planned.values.map((value) => stringify(valueOf(draftOfPlain(value)).value)), ['9007199254740993', '9223372036854775808']);
});

test('names of a map are given, and given once', () => {
  const map = (...names) => valueOf(new Entries(names.map((name) => [name, 'x']), true)).problems.map(({ kind }) => kind);
  assert.deepEqual([map('a', 'b'), map(''), map('a', 'a')], [[], ['noName'], ['sameName']]);
});

/** The messages for a value, by pointer. */
function said(schema, value) {
  const { errors } = new Validator(schema, '2020-12', false).validate(value);
  return Object.fromEntries(messages(errors.map((error) => ({ path: error.instanceLocation.replace(/^#/, ''), keyword: error.keyword, at: error.keywordLocation, message: error.error }))));
}

test('mistakes are said where they are, in plain words', () => {
  const schema = { type: 'object', additionalProperties: false, required: ['id'], properties: {
    id: { type: 'integer', minimum: 3 }, name: { type: 'string', minLength: 2, pattern: '^[a-z]+$' }, tags: { type: 'array', maxItems: 1, items: { type: 'string' } }, day: { type: 'string', format: 'date' }, level: { enum: ['low', 3, null] }, shape: union, size: { exclusiveMaximum: 1e3 },
  } };
  assert.deepEqual(said(schema, {}), { '/id': 'This field is required.' });
  assert.deepEqual(said(schema, { id: 2 }), { '/id': 'At least 3.' });
  assert.deepEqual(said(schema, { id: 'x' }), { '/id': 'This must be: whole number.' });
  assert.deepEqual(said(schema, { id: 3, name: 'a', tags: ['a', 'b'], day: 'soon', size: 1000 }), { '/name': 'At least 2 characters.', '/tags': 'At most 1 items.', '/day': 'This is not a valid date.', '/size': 'Less than 1000.' });
  assert.deepEqual(said(schema, { id: 3, level: 'x' }), { '/level': 'One of ["low",3,null].' });
  assert.deepEqual(said(schema, { id: 3, tags: [1] }), { '/tags/0': 'This must be: text.' });
  assert.deepEqual(said(schema, { id: 3, other: 1 }), { '/other': 'The tool does not know this field.' });
});

test('of a union, the mistakes of the variant that is meant are said', () => {
  const schema = { type: 'object', properties: { shape: union } };
  assert.deepEqual(said(schema, { shape: { kind: 'square' } }), { '/shape/side': 'This field is required.' });
  assert.deepEqual(said(schema, { shape: { kind: 'circle', radius: 'x' } }), { '/shape/radius': 'This must be: number.' });
  assert.deepEqual(said(schema, { shape: 7 }), { '/shape': 'This fits none of the variants.' });
});
