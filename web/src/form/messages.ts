// Messages about invalid arguments, in the reader's language.
import { t } from '../i18n';
import type { Problem } from '../json/protocol';
import type { Key } from '../locales/en';
import { shortened } from '../text';
import type { DraftProblem } from './draft';
import type { Plan } from './schema';

const CONTAINERS = new Set(['properties', 'patternProperties', 'items', 'prefixItems', 'allOf', 'anyOf', 'oneOf', '$ref', 'if', 'additionalProperties', 'dependentSchemas', 'unevaluatedProperties', 'unevaluatedItems']);
const MAX_UNIONS = 20;
/** Weight of a mistake if the value has another type, or another fixed value. */
const OTHER_TYPE = 1_000;
const OTHER_VALUE = 100;

/** One message per value: the first about the value itself. */
export function messages(found: Problem[]): Map<string, string> {
  const errors = ofLikelyVariants(found);
  const result = new Map<string, string>();
  for (const error of errors) {
    const missing = error.keyword === 'required' ? /"([^]*)"\.$/.exec(error.message)?.[1] : undefined;
    if (missing !== undefined) {
      const path = `${error.path}/${missing.replace(/~/g, '~0').replace(/\//g, '~1')}`;
      if (!result.has(path)) result.set(path, t('problem.required'));
      continue;
    }
    // A problem of a part is reported there.
    if (CONTAINERS.has(error.keyword) && errors.some((other) => other !== error && (other.path.startsWith(`${error.path}/`) || other.at.startsWith(`${error.at}/`)))) continue;
    if (!result.has(error.path)) result.set(error.path, text(error));
  }
  return result;
}

/** The weight of a mistake against a variant. A missing field counts more than an invalid one. */
function weight({ path, keyword }: Problem, union: Problem): number {
  if (CONTAINERS.has(keyword)) return 0;
  if (keyword === 'type' && path === union.path) return OTHER_TYPE;
  return keyword === 'const' || keyword === 'enum' ? OTHER_VALUE : keyword === 'required' ? 2 : 1;
}

/** For a union, keeps the mistakes of the intended variant: with matching fixed values and the fewest others. */
function ofLikelyVariants(found: Problem[]): Problem[] {
  let errors = found;
  for (let from = 0, round = 0; round < MAX_UNIONS; round += 1) {
    const union = errors.slice(from).find((error) => error.keyword === 'anyOf' || error.keyword === 'oneOf');
    if (!union) return errors;
    from = errors.indexOf(union) + 1;
    const variants = new Map<string, Problem[]>();
    for (const error of errors) {
      if (!error.at.startsWith(`${union.at}/`) || !`${error.path}/`.startsWith(`${union.path}/`)) continue;
      const variant = error.at.slice(union.at.length + 1).split('/', 1)[0] ?? '';
      variants.set(variant, [...(variants.get(variant) ?? []), error]);
    }
    const cost = (list: Problem[]) => list.reduce((sum, error) => sum + weight(error, union), 0);
    const lists = [...variants.values()];
    const least = Math.min(...lists.map(cost));
    // If the value has no variant's type, the message is about the union itself.
    const meant = least < OTHER_TYPE ? lists.find((list) => cost(list) === least) : undefined;
    const dropped = new Set(lists.filter((list) => list !== meant).flat());
    errors = errors.filter((error) => !dropped.has(error));
  }
  return errors;
}

const LIMITS: Record<string, Key> = {
  minimum: 'problem.minimum', maximum: 'problem.maximum', exclusiveMinimum: 'problem.above', exclusiveMaximum: 'problem.below', multipleOf: 'problem.multipleOf',
  minLength: 'problem.minLength', maxLength: 'problem.maxLength', minItems: 'problem.minItems', maxItems: 'problem.maxItems', minProperties: 'problem.minProperties', maxProperties: 'problem.maxProperties',
};
const PLAIN: Record<string, Key> = {
  pattern: 'problem.pattern', uniqueItems: 'problem.uniqueItems', anyOf: 'problem.variant', oneOf: 'problem.variant', not: 'problem.not', false: 'problem.unknown',
  additionalProperties: 'problem.unknown', unevaluatedProperties: 'problem.unknown', contains: 'problem.contains', propertyNames: 'problem.propertyName',
};

function text({ keyword, message }: Problem): string {
  const limit = /(-?[\d.]+(?:e[+-]?\d+)?)\)?(?: properties)?\.$/i.exec(message)?.[1];
  if (LIMITS[keyword] && limit !== undefined) return t(LIMITS[keyword], { limit });
  if (PLAIN[keyword]) return t(PLAIN[keyword]);
  const quoted = /(?:Expected|format) "([^]*)"\.$/.exec(message)?.[1] ?? '';
  if (keyword === 'type') return t('problem.type', { type: quoted.split('", "').map(kindName).join(' / ') });
  if (keyword === 'format') return t('problem.format', { format: shortened(quoted, 40) });
  if (keyword === 'const' || keyword === 'enum') return t('problem.enum', { values: shortened(/match (?:any of )?([^]*)\.$/.exec(message)?.[1] ?? '', 120) });
  return message;
}

const KINDS: Record<string, Key> = { string: 'type.text', integer: 'type.integer', number: 'type.number', boolean: 'type.boolean', array: 'type.list', object: 'type.object' };

export const kindName = (type: string): string => (KINDS[type] ? t(KINDS[type]) : type);

export function draftMessage({ kind, line, column }: DraftProblem): string {
  return kind === 'json' ? t('problem.json', { line, column }) : t(`problem.${kind}`);
}

/** The type of a value in one word. */
export function typeName(planned: Plan): string {
  switch (planned.control) {
    case 'text':
      return planned.format ? `${t('type.text')} (${shortened(planned.format, 20)})` : t('type.text');
    case 'number':
      return planned.integer ? t('type.integer') : t('type.number');
    case 'boolean':
    case 'choice':
    case 'list':
    case 'object':
      return t(`type.${planned.control}`);
    case 'map':
      return t('type.object');
    case 'union':
      return shortened(planned.options.map((option) => kindName(option.label)).join(' | '), 60);
    case 'json':
      return 'JSON';
    case 'null':
      return 'null';
  }
}
