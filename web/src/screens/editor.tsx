// Bundles and their HTTP tools: create, change, new version, duplicate, delete. The form of a tool is made from a schema like any
// other form; what the server says of a mistake is shown as it says it.
import { useMemo, useState } from 'preact/hooks';
import { ApiError, getStored, segment, send } from '../api';
import { type Draft, EMPTY, Entries, draftOf, draftOfPlain, valueOf } from '../form/draft';
import { SchemaForm } from '../form/form';
import { missingArguments, withArguments } from '../form/templates';
import { t } from '../i18n';
import { fromPlain, toPlain } from '../json/lossless';
import { address, go, place } from '../router';
import { plain } from '../text';
import { loadToolbox } from '../toolbox';
import { useLoad } from '../ui/load';
import { Badge, Failure, Notice, say, sayProblem } from '../ui/parts';
import { ImportForm, download } from './exchange';
import { RequestPreview } from './preview';
import { type Recipe, RecipeForm, newRecipe, recipeOf } from './recipe';

interface Bundle {
  bundleID: string;
  slug: string;
  displayName: string;
  description: string;
  isBuiltIn: boolean;
  toolCount: number;
  secrets?: string[];
}

interface Tool {
  slug: string;
  version: string;
  displayName: string;
  description: string;
  isEnabled: boolean;
  type: string;
}

/** How a trial of a bundle's authentication went, step by step. */
interface AuthReport {
  ok: boolean;
  steps: { step: 'configuration' | 'token' | 'request'; state: string; message: string; hint?: string }[];
}

const TEXT = { type: 'string' };

/** Who requests say they are. Values are templates: ${NAME} stands for a secret. */
const AUTH_SCHEMA = {
  description: 'Who requests say they are. ${NAME} stands for a secret.',
  oneOf: [
    { title: 'API key', type: 'object', properties: { type: { const: 'apiKey' }, in: { enum: ['header', 'query'] }, name: TEXT, value: { ...TEXT, description: 'A template, such as ${API_KEY}.' } }, required: ['type', 'in', 'name', 'value'] },
    { title: 'Basic', type: 'object', properties: { type: { const: 'basic' }, username: TEXT, password: TEXT }, required: ['type', 'username', 'password'] },
    { title: 'Bearer', type: 'object', properties: { type: { const: 'bearer' }, token: TEXT }, required: ['type', 'token'] },
    {
      title: 'OAuth 2', type: 'object', required: ['type', 'tokenUrl', 'clientId'],
      properties: {
        type: { const: 'oauth2' }, grant: { enum: ['client_credentials', 'refresh_token', 'jwt_bearer'], default: 'client_credentials' }, tokenUrl: TEXT, clientId: TEXT, clientSecret: TEXT,
        clientAuth: { enum: ['basic', 'body', 'private_key_jwt', 'none'], default: 'basic' }, scopes: { type: 'array', items: TEXT }, audience: TEXT, resource: TEXT, refreshToken: TEXT, privateKey: TEXT,
      },
    },
    {
      title: 'HMAC signature', type: 'object', required: ['type', 'secret'],
      properties: { type: { const: 'hmac' }, preset: { enum: ['generic', 'github', 'stripe', 'binance'] }, secret: TEXT, keyId: TEXT, stringToSign: TEXT },
    },
    {
      title: 'AWS signature', type: 'object', required: ['type', 'service', 'region', 'accessKeyId', 'secretAccessKey'],
      properties: { type: { const: 'sigv4' }, service: TEXT, region: TEXT, accessKeyId: TEXT, secretAccessKey: TEXT, sessionToken: TEXT },
    },
  ],
};

/** What may be said of a bundle. */
const BUNDLE_SCHEMA = {
  type: 'object',
  properties: {
    slug: { ...TEXT, pattern: '^[\\p{L}\\p{Nd}-]{1,64}$', description: 'Letters, digits and dashes.' },
    displayName: TEXT,
    description: TEXT,
    docs: { ...TEXT, description: 'The address of its documentation.' },
    secrets: { type: 'array', items: TEXT, description: 'Names of secrets that templates of its tools may use.' },
    auth: AUTH_SCHEMA,
  },
  required: ['slug'],
};

