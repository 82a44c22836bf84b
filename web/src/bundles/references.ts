// `${…}` in the steps of a recipe: available references, and their values while a recipe is tried step by step. For a
// stored recipe the server resolves every reference; here only plain paths are resolved, and others are reported as
// unsupported in a trial.
import { type Json, stringify } from '../json/lossless';

/** The results of steps so far. */
export interface Known {
  args: Json;
  steps: ReadonlyMap<string, Json>;
  /** The item of a `forEach`, with its name. */
  item?: { name: string; value: Json; index: number };
}

export class ReferenceError extends Error {}

const ALONE = /^\$\{([^{}]+)\}$/;
const WITHIN = /\$\{([^{}]+)\}/g;
const MAX_SUGGESTED = 200;
const MAX_DEPTH = 4;

/** Whether a value of a step is or contains a reference. */
export const isReference = (value: unknown): value is string => typeof value === 'string' && value.includes('${');

/** Replaces the references in a value. A text that is a single reference keeps the type of the referenced value. */
export function resolve(value: Json, known: Known): Json {
  return resolved(value, known) ?? null;
}

/** A reference to nothing omits its argument. */
function resolved(value: Json, known: Known): Json | undefined {
  if (typeof value === 'string') {
    const alone = ALONE.exec(value);
    if (alone) return lookUp(alone[1]!, known);
    return value.replace(WITHIN, (_, reference: string) => written(lookUp(reference, known) ?? null));
  }
  if (Array.isArray(value)) return value.map((item) => resolve(item, known));
  if (value instanceof Map) {
    const found = new Map<string, Json>();
    for (const [name, item] of value) {
      const inner = resolved(item, known);
      if (inner !== undefined) found.set(name, inner);
    }
    return found;
  }
  return value;
}

function written(value: Json): string {
  return typeof value === 'string' ? value : value === null ? '' : stringify(value);
}

function lookUp(reference: string, known: Known): Json | undefined {
  const [path = '', filter] = reference.split('|', 2).map((part) => part.trim());
  const names = pathOf(path);
  const [root, ...rest] = names;
  let value: Json | undefined;
  let left = rest;
  if (root === 'args') value = known.args;
  else if (root === 'index') value = known.item?.index;
  else if (root !== undefined && root === known.item?.name) value = known.item.value;
  else if (root === 'steps') {
    const [id, part, ...more] = rest;
    const given = known.steps.get(id ?? '');
    if (given === undefined) throw new ReferenceError(`\${${reference}}: run the step '${id ?? ''}' first`);
    if (part === 'ok') return true;
    if (part !== 'value') throw new ReferenceError(`\${${reference}} can be used in the stored recipe, not in a trial`);
    value = given;
    left = more;
  } else throw new ReferenceError(`\${${reference}} can be used in the stored recipe, not in a trial`);
  for (const name of left) {
    if (value instanceof Map) value = value.get(name);
    else if (Array.isArray(value)) value = value[Number(name) < 0 ? value.length + Number(name) : Number(name)];
    else value = undefined;
  }
  if (filter === 'length') return Array.isArray(value) ? value.length : value instanceof Map ? value.size : written(value ?? null).length;
  if (filter === 'json') return stringify(value ?? null);
  return value;
}

/** Parses `a.b[0]['c d']` to names; anything else is a JSONPath that only the server supports. */
function pathOf(path: string): string[] {
  const names: string[] = [];
  const step = /^(?:\.?([\p{L}_][\p{L}\p{Nd}_-]*)|\[(-?\d+)\]|\['([^']*)'\]|\["([^"]*)"\])/u;
  let left = path;
  while (left !== '') {
    const found = step.exec(left);
    if (!found) throw new ReferenceError(`\${${path}} can be used in the stored recipe, not in a trial`);
    names.push(found[1] ?? found[2] ?? found[3] ?? found[4] ?? '');
    left = left.slice(found[0].length);
  }
  return names;
}

/** References available to a step: arguments, the item, and earlier results, with the fields that a trial has shown. */
export function suggestions(argSchema: unknown, before: readonly string[], known: Known, item: string | null): string[] {
  const found: string[] = [];
  const properties = (argSchema as { properties?: Record<string, unknown> } | null)?.properties;
  for (const name of Object.keys(properties ?? {})) found.push(`\${args${member(name)}}`);
  if (item !== null) found.push(`\${${item}}`, '${index}');
  for (const id of before) {
    found.push(`\${steps.${id}.value}`);
    const value = known.steps.get(id);
    if (value !== undefined) for (const path of fields(value, 0)) found.push(`\${steps.${id}.value${path}}`);
    found.push(`\${steps.${id}.ok}`);
  }
  return found.slice(0, MAX_SUGGESTED);
}

const member = (name: string) => (/^[\p{L}_][\p{L}\p{Nd}_]*$/u.test(name) ? `.${name}` : `['${name.replace(/'/g, "\\'")}']`);

function fields(value: Json, depth: number): string[] {
  if (depth >= MAX_DEPTH) return [];
  if (value instanceof Map) return [...value].slice(0, 40).flatMap(([name, inner]) => [member(name), ...fields(inner, depth + 1).map((rest) => member(name) + rest)]);
  if (Array.isArray(value) && value.length > 0) return ['[0]', ...fields(value[0]!, depth + 1).map((rest) => `[0]${rest}`)];
  return [];
}

/** Whether a condition is true, by the same rule as in a stored recipe. */
export function holds(value: Json): boolean {
  if (value === null || value === false || value === '') return false;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return value === true || typeof value === 'string' || Number(String(value)) !== 0;
}
