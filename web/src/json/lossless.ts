// JSON that preserves the text of numbers. `JSON.parse` rounds integers above 2^53 and drops trailing zeros; here a
// number that would change becomes a `NumberText`. Parsing uses its own stack, so depth is limited only by memory.

/** A number that a JavaScript number cannot represent exactly. */
export class NumberText {
  constructor(readonly text: string) {}
  toString(): string {
    return this.text;
  }
}

export type Json = null | boolean | number | string | NumberText | Json[] | JsonObject;
export type JsonObject = Map<string, Json>;

export class JsonError extends Error {
  constructor(
    readonly problem: string,
    readonly offset: number,
    readonly line: number,
    readonly column: number,
  ) {
    super(`${problem} (line ${line}, column ${column})`);
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
// Everything up to the next quote, backslash or control character.
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const SPACE = /[ \t\n\r]*/y;
const ESCAPES: Record<string, string> = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** Whether a text is a valid JSON number. */
export function isNumber(text: string): boolean {
  NUMBER.lastIndex = 0;
  return NUMBER.exec(text)?.[0] === text;
}

export function numberOf(text: string): number | NumberText {
  const value = Number(text);
  return String(value) === text ? value : new NumberText(text);
}

export function parse(text: string): Json {
  let at = 0;

  const fail = (problem: string, offset = at): never => {
    const before = text.slice(0, offset);
    const line = before.split('\n').length;
    throw new JsonError(problem, offset, line, offset - before.lastIndexOf('\n'));
  };
  const skip = () => {
    SPACE.lastIndex = at;
    SPACE.exec(text);
    at = SPACE.lastIndex;
  };
  const string = (): string => {
    const start = at;
    at += 1;
    let result = '';
    for (;;) {
      PLAIN.lastIndex = at;
      const plain = PLAIN.exec(text)?.[0] ?? '';
      at += plain.length;
      result = result === '' ? plain : result + plain;
      const next = text[at];
      if (next === '"') {
        at += 1;
        return result;
      }
      if (next !== '\\') fail(next === undefined ? 'a string does not end' : 'a control character in a string', next === undefined ? start : at);
      const escape = text[at + 1] ?? '';
      if (escape === 'u') {
        const digits = text.slice(at + 2, at + 6);
        if (!/^[0-9a-fA-F]{4}$/.test(digits)) fail('an invalid \\u escape');
        result += String.fromCharCode(parseInt(digits, 16));
        at += 6;
      } else {
        const plainEscape = ESCAPES[escape];
        if (plainEscape === undefined) fail('an invalid escape');
        result += plainEscape;
        at += 2;
      }
    }
  };
  const word = (expected: string, value: null | boolean) => {
    if (!text.startsWith(expected, at)) fail('a value is expected');
    at += expected.length;
    return value;
  };

  type Open = { list: Json[] } | { map: JsonObject; key: string };
  const stack: Open[] = [];
  const key = (): string => {
    skip();
    if (text[at] !== '"') fail('a name in quotes is expected');
    const name = string();
    skip();
    if (text[at] !== ':') fail("':' is expected");
    at += 1;
    return name;
  };

  for (;;) {
    skip();
    let value: Json;
    const first = text[at];
    if (first === '{') {
      at += 1;
      skip();
      const map: JsonObject = new Map();
      if (text[at] === '}') {
        at += 1;
        value = map;
      } else {
        stack.push({ map, key: key() });
        continue;
      }
    } else if (first === '[') {
      at += 1;
      skip();
      if (text[at] === ']') {
        at += 1;
        value = [];
      } else {
        stack.push({ list: [] });
        continue;
      }
    } else if (first === '"') value = string();
    else if (first === 't') value = word('true', true);
    else if (first === 'f') value = word('false', false);
    else if (first === 'n') value = word('null', null);
    else {
      NUMBER.lastIndex = at;
      const match = NUMBER.exec(text)?.[0];
      if (match === undefined) fail(first === undefined ? 'the text ends too early' : 'a value is expected');
      at += match!.length;
      value = numberOf(match!);
    }
    // A value is complete: add it to the open container, and close containers that end here.
    for (;;) {
      const open = stack[stack.length - 1];
      skip();
      if (open === undefined) {
        if (at < text.length) fail('nothing may follow the value');
        return value;
      }
      const next = text[at];
      if ('list' in open) {
        open.list.push(value);
        if (next === ',') {
          at += 1;
          break;
        }
        if (next !== ']') fail("',' or ']' is expected");
        value = open.list;
      } else {
        open.map.set(open.key, value);
        if (next === ',') {
          at += 1;
          open.key = key();
          break;
        }
        if (next !== '}') fail("',' or '}' is expected");
        value = open.map;
      }
      at += 1;
      stack.pop();
    }
  }
}

/** The JSON text of a value; `indent` spaces per level, or one line. */
export function stringify(value: Json, indent = 0): string {
  const parts: string[] = [];
  type Frame = { value: Json[] | [string, Json][]; at: number; close: string };
  const stack: Frame[] = [];
  const line = () => {
    if (indent > 0) parts.push('\n', ' '.repeat(indent * stack.length));
  };
  let pending: { value: Json } | undefined = { value };
  for (;;) {
    if (pending !== undefined) {
      const current: Json = pending.value;
      pending = undefined;
      if (Array.isArray(current)) {
        if (current.length === 0) parts.push('[]');
        else {
          parts.push('[');
          stack.push({ value: current, at: 0, close: ']' });
        }
      } else if (current instanceof Map) {
        if (current.size === 0) parts.push('{}');
        else {
          parts.push('{');
          stack.push({ value: [...current], at: 0, close: '}' });
        }
      } else if (current instanceof NumberText) parts.push(current.text);
      else parts.push(JSON.stringify(current));
    }
    const frame = stack[stack.length - 1];
    if (frame === undefined) return parts.join('');
    if (frame.at === frame.value.length) {
      stack.pop();
      line();
      parts.push(frame.close);
      continue;
    }
    if (frame.at > 0) parts.push(',');
    line();
    const next = frame.value[frame.at++]!;
    if (frame.close === '}') {
      const [name, inner] = next as [string, Json];
      parts.push(JSON.stringify(name), indent > 0 ? ': ' : ':');
      pending = { value: inner };
    } else pending = { value: next as Json };
  }
}

/** Converts to a plain JavaScript value. Long numbers are rounded. */
export const toPlain = (value: Json): unknown => plainWith(value, (number) => Number(number.text));

/** The same, but integers that would be rounded stay `NumberText`, for values that are sent or shown again. */
export const toExact = (value: Json): unknown => plainWith(value, (number) => (/[.eE]/.test(number.text) ? Number(number.text) : number));

function plainWith(value: Json, number: (value: NumberText) => unknown): unknown {
  if (value instanceof NumberText) return number(value);
  if (Array.isArray(value)) return value.map((item) => plainWith(item, number));
  if (value instanceof Map) {
    const result: Record<string, unknown> = {};
    for (const [name, inner] of value) {
      Object.defineProperty(result, name, { value: plainWith(inner, number), enumerable: true, writable: true, configurable: true });
    }
    return result;
  }
  return value;
}

/** Whether a text may contain an integer that a JavaScript number cannot represent. */
export const hasLongNumbers = (text: string): boolean => /\d{16}/.test(text);

export function fromPlain(value: unknown): Json {
  if (value === null || typeof value === 'boolean' || typeof value === 'number' || typeof value === 'string') return value;
  if (value instanceof NumberText || value instanceof Map) return value;
  if (Array.isArray(value)) return value.map(fromPlain);
  if (typeof value === 'object') return new Map(Object.entries(value as object).filter(([, inner]) => inner !== undefined).map(([name, inner]) => [name, fromPlain(inner)]));
  return null;
}

/** A JSON value as Python source. */
export function python(value: Json): string {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (typeof value === 'number') return String(value);
  if (value instanceof NumberText) return value.text;
  if (typeof value === 'string') return pythonString(value);
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`;
  return `{${[...value].map(([name, inner]) => `${pythonString(name)}: ${python(inner)}`).join(', ')}}`;
}

function pythonString(text: string): string {
  // JSON escapes are valid in Python, except for lone surrogates and characters that a terminal would interpret.
  return JSON.stringify(text).replace(/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
