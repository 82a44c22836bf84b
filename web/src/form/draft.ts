// The content of a form while it is filled in. It contains only fields that were edited: an absent field stays absent.
import { type Json, JsonError, fromPlain, isNumber, parse, stringify } from '../json/lossless';

/** Text of a number field or a JSON editor, sent unchanged. */
export class RawText {
  constructor(readonly text: string) {}
}

/** An object being edited; keys keep their order, so that a key being typed does not move. */
export class Entries {
  constructor(
    readonly pairs: readonly (readonly [string, Draft])[],
    /** Whether the user enters the names too. */
    readonly isNamed = false,
  ) {}

  get(name: string): Draft {
    return this.pairs.find(([key]) => key === name)?.[1];
  }

  with(name: string, value: Draft): Entries {
    const exists = this.pairs.some(([key]) => key === name);
    if (value === undefined) return new Entries(this.pairs.filter(([key]) => key !== name), this.isNamed);
    return new Entries(exists ? this.pairs.map((pair) => (pair[0] === name ? ([name, value] as const) : pair)) : [...this.pairs, [name, value]], this.isNamed);
  }
}

/** A value of a union, with its selected option. */
export class Chosen {
  constructor(
    readonly option: number,
    readonly value: Draft,
  ) {}
}

export type Draft = undefined | null | boolean | string | RawText | Draft[] | Entries | Chosen;

/** A part that is not a value yet: text that is not JSON, or a missing or duplicate name. */
export interface DraftProblem {
  path: string;
  kind: 'json' | 'noName' | 'sameName';
  /** Line of the mistake in a text. */
  line: number;
  column: number;
}

export const EMPTY = new Entries([]);

/** The value of a draft, and the parts that are not values yet. */
export function valueOf(draft: Draft): { value: Json | undefined; problems: DraftProblem[] } {
  const problems: DraftProblem[] = [];
  const convert = (draft: Draft, path: string): Json | undefined => {
    if (draft === undefined) return undefined;
    if (draft === null || typeof draft === 'boolean' || typeof draft === 'string') return draft;
    if (draft instanceof Chosen) return convert(draft.value, path);
    if (draft instanceof RawText) {
      if (draft.text.trim() === '') return undefined;
      try {
        return parse(draft.text);
      } catch (error) {
        const { line = 1, column = 1 } = error instanceof JsonError ? error : {};
        problems.push({ path, kind: 'json', line, column });
        return undefined;
      }
    }
    if (Array.isArray(draft)) return draft.map((item, index) => convert(item, `${path}/${index}`) ?? null);
    const map = new Map<string, Json>();
    for (const [name, inner] of draft.pairs) {
      const at = `${path}/${name.replace(/~/g, '~0').replace(/\//g, '~1')}`;
      const value = convert(inner, at);
      if (map.has(name)) problems.push({ path: at, kind: 'sameName', line: 1, column: 1 });
      else if (name === '' && draft.isNamed) problems.push({ path: at, kind: 'noName', line: 1, column: 1 });
      if (value !== undefined) map.set(name, value);
    }
    return map;
  };
  return { value: convert(draft, ''), problems };
}

/** Converts a value to the draft that controls expect. */
export function draftOf(value: Json): Draft {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(draftOf);
  if (value instanceof Map) return new Entries([...value].map(([name, inner]) => [name, draftOf(inner)]));
  return new RawText(String(value));
}

export function draftOfPlain(value: unknown): Draft {
  return draftOf(fromPlain(value));
}

/** The text of a draft in a JSON editor. */
export function textOf(draft: Draft): string {
  if (draft === undefined) return '';
  if (draft instanceof RawText) return draft.text;
  const { value } = valueOf(draft);
  return value === undefined ? '' : stringify(value, 2);
}

export { isNumber };
