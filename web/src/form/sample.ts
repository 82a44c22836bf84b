// Sample arguments to try a tool before any are filled in: defaults and examples of the schema, or else names and small
// numbers.

type Schema = Record<string, unknown>;

const MAX_DEPTH = 4;

function object(value: unknown): Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function one(name: string, schema: Schema, depth: number): unknown {
  if ('default' in schema) return schema['default'];
  if ('const' in schema) return schema['const'];
  for (const list of ['enum', 'examples']) {
    const values = schema[list];
    if (Array.isArray(values) && values.length > 0) return values[0] as unknown;
  }
  const type = Array.isArray(schema['type']) ? (schema['type'][0] as unknown) : schema['type'];
  switch (type) {
    case 'integer':
    case 'number':
      return typeof schema['minimum'] === 'number' ? schema['minimum'] : 1;
    case 'boolean':
      return true;
    case 'array':
      return depth > 0 ? [one(name, object(schema['items']), depth - 1)] : [];
    case 'object':
      return depth > 0 ? sample(schema, depth - 1) : {};
    case 'null':
      return null;
    default:
      return name;
  }
}

/** One value for every property of an object's schema. */
export function sample(schema: unknown, depth = MAX_DEPTH): Record<string, unknown> {
  const properties = object(object(schema)['properties']);
  return Object.fromEntries(Object.entries(properties).slice(0, 100).map(([name, property]) => [name, one(name, object(property), depth)]));
}
