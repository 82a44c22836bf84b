// Two texts side by side.
import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from './load.mjs';

const { pairs } = await load('src/diff.ts');
const line = (change, text) => ({ change, text });

test('what was removed is beside what came in its place', () => {
  const rows = pairs([line('same', 'a'), line('removed', 'b'), line('removed', 'c'), line('added', 'd'), line('same', 'e'), line('added', 'f')]);
  assert.deepEqual(rows, [
    { before: 'a', now: 'a', isSame: true },
    { before: 'b', now: 'd', isSame: false },
    { before: 'c', now: null, isSame: false },
    { before: 'e', now: 'e', isSame: true },
    { before: null, now: 'f', isSame: false },
  ]);
  assert.deepEqual(pairs([]), []);
});
