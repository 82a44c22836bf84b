import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { resolve, suggestions, holds, fromPlain, toPlain } = await load('src/bundles/references.ts', 'src/json/lossless.ts');

const known = { args: fromPlain({ city: 'Oslo', n: 3 }), steps: new Map([['first', fromPlain({ items: [{ name: 'a' }, { name: 'b' }], 'a b': 1 })]]) };
const value = (template, more = {}) => toPlain(resolve(fromPlain(template), { ...known, ...more }));

test('a reference alone keeps its type, within a text it is written out', () => {
  assert.equal(value('${args.n}'), 3);
  assert.equal(value('${args.city}: ${args.n}'), 'Oslo: 3');
  assert.deepEqual(value({ list: '${steps.first.value.items}', deep: ['${steps.first.value.items[1].name}'] }), { list: [{ name: 'a' }, { name: 'b' }], deep: ['b'] });
  assert.equal(value("${steps.first.value['a b']}"), 1);
  assert.equal(value('${steps.first.value.items|length}'), 2);
  assert.equal(value('${one.name}-${index}', { item: { name: 'one', value: fromPlain({ name: 'x' }), index: 4 } }), 'x-4');
  assert.equal(value('${steps.first.value.absent}'), null);
  // A reference to nothing omits its argument.
  assert.deepEqual(value({ a: '${args.absent}', b: '${args.city}' }), { b: 'Oslo' });
});

test('what cannot be tried says so', () => {
  assert.throws(() => value('${steps.later.value}'), /run the step 'later' first/);
  assert.throws(() => value('${steps.first.value..name}'), /not in a trial/);
  assert.throws(() => value('${env.HOME}'), /not in a trial/);
});

test('suggestions name arguments, items and the fields that a trial has shown', () => {
  const found = suggestions({ properties: { city: {}, 'a-b': {} } }, ['first'], known, 'one');
  for (const reference of ['${args.city}', "${args['a-b']}", '${one}', '${index}', '${steps.first.value}', '${steps.first.value.items[0].name}', '${steps.first.ok}']) assert.ok(found.includes(reference), reference);
});

test('a condition holds as a stored recipe decides it', () => {
  for (const [given, expected] of [[null, false], [0, false], ['', false], [[], false], [{}, false], ['no', true], [1, true], [[0], true]]) assert.equal(holds(fromPlain(given)), expected, JSON.stringify(given));
});
