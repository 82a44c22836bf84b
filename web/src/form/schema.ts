// Converts a JSON Schema to a plan of controls. Schemas are untrusted: references may be missing or endless, keywords
// may have invalid values. A part that no control can express becomes a JSON editor. Conditions (`if`, `not`,
// dependencies) do not change the controls, only what is valid.
import { fromPlain, stringify } from '../json/lossless';

export type Schema = Record<string, unknown>;

export type Plan = {
  title?: string;
  description?: string;
  /** The default as JSON text. */
  default?: string;
  /** Whether `null` is allowed in addition to the control's values. */
  nullable?: boolean;
  schema: unknown;
} & (
  | { control: 'text'; multiline: boolean; format?: string }
  | { control: 'number'; integer: boolean }
  | { control: 'boolean' }
  | { control: 'null' }
  | { control: 'choice'; values: unknown[] }
  | { control: 'object'; properties: Property[]; rest: unknown | null }
  | { control: 'map'; values: unknown }
  /** `first` are the items with their own schemas. */
  | { control: 'list'; first: unknown[]; items: unknown; min: number; max: number }
  | { control: 'union'; options: { label: string; schema: unknown }[] }
  | { control: 'json'; reason?: string }
);

export interface Property {
  name: string;
  schema: unknown;
  required: boolean;
}

const MAX_REFERENCES = 50;
const MAX_CHOICES = 500;
const MAX_OPTIONS = 30;
const MAX_PROPERTIES = 300;
const LONG_TEXT = /^(text|content|body|code|command|markdown|html|query_text|prompt|script|message|patch|diff)$|_(text|content|body|code|markdown)$/;

export function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Follows `$ref` within the document, keeping sibling keywords. `null` if the target is missing. */
export function resolve(schema: unknown, root: unknown): Schema | null {
  if (schema === true || schema === undefined) return {};
  let current: unknown = schema;
  let beside: Schema = {};
  for (let step = 0; step < MAX_REFERENCES; step += 1) {
    if (!isObject(current)) return current === true ? beside : null;
    const { $ref: reference, ...rest } = current;
    beside = { ...rest, ...beside };
    if (reference === undefined) return beside;
    if (typeof reference !== 'string' || !reference.startsWith('#')) return null;
    current = pointer(root, reference.slice(1));
    if (current === undefined) return null;
  }
  return null;
}

function pointer(root: unknown, path: string): unknown {
  if (path === '') return root;
  if (!path.startsWith('/')) return undefined;
  let value: unknown = root;
  for (const raw of path.slice(1).split('/')) {
    let name: string;
    try {
      name = decodeURIComponent(raw).replace(/~1/g, '/').replace(/~0/g, '~');
    } catch {
      return undefined;
    }
    if (Array.isArray(value)) value = value[Number(name)];
    else if (isObject(value) && Object.hasOwn(value, name)) value = value[name];
    else return undefined;
  }
  return value;
}

/** Keywords that decide which control is shown. */
const STRUCTURE = new Set(['const', 'items', 'prefixItems', 'anyOf', 'oneOf']);

/** Merges `allOf`; `null` if its parts contradict each other. */
function merged(schema: Schema, root: unknown, depth = 0): Schema | null {
  const parts = schema.allOf;
  if (!Array.isArray(parts)) return schema;
  if (depth > 8 || parts.length > 50) return null;
  const { allOf: _, ...base } = schema;
  const result: Schema = { ...base };
  for (const part of parts) {
    const resolved = resolve(part, root);
    const inner = resolved && merged(resolved, root, depth + 1);
    if (!inner) return null;
    for (const [key, value] of Object.entries(inner)) {
      const before = Object.hasOwn(result, key) ? result[key] : undefined;
      if (before === undefined || same(before, value)) result[key] = value;
      else if (key === 'properties' && isObject(value) && isObject(before)) result.properties = bothProperties(before, value);
      else if (key === 'required' && Array.isArray(value) && Array.isArray(before)) result.required = [...new Set([...before, ...value])];
      else if (key === 'type') {
        const type = bothTypes(before, value);
        if (type === null) return null;
        result.type = type;
      } else if (key === 'enum' && Array.isArray(value) && Array.isArray(before)) result.enum = before.filter((one) => value.some((other) => same(one, other)));
      else if (key === 'additionalProperties') result[key] = true;
      else if (STRUCTURE.has(key)) return null;
      // Of limits and texts only the first is shown; validation uses all of them.
    }
  }
  return result;
}

const same = (a: unknown, b: unknown): boolean => stringify(fromPlain(a)) === stringify(fromPlain(b));