/** What may be said of an HTTP tool. */
const TOOL_SCHEMA = {
  type: 'object',
  properties: {
    slug: { ...TEXT, description: 'Letters, digits and dashes.' },
    version: { ...TEXT, description: 'Any label, such as v1. A stored version does not change; make a new one instead.' },
    displayName: TEXT,
    description: { ...TEXT, maxLength: 4000, description: 'What it does, for people and models.' },
    tags: { type: 'array', items: TEXT },
    impl: {
      type: 'object',
      title: 'Request',
      properties: {
        method: { enum: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'], default: 'GET' },
        urlTemplate: { ...TEXT, description: '${name} stands for an argument or a secret, ${name:-default} has a default.' },
        headers: { type: 'object', additionalProperties: TEXT },
        bodyTemplate: { ...TEXT, maxLength: 100000 },
        auth: AUTH_SCHEMA,
        secrets: { type: 'array', items: TEXT, description: 'Names of secrets that the templates use.' },
        successCodes: { type: 'array', items: { type: 'integer' }, description: 'Any 2xx when empty.' },
        timeoutMs: { type: 'integer', default: 10000 },
        responseEncoding: { enum: ['json', 'text'], default: 'json' },
        extractExpr: { ...TEXT, description: 'A JSONPath ($…) or a regular expression.' },
        errorMode: { enum: ['fail', 'empty'], default: 'fail' },
        maxRetries: { type: 'integer', maximum: 10 },
        stream: {
          type: 'object',
          description: 'The reply is a stream of events.',
          properties: { format: { enum: ['auto', 'sse', 'ndjson'], default: 'auto' }, text: { ...TEXT, description: 'A JSONPath to the text that an event adds.' }, events: { type: 'array', items: TEXT }, done: TEXT, error: TEXT, result: { enum: ['text', 'last', 'events'] } },
        },
        paginate: { description: 'How the next page is asked for: {"type": "cursor", "cursor": "$.next", "param": "cursor"}, "page", "offset" or "link".' },
      },
      required: ['urlTemplate'],
    },
    argSchema: { description: 'JSON Schema of the arguments.' },
    outputSchema: { description: 'JSON Schema of the value.' },
    maxCallsPerMinute: { type: 'integer', minimum: 1 },
  },
  required: ['slug', 'version', 'impl'],
};

/** What the store sets by itself. */
const STORED = ['toolID', 'bundleID', 'schemaVersion', 'isBuiltIn', 'isEnabled', 'createdAt', 'modifiedAt', 'lastCalledAt', 'callCount', 'disabledReason', 'type'];

/** Ids are UUIDs of version 7: the time, then chance. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  let time = Date.now();
  for (let at = 5; at >= 0; at -= 1) {
    bytes[at] = time % 256;
    time = Math.floor(time / 256);
  }
  bytes[6] = 0x70 | (bytes[6]! & 0x0f);
  bytes[8] = 0x80 | (bytes[8]! & 0x3f);
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

export function EditorScreen() {
  const { data, error, reload } = useLoad<{ bundles: Bundle[] }>('tools/bundles?includeDisabled=true&pageSize=256');
  const own = data?.bundles.filter((bundle) => !bundle.isBuiltIn) ?? [];
  const open = own.find((bundle) => bundle.bundleID === place.value.subject);
  const [isNew, setIsNew] = useState(false);
  const [isImporting, setIsImporting] = useState(false);
  const create = async (body: Record<string, unknown>) => {
    const id = newId();
    await send('PUT', `tools/bundles/${id}`, body);
    setIsNew(false);
    reload();
    go('editor', id);
  };
  if (open) return <BundlePage key={open.bundleID} bundle={open} onChanged={reload} onGone={() => { reload(); go('editor'); }} />;
  return (
    <div class="page">
      <div class="row"><h1>{t('nav.editor')}</h1><span class="grow" /><button type="button" onClick={() => setIsImporting(true)}>{t('exchange.title')}</button><button type="button" class="primary" onClick={() => setIsNew(true)}>{t('editor.newBundle')}</button></div>
      {isImporting && <ImportForm onDone={(slug) => { setIsImporting(false); if (slug !== null) { reload(); void loadToolbox(); say(t('editor.saved', { name: plain(slug) })); } }} />}
      {error !== null && <Failure error={error} onRetry={reload} />}
      {isNew && <BundleForm initial={EMPTY} onSave={create} onCancel={() => setIsNew(false)} />}
      {data && own.length === 0 && !isNew && <p class="quiet empty">{t('editor.none')}</p>}
      <ul class="plain-list cards">
        {own.map((bundle) => (
          <li key={bundle.bundleID} class="card row"><a href={address('editor', bundle.bundleID)}><strong>{plain(bundle.slug)}</strong></a><span class="quiet grow">{plain(bundle.displayName || bundle.description)}</span><Badge>{bundle.toolCount}</Badge></li>
        ))}
      </ul>
    </div>
  );
}

/** A bundle's own values, new or stored. */
function BundleForm({ initial, onSave, onCancel }: { initial: Draft; onSave(body: Record<string, unknown>): Promise<void>; onCancel(): void }) {
  const [draft, setDraft] = useState(initial);
  const [problem, setProblem] = useState<unknown>(null);
  const { value, problems } = useMemo(() => valueOf(draft), [draft]);
  const found = useMemo(() => {
    const all = new Map(problems.map((entry) => [entry.path, entry.message]));
    if (problem instanceof ApiError && problem.pointer !== undefined) all.set(problem.pointer, problem.message.replace(/^[\w.[\]]+: /, ''));
    return all;
  }, [problems, problem]);
  const save = async () => {
    setProblem(null);
    if (problems.length > 0) return;
    try {
      await onSave(toPlain(value ?? new Map()) as Record<string, unknown>);
    } catch (error) {
      setProblem(error);
    }
  };
  return (
    <form class="card" noValidate onSubmit={(event) => { event.preventDefault(); void save(); }}>
      <SchemaForm form={{ root: BUNDLE_SCHEMA, problems: found, showAll: true }} draft={draft} onChange={(next) => { setProblem(null); setDraft(next); }} />
      {problem !== null && <Failure error={problem} />}
      <div class="row actions"><button type="submit" class="primary">{t('save')}</button><button type="button" onClick={onCancel}>{t('cancel')}</button></div>
    </form>
  );
}

/** What may be changed of a stored bundle, and what is kept beside it. */
const EDITED = ['slug', 'displayName', 'description', 'docs', 'secrets', 'auth'];
const KEPT = ['isEnabled', 'translations'];

function parts(stored: Record<string, unknown>, names: string[]): Record<string, unknown> {
  return Object.fromEntries(names.flatMap((name) => (stored[name] === undefined || stored[name] === null || stored[name] === '' ? [] : [[name, stored[name]]])));
}

function BundlePage({ bundle, onChanged, onGone }: { bundle: Bundle; onChanged(): void; onGone(): void }) {
  const path = `tools/bundles/${segment(bundle.bundleID)}`;
  const { data, error, reload } = useLoad<{ tools: Tool[] }>(`tools/tools?includeDisabled=true&recommendedPageSize=256&bundleIDs=${segment(bundle.bundleID)}`);
  const [draft, setDraft] = useState<Draft | null>(null);
  const [recipe, setRecipe] = useState<Recipe | null>(null);
  const [authReport, setAuthReport] = useState<AuthReport | null>(null);
  const [edited, setEdited] = useState<Record<string, unknown> | null>(null);
  const edit = async () => {
    try {
      setEdited(await getStored<Record<string, unknown>>(path));
    } catch (problem) {
      sayProblem(problem);
    }
  };
  const change = async (body: Record<string, unknown>) => {
    await send('PUT', path, { ...parts(edited ?? {}, KEPT), ...body });
    setEdited(null);
    onChanged();
    void loadToolbox();
    say(t('editor.saved', { name: plain(String(body['slug'])) }));
  };
  const toolPath = (slug: string, version: string) => `${path}/tools/${segment(slug)}/version/${segment(version)}`;
  const copyOf = async (tool: Tool, without: 'slug' | 'version') => {
    try {
      const stored = await getStored<Record<string, unknown>>(toolPath(tool.slug, tool.version));
      const isRecipe = stored['type'] === 'sequence';
      for (const name of [...STORED, without]) delete stored[name];
      if (isRecipe) setRecipe(recipeOf(stored));
      else setDraft(draftOf(fromPlain(stored)));
    } catch (problem) {
      sayProblem(problem);
    }
  };
  const testAuth = async () => {
    try {
      setAuthReport(await send<AuthReport>('POST', `${path}/auth/test`));
    } catch (problem) {
      sayProblem(problem);
    }
  };
  const remove = async (work: Promise<unknown>, done: () => void) => {
    try {
      await work;
      done();
      void loadToolbox();
    } catch (problem) {
      sayProblem(problem);
    }
  };
  return (
    <div class="page">
      <a href={address('editor')}>← {t('nav.editor')}</a>
      <div class="row wrap">
        <h1>{plain(bundle.slug)}</h1>
        <span class="grow" />
        <button type="button" class="primary" onClick={() => setDraft(draftOfPlain({ version: 'v1', impl: { urlTemplate: 'https://' }, argSchema: { type: 'object', properties: {}, additionalProperties: false } }))}>{t('editor.newTool')}</button>
        <button type="button" onClick={() => setRecipe(newRecipe())}>{t('recipe.new')}</button>
        <button type="button" onClick={() => void edit()}>{t('editor.editBundle')}</button>
        <button type="button" onClick={() => void download(bundle.bundleID, bundle.slug)}>{t('exchange.export')}</button>
        <button type="button" onClick={() => void testAuth()}>{t('editor.testAuth')}</button>
        <button type="button" class="danger" disabled={(data?.tools.length ?? 1) > 0} onClick={() => void remove(send('DELETE', path), onGone)}>{t('editor.deleteBundle')}</button>
      </div>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {edited !== null && <BundleForm initial={draftOfPlain(parts(edited, EDITED))} onSave={change} onCancel={() => setEdited(null)} />}
      {draft !== null && <ToolForm draft={draft} onChange={setDraft} bundle={bundle.bundleID} secrets={bundle.secrets ?? []} path={toolPath} onDone={(saved) => { setDraft(null); reload(); void loadToolbox(); if (saved) say(t('editor.saved', { name: plain(saved) })); }} />}
      {authReport !== null && (
        <Notice kind={authReport.ok ? 'info' : 'bad'}>
          <ol class="plain-list">{authReport.steps.map((step) => <li key={step.step}><strong>{t(`auth.${step.step}`)}</strong> {plain(step.message)}{step.hint && <span class="hint"> {plain(step.hint)}</span>}</li>)}</ol>
        </Notice>
      )}
      {recipe !== null && <RecipeForm initial={recipe} path={toolPath} onDone={(saved) => { setRecipe(null); reload(); void loadToolbox(); if (saved) say(t('editor.saved', { name: plain(saved) })); }} />}
      {data && data.tools.length === 0 && draft === null && recipe === null && <p class="quiet empty">{t('editor.noTools')}</p>}
      <ul class="plain-list cards">
        {data?.tools.map((tool) => (
          <li key={`${tool.slug} ${tool.version}`} class="card row wrap">
            <a href={address('tools', `${identifier(bundle.slug)}.${identifier(tool.slug)}`)}><strong>{plain(tool.slug)}</strong></a>
            <code>{plain(tool.version)}</code>
            {!tool.isEnabled && <Badge>{t('tools.off')}</Badge>}
            <span class="quiet grow">{plain(tool.displayName || tool.description)}</span>
            <button type="button" class="small" onClick={() => void copyOf(tool, 'version')}>{t('editor.newVersion')}</button>
            <button type="button" class="small" onClick={() => void copyOf(tool, 'slug')}>{t('editor.duplicate')}</button>
            <button type="button" class="small danger" aria-label={t('form.remove', { name: `${tool.slug} ${tool.version}` })} onClick={() => void remove(send('DELETE', toolPath(tool.slug, tool.version)), reload)}>✕</button>
          </li>
        ))}
      </ul>
    </div>
  );
}

const identifier = (slug: string) => slug.replace(/[^\p{L}\p{Nd}_]/gu, '_');

function ToolForm({ draft, onChange, bundle, secrets, path, onDone }: { draft: Draft; onChange(draft: Draft): void; bundle: string; secrets: string[]; path(slug: string, version: string): string; onDone(saved: string | null): void }) {
  const [problem, setProblem] = useState<unknown>(null);
  const [early, setEarly] = useState<ApiError | null>(null);
  const { value, problems } = useMemo(() => valueOf(draft), [draft]);
  const found = useMemo(() => {
    const all = new Map(problems.map((entry) => [entry.path, entry.message]));
    for (const error of [early, problem]) if (error instanceof ApiError && error.pointer !== undefined) all.set(error.pointer, error.message.replace(/^[\w.[\]]+: /, ''));
    return all;
  }, [problems, problem, early]);
  const tool = useMemo(() => {
    if (problems.length > 0 || !(value instanceof Map)) return null;
    const { slug: _slug, version: _version, ...body } = toPlain(value) as Record<string, unknown>;
    return body;
  }, [value, problems]);
  const missing = tool ? missingArguments(tool, secrets) : [];
  const name = (key: string) => { const text = value instanceof Map ? value.get(key) : undefined; return typeof text === 'string' ? text : ''; };
  const save = async () => {
    setProblem(null);
    if (tool === null) return;
    try {
      await send('PUT', path(name('slug'), name('version')), { ...tool, type: 'http' });
      onDone(`${name('slug')} ${name('version')}`);
    } catch (error) {
      setProblem(error);
    }
  };
  return (
    <form class="card" noValidate onSubmit={(event) => { event.preventDefault(); void save(); }}>
      <SchemaForm form={{ root: TOOL_SCHEMA, problems: found, showAll: true }} draft={draft instanceof Entries ? draft : draft ?? EMPTY} onChange={(next) => { setProblem(null); onChange(next); }} />
      {problem !== null && <Failure error={problem} />}
      {tool !== null && missing.length > 0 && (
        <Notice>
          <div class="row wrap"><span class="grow">{t('editor.missing', { names: missing.map((entry) => entry.name).join(', ') })}</span>
            <button type="button" class="small" onClick={() => onChange(draftOfPlain({ slug: name('slug'), version: name('version'), ...withArguments(tool, missing) }))}>{t('editor.addArguments')}</button></div>
        </Notice>
      )}
      <RequestPreview bundle={bundle} tool={tool} onProblem={setEarly} />
      <div class="row actions"><button type="submit" class="primary" disabled={name('slug') === '' || name('version') === ''}>{t('save')}</button><button type="button" onClick={() => onDone(null)}>{t('cancel')}</button></div>
    </form>
  );
}
