// Determines which control or variant fits a draft, and the initial value of a new part.
import { fromPlain, stringify } from '../json/lossless';
import { type Draft, EMPTY, Entries, RawText, draftOfPlain, valueOf } from './draft';
import { type Plan, onlyValue, plan } from './schema';

const MAX_DEPTH = 4;

/** Whether the control cannot show a draft. */
export function unfit(planned: Plan, draft: Draft): boolean {
  if (draft === undefined) return false;
  switch (planned.control) {
    case 'text':
      return typeof draft !== 'string';
    case 'number':
      return !(draft instanceof RawText) || /^\s*["{[tfn]/.test(draft.text);
    case 'boolean':
      return typeof draft !== 'boolean';
    case 'null':
      return draft !== null;
    case 'choice':
      return !planned.values.some((value) => sameText(value, draft));
    case 'object':
    case 'map':
      return !(draft instanceof Entries);
    case 'list':
      return !Array.isArray(draft);
    case 'union':
      return draft instanceof RawText && /^\s*["{[]/.test(draft.text);
    case 'json':
      return true;
  }
}

export function sameText(value: unknown, draft: Draft): boolean {
  const own = valueOf(draft).value;
  return own !== undefined && stringify(own) === stringify(fromPlain(value));
}

/** Guesses the option of a union for a value: by kind, by the property that distinguishes variants, by names. */
export function guess(planned: Plan & { control: 'union' }, draft: Draft, root: unknown): number {
  let best = { index: -1, score: -Infinity };
  for (const [index, { schema }] of planned.options.entries()) {
    const score = likeness(plan(schema, root), draft, root);
    if (score > best.score) best = { index, score };
  }
  return best.index;
}

function likeness(planned: Plan, draft: Draft, root: unknown): number {
  // JSON always fits, but is the last choice.
  if (planned.control === 'json') return -1_000;
  if (unfit(planned, draft)) return -Infinity;
  if (planned.control === 'number' && planned.integer && draft instanceof RawText && /[.eE]/.test(draft.text)) return -1;
  if (planned.control !== 'object' || !(draft instanceof Entries)) return 0;
  let score = 0;
  for (const { name, schema, required } of planned.properties) {
    const part = draft.get(name);
    const only = onlyValue(schema, root);
    if (part === undefined) score -= required ? 1 : 0;
    else if (only && !sameText(only.value, part)) return -500;
    else score += 1;
  }
  return score;
}

/** The schema of an item of a list. */
export function itemSchema(planned: Plan & { control: 'list' }, index: number): unknown {
  return index < planned.first.length ? planned.first[index] : planned.items;
}

/** The initial value of a new part: empty, except for required parts with only one possible value. */
export function initial(schema: unknown, root: unknown, depth = 0): Draft {
  const planned = plan(schema, root);
  if (planned.nullable) return undefined;
  switch (planned.control) {
    case 'text':
      return '';
    case 'choice':
      return planned.values.length === 1 ? draftOfPlain(planned.values[0]) : undefined;
    case 'object':
      return new Entries(planned.properties.flatMap(({ name, schema, required }) => {
        const part = required && depth < MAX_DEPTH ? plan(schema, root, name) : null;
        // An empty list or map could be a mistake, so it is only added explicitly.
        if (part === null || part.control === 'text' || part.control === 'map') return [];
        if (part.control === 'list' && part.first.length === 0 && part.min === 0) return [];
        const value = initial(schema, root, depth + 1);
        return value === undefined ? [] : [[name, value] as [string, Draft]];
      }));
    case 'map':
      return EMPTY;
    case 'list': {
      const count = Math.min(Math.max(planned.first.length, planned.min), depth < MAX_DEPTH ? 20 : 0);
      return Array.from({ length: count }, (_, index) => initial(itemSchema(planned, index), root, depth + 1));
    }
    default:
      return undefined;
  }
}
