// Schemas for the forms of bundles, their tools and the steps of recipes.
import { type TextKey, b } from './texts';

type Schema = Record<string, unknown>;

const text = (title: TextKey, hint?: TextKey, more: Schema = {}): Schema => ({ type: 'string', title: b(title), ...(hint ? { description: b(hint) } : {}), ...more });
const texts = (title: TextKey, hint?: TextKey): Schema => ({ type: 'array', title: b(title), items: { type: 'string' }, ...(hint ? { description: b(hint) } : {}) });
const integer = (title: TextKey, more: Schema = {}): Schema => ({ type: 'integer', title: b(title), ...more });
const choice = (title: TextKey, values: string[], more: Schema = {}): Schema => ({ enum: values, title: b(title), ...more });

/** An authentication variant: its fixed type, its required fields, and its optional ones. */
function variant(type: TextKey, needed: Schema, more: Schema = {}): Schema {
  return { title: b(type), type: 'object', properties: { type: { const: type, title: b('type') }, ...needed, ...more }, required: ['type', ...Object.keys(needed)] };
}

const auth = (): Schema => ({
  title: b('auth'),
  description: b('authHint'),
  oneOf: [
    variant('apiKey', { in: choice('in', ['header', 'query']), name: text('keyName'), value: text('value', 'valueHint') }),
    variant('basic', { username: text('username'), password: text('password', 'valueHint') }),
    variant('bearer', { token: text('token', 'valueHint') }),
    variant('oauth2', { tokenUrl: text('tokenUrl'), clientId: text('clientId') }, {
      grant: choice('grant', ['client_credentials', 'refresh_token', 'jwt_bearer'], { default: 'client_credentials' }), clientSecret: text('clientSecret'),
      clientAuth: choice('clientAuth', ['basic', 'body', 'private_key_jwt', 'none'], { default: 'basic' }), scopes: texts('scopes'), audience: text('audience'), resource: text('resource'),
      refreshToken: text('refreshToken'), privateKey: text('privateKey'),
    }),
    variant('hmac', { secret: text('secret', 'valueHint') }, { preset: choice('preset', ['generic', 'github', 'stripe', 'binance']), keyId: text('keyId'), stringToSign: text('stringToSign') }),
    variant('sigv4', { service: text('service'), region: text('region'), accessKeyId: text('accessKeyId'), secretAccessKey: text('secretAccessKey') }, { sessionToken: text('sessionToken') }),
  ],
});

export const bundleSchema = (): Schema => ({
  type: 'object',
  properties: {
    slug: text('slug', 'slugHint', { pattern: '^[\\p{L}\\p{Nd}-]{1,64}$' }),
    displayName: text('displayName'),
    description: text('description', 'descriptionHint'),
    docs: text('docs'),
    secrets: texts('secrets', 'secretsHint'),
    auth: auth(),
  },
  required: ['slug'],
});

/** Fields of every HTTP tool. */
export const toolSchema = (): Schema => ({
  type: 'object',
  'x-ordered': true,
  properties: {
    slug: text('slug', 'slugHint'),
    version: text('version', 'versionHint'),
    displayName: text('displayName'),
    description: text('description', 'descriptionHint', { maxLength: 4000 }),
    impl: {
      type: 'object',
      title: b('request'),
      'x-ordered': true,
      properties: {
        method: choice('method', ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'], { default: 'GET' }),
        urlTemplate: text('urlTemplate', 'urlHint'),
        headers: { type: 'object', title: b('headers'), additionalProperties: { type: 'string' } },
        bodyTemplate: text('bodyTemplate', undefined, { maxLength: 100_000 }),
      },
      required: ['urlTemplate'],
    },
  },
  required: ['slug', 'version', 'impl'],
});

/** Additional options of HTTP tools. */
export const toolOptionsSchema = (): Schema => ({
  type: 'object',
  properties: {
    impl: {
      type: 'object',
      title: b('request'),
      properties: {
        auth: auth(),
        secrets: texts('secrets', 'secretsHint'),
        responseEncoding: choice('responseEncoding', ['json', 'text'], { default: 'json' }),
        extractExpr: text('extractExpr', 'extractHint'),
        successCodes: { type: 'array', title: b('successCodes'), description: b('successHint'), items: { type: 'integer' } },
        errorMode: choice('errorMode', ['fail', 'empty'], { default: 'fail', description: b('errorHint') }),
        timeoutMs: integer('timeoutMs', { default: 10_000 }),
        maxRetries: integer('maxRetries', { maximum: 10 }),
        stream: {
          type: 'object',
          title: b('stream'),
          properties: { format: { enum: ['auto', 'sse', 'ndjson'], default: 'auto' }, text: text('extractExpr', 'extractHint'), events: { type: 'array', items: { type: 'string' } }, done: { type: 'string' }, error: { type: 'string' }, result: { enum: ['text', 'last', 'events'] } },
        },
        paginate: { title: b('paginate'), description: b('paginateHint') },
      },
    },
    tags: texts('tags'),
    maxCallsPerMinute: integer('maxCallsPerMinute', { minimum: 1 }),
    outputSchema: { title: b('outputSchema'), description: b('outputSchemaHint') },
  },
  required: ['impl'],
});

/** Additional options of a step. */
export const stepSchema = (): Schema => ({
  type: 'object',
  properties: {
    if: text('if', 'ifHint'),
    forEach: text('forEach', 'forEachHint'),
    as: text('as', undefined, { default: 'item' }),
    errorMode: choice('errorMode', ['fail', 'empty'], { default: 'fail', description: b('stepErrorHint') }),
    default: { title: b('stepDefault'), description: b('stepDefaultHint') },
    dependsOn: texts('dependsOn', 'dependsOnHint'),
    retry: { type: 'object', title: b('retry'), properties: { max: integer('max', { minimum: 1 }), delayMs: integer('delayMs') }, required: ['max'] },
    version: text('version', 'stepVersionHint'),
  },
});
