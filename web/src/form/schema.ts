// Reads a JSON Schema as a plan for controls. Schemas come from anyone: references may be missing or endless, keywords
// may hold nonsense. Whatever a control cannot express becomes a JSON editor for that part.

export type Schema = Record<string, unknown>;

export type Plan = {
  title?: string;
  description?: string;
  /** The default as JSON text. */
  default?: string;
  /** `null` is a value too, beside what the control gives. */
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
  | { control: 'list'; items: unknown; min: number; max: number }
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

/** Follows `$ref` within the document; keywords beside it stay. `null` when it leads nowhere. */
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

/** Merges `allOf` where its parts do not contradict each other. `null` when they do. */
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
      if (key === 'properties' && isObject(value)) {
        result.properties = { ...(isObject(result.properties) ? result.properties : {}), ...value };
      } else if (key === 'required' && Array.isArray(value)) {
        result.required = [...new Set([...(Array.isArray(result.required) ? result.required : []), ...value])];
      } else if (key === 'title' || key === 'description' || key === '$defs' || key === 'definitions') {
        result[key] ??= value;
      } else if (result[key] === undefined || JSON.stringify(result[key]) === JSON.stringify(value)) {
        result[key] = value;
      } else {
        return null;
      }
    }
  }
  return result;
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
    default: resolved.default === undefined ? undefined : JSON.stringify(resolved.default),
    schema: original,
  };
  const json: Plan = { ...common, control: 'json' };
  const schema = merged(resolved, root);
  if (schema === null) return json;
  if (['not', 'if', 'dependentSchemas', 'patternProperties', 'prefixItems', 'unevaluatedProperties'].some((key) => isObject(schema[key]) || Array.isArray(schema[key]))) return json;
  if (schema.const !== undefined) return { ...common, control: 'choice', values: [schema.const] };
  if (Array.isArray(schema.enum)) {
    if (schema.enum.length === 0 || schema.enum.length > MAX_CHOICES) return json;
    return { ...common, control: 'choice', values: schema.enum };
  }
  for (const key of ['anyOf', 'oneOf'] as const) {
    const options = schema[key];
    if (!Array.isArray(options)) continue;
    const { [key]: _, title: _t, description: _d, default: _v, ...beside } = schema;
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
    case 'array':
      if (Array.isArray(schema.items)) return json;
      return { ...common, control: 'list', items: schema.items ?? true, min: count(schema.minItems, 0), max: count(schema.maxItems, Infinity) };
    case 'object': {
      const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
      if (properties.length > MAX_PROPERTIES) return json;
      const required = new Set(Array.isArray(schema.required) ? schema.required : []);
      const rest = schema.additionalProperties ?? null;
      if (properties.length === 0) {
        if (rest === false) return { ...common, control: 'object', properties: [], rest: null };
        return isObject(rest) ? { ...common, control: 'map', values: rest } : json;
      }
      const list = properties.map(([name, schema]) => ({ name, schema, required: required.has(name) }));
      list.sort((a, b) => Number(b.required) - Number(a.required));
      return { ...common, control: 'object', properties: list, rest: isObject(rest) ? rest : null };
    }
    default:
      return json;
  }
}

function union(options: unknown[], beside: Schema, root: unknown, common: Omit<Plan, 'control'> & object, json: Plan): Plan {
  if (options.length === 0 || options.length > MAX_OPTIONS) return json;
  const extended = options.map((option) => (Object.keys(beside).length > 0 && isObject(option) ? { ...beside, ...option } : option));
  const others = extended.filter((option) => !isNull(option, root));
  if (others.length === 1 && extended.length > 1) return { ...planned(others[0], root, ''), ...withoutUndefined(common), nullable: true } as Plan;
  if (extended.length === 1) return { ...planned(extended[0], root, ''), ...withoutUndefined(common) } as Plan;
  const constants = extended.map((option) => resolve(option, root)).map((option) => option?.const);
  if (constants.every((value) => value !== undefined)) return { ...common, control: 'choice', values: constants } as Plan;
  return { ...common, control: 'union', options: extended.map((schema, index) => ({ label: label(schema, root, index), schema })) } as Plan;
}

function isNull(schema: unknown, root: unknown): boolean {
  const resolved = resolve(schema, root);
  return resolved !== null && (resolved.type === 'null' || resolved.const === null);
}

function withoutUndefined<T extends object>(value: T): Partial<T> {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== undefined)) as Partial<T>;
}

function label(schema: unknown, root: unknown, index: number): string {
  const resolved = resolve(schema, root);
  if (resolved?.title) return String(resolved.title).slice(0, 60);
  if (resolved?.const !== undefined) return JSON.stringify(resolved.const).slice(0, 60);
  // A property with one possible value tells variants apart.
  if (isObject(resolved?.properties)) {
    for (const [name, property] of Object.entries(resolved.properties)) {
      if (isObject(property) && property.const !== undefined) return `${name} = ${JSON.stringify(property.const)}`.slice(0, 60);
    }
  }
  if (isObject(schema) && typeof schema.$ref === 'string') return schema.$ref.split('/').pop() ?? `${index + 1}`;
  if (typeof resolved?.type === 'string') return resolved.type;
  return `${index + 1}`;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function count(value: unknown, otherwise: number): number {
  return typeof value === 'number' && value >= 0 ? value : otherwise;
}
