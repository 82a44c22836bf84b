// Finds the arguments that the templates of a request use.

type Plain = Record<string, unknown>;

function object(value: unknown): Plain {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Plain) : {};
}

const VARIABLE = /\$\{\s*([A-Za-z_]\w*)\s*(:-[^}]*)?[^}]*\}/g;

/** Variables of a tool's templates that are neither arguments nor secrets; those with a default are optional. */
export function missingArguments(tool: Plain, secrets: string[]): { name: string; isRequired: boolean }[] {
  const request = object(tool['impl']);
  const own = Array.isArray(request['secrets']) ? (request['secrets'] as unknown[]) : [];
  const known = new Set<unknown>([...Object.keys(object(object(tool['argSchema'])['properties'])), ...secrets, ...own]);
  const texts = [request['urlTemplate'], request['bodyTemplate'], ...Object.values(object(request['headers']))];
  const found = new Map<string, boolean>();
  for (const text of texts) {
    if (typeof text !== 'string') continue;
    for (const [, name = '', fallback] of text.matchAll(VARIABLE)) {
      if (!known.has(name)) found.set(name, (found.get(name) ?? false) || fallback === undefined);
    }
  }
  return [...found].map(([name, isRequired]) => ({ name, isRequired }));
}

/** Adds these as text arguments to a tool. */
export function withArguments(tool: Plain, missing: { name: string; isRequired: boolean }[]): Plain {
  const schema = object(tool['argSchema']);
  const properties = { ...object(schema['properties']), ...Object.fromEntries(missing.map(({ name }) => [name, { type: 'string' }])) };
  const before = Array.isArray(schema['required']) ? (schema['required'] as unknown[]) : [];
  const required = [...before, ...missing.filter(({ isRequired }) => isRequired).map(({ name }) => name)];
  return { ...tool, argSchema: { type: 'object', ...schema, properties, ...(required.length > 0 ? { required } : {}) } };
}