function bothProperties(a: Schema, b: Schema): Schema {
  const result: Schema = { ...a };
  for (const [name, schema] of Object.entries(b)) result[name] = !Object.hasOwn(result, name) || same(result[name], schema) ? schema : { allOf: [result[name], schema] };
  return result;
}

/** The types that both allow. */
function bothTypes(a: unknown, b: unknown): unknown {
  const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value]);
  const found = list(a).flatMap((one) => list(b).flatMap((other) => (one === other ? [one] : [one, other].includes('integer') && [one, other].includes('number') ? ['integer'] : [])));
  return found.length === 0 ? null : found.length === 1 ? found[0] : found;
}

export function plan(schema: unknown, root: unknown, name = ''): Plan {
  try {
    return planned(schema, root, name);
  } catch {
    return { control: 'json', schema };
  }
}

function planned(original: unknown, root: unknown, name: string): Plan {
  const resolved = resolve(original, root);
  if (resolved === null) return { control: 'json', schema: original };
  const common = {
    title: text(resolved.title),
    description: text(resolved.description),
    default: resolved.default === undefined ? undefined : stringify(fromPlain(resolved.default)),
    schema: original,
  };
  const json: Plan = { ...common, control: 'json' };
  const schema = merged(resolved, root);
  if (schema === null) return json;
  if (schema.const !== undefined) return { ...common, control: 'choice', values: [schema.const] };
  if (Array.isArray(schema.enum)) {
    if (schema.enum.length === 0 || schema.enum.length > MAX_CHOICES) return json;
    return { ...common, control: 'choice', values: schema.enum };
  }
  for (const key of ['anyOf', 'oneOf'] as const) {
    const options = schema[key];
    if (!Array.isArray(options)) continue;
    const { [key]: _, title: _t, description: _d, default: _v, ...beside } = schema;
    // Alternatives that only require certain fields do not change the controls.
    if (isObject(schema.properties) && options.every((option) => isCondition(option, root))) continue;
    return union(options, beside, root, common, json);
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type): type is string => typeof type === 'string');
    if (types.length === 1) return planned({ ...schema, type: types[0] }, root, name);
    const { type: _, title: _t, description: _d, default: _v, ...beside } = schema;
    return union(types.map((type) => (type === 'null' ? { type } : { ...beside, type })), {}, root, common, json);
  }
  const type = schema.type ?? (isObject(schema.properties) ? 'object' : isObject(schema.items) ? 'array' : undefined);
  switch (type) {
    case 'string': {
      const format = text(schema.format);
      const long = typeof schema.maxLength === 'number' && schema.maxLength > 400;
      return { ...common, control: 'text', multiline: LONG_TEXT.test(name) || long || schema.contentMediaType !== undefined, format };
    }
    case 'integer':
    case 'number':
      return { ...common, control: 'number', integer: type === 'integer' };
    case 'boolean':
      return { ...common, control: 'boolean' };
    case 'null':
      return { ...common, control: 'null' };
    case 'array': {
      const first = Array.isArray(schema.prefixItems) ? schema.prefixItems : Array.isArray(schema.items) ? schema.items : [];
      const items = Array.isArray(schema.items) ? (schema.additionalItems ?? true) : (schema.items ?? true);
      const max = items === false ? first.length : Infinity;
      return { ...common, control: 'list', first, items, min: count(schema.minItems, 0), max: Math.min(count(schema.maxItems, Infinity), max) };
    }
    case 'object': {
      const known = properties(schema, root);
      const rest = others(schema);
      const required = new Set(Array.isArray(schema.required) ? schema.required.filter((name): name is string => typeof name === 'string') : []);
      for (const name of required) if (!known.has(name) && rest !== false) known.set(name, rest ?? true);
      if (known.size > MAX_PROPERTIES) return json;
      if (known.size === 0) {
        if (rest === false) return { ...common, control: 'object', properties: [], rest: null };
        return isObject(rest) ? { ...common, control: 'map', values: rest } : json;
      }
      const list = [...known].map(([name, schema]) => ({ name, schema, required: required.has(name) }));
      // An explicit order is kept.
      if (schema['x-ordered'] !== true) list.sort((a, b) => Number(b.required) - Number(a.required));
      return { ...common, control: 'object', properties: list, rest: isObject(rest) ? rest : null };
    }
    default:
      return json;
  }
}

/** The possible properties of an object; conditional ones come last. */
function properties(schema: Schema, root: unknown): Map<string, unknown> {
  const found = new Map<string, unknown>(isObject(schema.properties) ? Object.entries(schema.properties) : []);
  const dependent = isObject(schema.dependentSchemas) ? Object.values(schema.dependentSchemas) : [];
  for (const part of [schema.then, schema.else, ...dependent]) {
    const resolved = isObject(part) ? resolve(part, root) : null;
    if (!isObject(resolved?.properties)) continue;
    for (const [name, property] of Object.entries(resolved.properties)) if (!found.has(name)) found.set(name, property);
  }
  return found;
}

