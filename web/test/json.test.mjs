import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { parse, stringify, toPlain, python, JsonError, JsonModel } = await load('src/json/lossless.ts', 'src/json/model.ts');

test('numbers keep their text', () => {
  for (const text of ['9007199254740993', '123456789012345678901234567890', '1.10', '1e400', '-0', '0.1', '5', '1E3']) {
    assert.equal(stringify(parse(text)), text);
    assert.equal(stringify(parse(`{"a":[${text}]}`)), `{"a":[${text}]}`);
  }
});

test('what JSON.parse accepts is accepted, with the same value', () => {
  for (const text of ['null', ' [ ] ', '{"a":{"b":[1,2,{"c":null}]}}', '"\\u00e9\\n\\ud83d\\ude00"', '[true,false,"x"]', '{"":0}', '{"__proto__":{"x":1}}', '[[[]],[]]']) {
    assert.deepEqual(toPlain(parse(text)), JSON.parse(text), text);
    assert.deepEqual(JSON.parse(stringify(parse(text), 2)), JSON.parse(text), text);
  }
});

test('what is not JSON is refused with its place', () => {
  for (const text of ['', '{', '[1,]', '{"a":1,}', '01', '+1', '.5', '1.', 'nul', '"\n"', '"\\x"', '[1 2]', '{"a" 1}', '{a:1}', '1 2', '"\\ud8"', '\u00a01']) {
    assert.throws(() => parse(text), JsonError, text);
    assert.throws(() => JSON.parse(text), text);
  }
  assert.throws(() => parse('{\n  "a": x\n}'), { line: 2, column: 8 });
});

test('depth is not limited', () => {
  const depth = 200_000;
  const text = '['.repeat(depth) + ']'.repeat(depth);
  assert.equal(stringify(parse(text)), text);
});

test('values become Python literals', () => {
  assert.equal(python(parse('{"a":[null,true,false,12345678901234567890,"x\\"\\n"]}')), '{"a": [None, True, False, 12345678901234567890, "x\\"\\n"]}');
  assert.equal(python('\u202e'), '"\\u202e"');
});

test('the tree opens, closes and finds', () => {
  const model = JsonModel.parse(JSON.stringify({ list: Array.from({ length: 1000 }, (_, index) => ({ index, name: `n${index}` })) }));
  assert.equal(model.count, 2);
  assert.equal(model.toggle(1), 1002);
  assert.equal(model.rows(2, 3)[0].size, 2);
  assert.equal(model.toggle(1), 2);
  const found = model.find('n777', 0);
  assert.equal(model.rows(found, found + 1)[0].text, 'n777');
  assert.equal(model.find('nowhere', 0), -1);
});

test('lists of records are tables', () => {
  const model = JsonModel.parse('[{"a":1,"b":"x"},{"a":[2],"c":9007199254740993}]');
  assert.deepEqual(model.table, { columns: ['a', 'b', 'c'], rows: 2 });
  assert.deepEqual(model.cells(0, 2), [['1', 'x', ''], ['[2]', '', '9007199254740993']]);
  assert.equal(JsonModel.parse('[1,2]').table, null);
});