/** The schema of additional properties: `false` for none, `null` if unspecified. */
function others(schema: Schema): unknown {
  const patterns = isObject(schema.patternProperties) ? Object.values(schema.patternProperties) : [];
  if (patterns.length === 1 && isObject(patterns[0])) return patterns[0];
  if (patterns.length > 0) return {};
  return schema.additionalProperties ?? schema.unevaluatedProperties ?? null;
}

const CONDITIONS = new Set(['required', 'not', 'title', 'description', 'dependentRequired', 'minProperties', 'maxProperties']);

function isCondition(option: unknown, root: unknown): boolean {
  const resolved = resolve(option, root);
  return resolved !== null && Object.keys(resolved).every((key) => CONDITIONS.has(key));
}

function union(options: unknown[], beside: Schema, root: unknown, common: Omit<Plan, 'control'> & object, json: Plan): Plan {
  if (options.length === 0 || options.length > MAX_OPTIONS) return json;
  const extended = options.map((option) => ({ option, schema: Object.keys(beside).length > 0 && isObject(option) ? { allOf: [option, beside] } : option }));
  const others = extended.filter(({ option }) => !isNull(option, root));
  if (others.length === 1 && extended.length > 1) return { ...planned(others[0]!.schema, root, ''), ...withoutUndefined(common), nullable: true } as Plan;
  if (extended.length === 1) return { ...planned(extended[0]!.schema, root, ''), ...withoutUndefined(common) } as Plan;
  const constants = options.map((option) => resolve(option, root)).map((option) => option?.const);
  if (constants.every((value) => value !== undefined)) return { ...common, control: 'choice', values: constants } as Plan;
  const labels: string[] = [];
  for (const [index, { option }] of extended.entries()) {
    const text = label(option, root, index);
    labels.push(labels.includes(text) ? `${text} (${index + 1})` : text);
  }
  return { ...common, control: 'union', options: extended.map(({ schema }, index) => ({ label: labels[index]!, schema })) } as Plan;
}

function isNull(schema: unknown, root: unknown): boolean {
  const resolved = resolve(schema, root);
  return resolved !== null && (resolved.type === 'null' || resolved.const === null);
}

function withoutUndefined<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== undefined)) as Partial<T>;
}

/** The value of a property with only one possible value, which distinguishes variants. */
export function onlyValue(schema: unknown, root: unknown): { value: unknown } | null {
  const resolved = resolve(schema, root);
  if (resolved?.const !== undefined) return { value: resolved.const };
  return Array.isArray(resolved?.enum) && resolved.enum.length === 1 ? { value: resolved.enum[0] } : null;
}

const LONGEST_LABEL = 60;

function label(schema: unknown, root: unknown, index: number): string {
  const resolved = resolve(schema, root);
  const written = (value: unknown) => (typeof value === 'string' ? value : stringify(fromPlain(value)));
  if (text(resolved?.title)) return String(resolved?.title).slice(0, LONGEST_LABEL);
  if (resolved?.const !== undefined) return written(resolved.const).slice(0, LONGEST_LABEL);
  const inner = (resolved && merged(resolved, root)) ?? resolved;
  const known = isObject(inner?.properties) ? Object.entries(inner.properties) : [];
  for (const [name, property] of known) {
    const only = onlyValue(property, root);
    if (only) return `${name}: ${written(only.value)}`.slice(0, LONGEST_LABEL);
  }
  if (isObject(schema) && typeof schema.$ref === 'string') return schema.$ref.split('/').pop() ?? `${index + 1}`;
  if (known.length > 0) return `{${known.slice(0, 3).map(([name]) => name).join(', ')}${known.length > 3 ? ', …' : ''}}`.slice(0, LONGEST_LABEL);
  if (inner?.type === 'array' && isObject(inner.items) && typeof inner.items.type === 'string') return `${inner.items.type}[]`;
  if (typeof inner?.type === 'string') return inner.format && inner.type === 'string' ? String(inner.format).slice(0, LONGEST_LABEL) : inner.type;
  if (Array.isArray(inner?.enum)) return inner.enum.slice(0, 3).map(written).join(' | ').slice(0, LONGEST_LABEL);
  return `${index + 1}`;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function count(value: unknown, otherwise: number): number {
  return typeof value === 'number' && value >= 0 ? value : otherwise;
}
