// Bundles and their HTTP tools: create, change, new version, duplicate, delete. The form of a tool is made from a
// schema like any other form; errors of the server are shown unchanged.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, get, getStored, segment, send } from '../api';
import { type Draft, EMPTY, Entries, draftOf, draftOfPlain, valueOf } from '../form/draft';
import { SchemaForm } from '../form/form';
import { draftMessage } from '../form/messages';
import { missingArguments, withArguments } from '../form/templates';
import { language, number, plural, t } from '../i18n';
import { fromPlain, toExact } from '../json/lossless';
import { address, go, place } from '../router';
import { plain, shortened } from '../text';
import { loadToolbox } from '../toolbox';
import { useLoad } from '../ui/load';
import { Badge, Confirm, Failure, Notice, Switch, say, sayProblem } from '../ui/parts';
import { ArgumentsEditor } from './arguments';
import { ImportForm, download } from './exchange';
import { RequestPreview } from './preview';
import { type Recipe, RecipeForm, newRecipe, recipeOf } from './recipe';
import { bundleSchema, toolOptionsSchema, toolSchema } from './schemas';
import { b } from './texts';

interface Bundle {
  bundleID: string;
  isEnabled: boolean;
  slug: string;
  displayName: string;
  description: string;
  isBuiltIn: boolean;
  toolCount: number;
  secrets?: string[];
  /** Why none of its tools can be called. */
  disabledReason?: string;
}

interface Tool {
  slug: string;
  version: string;
  displayName: string;
  description: string;
  isEnabled: boolean;
  type: string;
}

/** The result of testing a bundle's authentication, step by step. */
interface AuthReport {
  ok: boolean;
  steps: { step: 'configuration' | 'token' | 'request'; state: string; message: string; hint?: string }[];
}

/** Fetches all pages of a list. */
async function pages<T>(path: string, signal: AbortSignal | undefined, read: (page: { bundles?: unknown[]; tools?: unknown[] }) => unknown[] | undefined): Promise<T[]> {
  const found: T[] = [];
  let token: string | undefined;
  do {
    const page = await get<{ nextPageToken?: string; bundles?: unknown[]; tools?: unknown[] }>(`${path}${token === undefined ? '' : `&pageToken=${segment(token)}`}`, signal);
    found.push(...((read(page) ?? []) as T[]));
    token = page.nextPageToken;
  } while (token !== undefined && found.length < MAX_LISTED);
  return found;
}

const allBundles = (path: string, signal?: AbortSignal) => pages<Bundle>(path, signal, (page) => page.bundles);
const allTools = (path: string, signal?: AbortSignal) => pages<Tool>(path, signal, (page) => page.tools);
const MAX_LISTED = 20_000;
const SHOWN = 100;

/** Fields that the store sets. */
const STORED = ['toolID', 'bundleID', 'schemaVersion', 'isBuiltIn', 'isEnabled', 'createdAt', 'modifiedAt', 'lastCalledAt', 'callCount', 'disabledReason', 'type'];

/** Creates a version 7 UUID: the time, followed by random bits. */
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
  const { data, error, reload } = useLoad<Bundle[]>('tools/bundles?includeDisabled=true&pageSize=256', allBundles);
  const own = data?.filter((bundle) => !bundle.isBuiltIn) ?? [];
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
      <div class="row wrap"><h1>{t('nav.editor')}</h1><span class="grow" /><button type="button" onClick={() => setIsImporting(true)}>{t('exchange.title')}</button><button type="button" class="primary" onClick={() => setIsNew(true)}>{t('editor.newBundle')}</button></div>
      {isImporting && <ImportForm onDone={(slug) => { setIsImporting(false); if (slug !== null) { reload(); void loadToolbox(); say(t('editor.saved', { name: plain(slug) })); } }} />}
      {error !== null && <Failure error={error} onRetry={reload} />}
      {isNew && <BundleForm title={t('editor.newBundle')} initial={EMPTY} onSave={create} onCancel={() => setIsNew(false)} />}
      {data && own.length === 0 && !isNew && <p class="quiet empty">{t('editor.none')}</p>}
      <ul class="plain-list cards">
        {own.map((bundle) => (
          <li key={bundle.bundleID} class="card row wrap">
            <a href={address('editor', bundle.bundleID)}><strong>{shortened(bundle.slug, 64)}</strong></a>
            <span class="quiet grow">{shortened(bundle.displayName === bundle.slug ? bundle.description : bundle.displayName || bundle.description, 160)}</span>
            <span class="quiet">{plural(bundle.toolCount, 'tools.one', 'tools.many')}</span>
            <Switch isOn={bundle.isEnabled} label={t('tools.switchPack', { name: plain(bundle.slug) })} onChange={(isEnabled) => void turn(`tools/bundles/${segment(bundle.bundleID)}`, bundle.slug, isEnabled, reload)} />
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Enables or disables a bundle or a version, with undo. */
async function turn(path: string, name: string, isEnabled: boolean, done: () => void, withUndo = true): Promise<void> {
  try {
    await send('PATCH', path, { isEnabled });
    const undo = () => void turn(path, name, !isEnabled, done, false);
    say(t(isEnabled ? 'tools.enabled' : 'tools.disabled', { name: plain(name) }), withUndo ? { undo } : {});
  } catch (problem) {
    sayProblem(problem);
  }
  done();
  void loadToolbox();
}

/** Scrolls to a newly opened form, and focuses its first field. */
function useFirstField() {
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => {
    form.current?.scrollIntoView({ block: 'start' });
    form.current?.querySelector<HTMLElement>('input, select, textarea')?.focus({ preventScroll: true });
  }, []);
  return form;
}

/** A bundle's own values, new or stored. */
function BundleForm({ title, initial, onSave, onCancel }: { title: string; initial: Draft; onSave(body: Record<string, unknown>): Promise<void>; onCancel(): void }) {
  const [draft, setDraft] = useState(initial);
  const [problem, setProblem] = useState<unknown>(null);
  const schema = useMemo(bundleSchema, [language.value]);
  const form = useFirstField();
  const { value, problems } = useMemo(() => valueOf(draft), [draft]);
  const found = useMemo(() => {
    const all = new Map(problems.map((entry) => [entry.path, draftMessage(entry)]));
    if (problem instanceof ApiError && problem.pointer !== undefined) all.set(problem.pointer, problem.message.replace(/^[\w.[\]]+: /, ''));
    return all;
  }, [problems, problem]);
  const save = async () => {
    setProblem(null);
    if (problems.length > 0) return;
    try {
      await onSave(toExact(value ?? new Map()) as Record<string, unknown>);
    } catch (error) {
      setProblem(error);
    }
  };
  return (
    <form class="card" ref={form} noValidate onSubmit={(event) => { event.preventDefault(); void save(); }}>
      <h2>{title}</h2>
      <SchemaForm form={{ root: schema, problems: found, showAll: true, titles: true }} draft={draft} onChange={(next) => { setProblem(null); setDraft(next); }} />
      {problem !== null && <Failure error={problem} />}
      <div class="row actions"><button type="submit" class="primary">{t('save')}</button><button type="button" onClick={onCancel}>{t('cancel')}</button></div>
    </form>
  );
}

/** The fields of a stored bundle that can be edited, and those that are kept. */
const EDITED = ['slug', 'displayName', 'description', 'docs', 'secrets', 'auth'];
const KEPT = ['isEnabled', 'translations'];

function parts(stored: Record<string, unknown>, names: string[]): Record<string, unknown> {
  return Object.fromEntries(names.flatMap((name) => (stored[name] === undefined || stored[name] === null || stored[name] === '' ? [] : [[name, stored[name]]])));
}

/** The open form next to the list: one at a time. */
type Open = { bundle: Record<string, unknown> } | { tool: Draft } | { recipe: Recipe } | null;

const NEW_TOOL = { version: 'v1', impl: { urlTemplate: 'https://' }, argSchema: { type: 'object', properties: {}, additionalProperties: false } };

function BundlePage({ bundle, onChanged, onGone }: { bundle: Bundle; onChanged(): Promise<void>; onGone(): void }) {
  const path = `tools/bundles/${segment(bundle.bundleID)}`;
  const { data: tools, error, reload } = useLoad<Tool[]>(`tools/tools?includeDisabled=true&recommendedPageSize=256&bundleIDs=${segment(bundle.bundleID)}`, allTools);
  const [open, setOpen] = useState<Open>(null);
  const [authReport, setAuthReport] = useState<AuthReport | null>(null);
  const [removed, setRemoved] = useState<Tool | 'bundle' | null>(null);
  const [query, setQuery] = useState('');
  const toolPath = (slug: string, version: string) => `${path}/tools/${segment(slug)}/version/${segment(version)}`;
  /** Runs an action, and reports its failure. */
  const attempt = async (work: () => Promise<void>) => {
    try {
      await work();
    } catch (problem) {
      sayProblem(problem);
    }
  };
  const edit = () => attempt(async () => setOpen({ bundle: await getStored<Record<string, unknown>>(path) }));
  const change = async (stored: Record<string, unknown>, body: Record<string, unknown>) => {
    await send('PUT', path, { ...parts(stored, KEPT), ...body });
    // Refreshed before the form closes, so that the page changes only once and a form opened next stays in place.
    await onChanged();
    setOpen(null);
    void loadToolbox();
    say(t('editor.saved', { name: plain(String(body['slug'])) }));
  };
  const copyOf = (tool: Tool, without: 'slug' | 'version') => attempt(async () => {
    const stored = await getStored<Record<string, unknown>>(toolPath(tool.slug, tool.version));
    const isRecipe = stored['type'] === 'sequence';
    for (const name of [...STORED, without]) delete stored[name];
    if (without === 'version') stored['version'] = nextVersion(tool, tools ?? []);
    setOpen(isRecipe ? { recipe: recipeOf(stored) } : { tool: draftOf(fromPlain(stored)) });
  });
  const remove = (target: Tool | 'bundle') => attempt(async () => {
    await send('DELETE', target === 'bundle' ? path : toolPath(target.slug, target.version));
    if (target === 'bundle') onGone();
    else reload();
    void loadToolbox();
  });
  const done = (saved: string | null) => {
    setOpen(null);
    if (saved === null) return;
    reload();
    void loadToolbox();
    say(t('editor.saved', { name: plain(saved) }));
  };
  const wanted = query.trim().toLowerCase();
  const found = (tools ?? []).filter((tool) => `${tool.slug} ${tool.displayName} ${tool.description}`.toLowerCase().includes(wanted));
  return (
    <div class="page">
      <a href={address('editor')}>← {t('nav.editor')}</a>
      <div class="row wrap">
        <h1>{plain(bundle.slug)}</h1>
        {!bundle.isEnabled && <Badge>{t('tools.off')}</Badge>}
        <span class="grow" />
        <button type="button" class="primary" onClick={() => setOpen({ tool: draftOfPlain(NEW_TOOL) })}>{t('editor.newTool')}</button>
        <button type="button" onClick={() => setOpen({ recipe: newRecipe() })}>{t('recipe.new')}</button>
        <button type="button" onClick={() => void edit()}>{t('editor.editBundle')}</button>
        <button type="button" onClick={() => void download(bundle.bundleID, bundle.slug)}>{t('exchange.export')}</button>
        <button type="button" onClick={() => void attempt(async () => setAuthReport(await send<AuthReport>('POST', `${path}/auth/test`)))}>{t('editor.testAuth')}</button>
        <button type="button" class="danger" disabled={(tools?.length ?? 1) > 0} title={(tools?.length ?? 1) > 0 ? t('editor.notEmpty') : undefined} onClick={() => setRemoved('bundle')}>{t('editor.deleteBundle')}</button>
      </div>
      {bundle.displayName !== bundle.slug && bundle.displayName !== '' && <p><strong>{plain(bundle.displayName)}</strong></p>}
      {bundle.description !== '' && <p class="quiet">{shortened(bundle.description, 600)}</p>}
      {bundle.isEnabled && bundle.disabledReason && <Notice kind="warn">{plain(bundle.disabledReason)}</Notice>}
      {error !== null && <Failure error={error} onRetry={reload} />}
      {authReport !== null && <AuthSteps report={authReport} />}
      {open && 'bundle' in open && <BundleForm title={t('editor.editBundle')} initial={draftOfPlain(parts(open.bundle, EDITED))} onSave={(body) => change(open.bundle, body)} onCancel={() => setOpen(null)} />}
      {open && 'tool' in open && <ToolForm draft={open.tool} onChange={(tool) => setOpen({ tool })} bundle={bundle.bundleID} secrets={bundle.secrets ?? []} path={toolPath} onDone={done} />}
      {open && 'recipe' in open && <RecipeForm initial={open.recipe} path={toolPath} onDone={done} />}
      {tools?.length === 0 && open === null && <p class="quiet empty">{t('editor.noTools')}</p>}
      {(tools?.length ?? 0) > 10 && <input type="search" class="wide-field" aria-label={b('find')} placeholder={b('find')} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />}
      <ul class="plain-list cards">
        {found.slice(0, SHOWN).map((tool) => {
          const name = `${tool.slug} ${tool.version}`;
          return (
            <li key={name} class="card row wrap">
              <a href={address('tools', `${identifier(bundle.slug)}.${identifier(tool.slug)}`)}><strong>{plain(tool.slug)}</strong></a>
              <code>{plain(tool.version)}</code>
              {tool.type === 'sequence' && <Badge>{b('recipe')}</Badge>}
              {!tool.isEnabled && <Badge>{t('tools.off')}</Badge>}
              <span class="quiet grow tool-text">{shortened(tool.displayName === tool.slug ? tool.description : tool.displayName || tool.description, 160)}</span>
              <span class="row">
                <button type="button" class="small" onClick={() => void copyOf(tool, 'version')}>{t('editor.newVersion')}</button>
                <button type="button" class="small" onClick={() => void copyOf(tool, 'slug')}>{t('editor.duplicate')}</button>
                <button type="button" class="small danger" aria-label={t('form.remove', { name })} onClick={() => setRemoved(tool)}>✕</button>
                <Switch isOn={tool.isEnabled} label={b('switchVersion', { name: plain(name) })} disabled={!bundle.isEnabled} onChange={(isEnabled) => void turn(toolPath(tool.slug, tool.version), name, isEnabled, reload)} />
              </span>
            </li>
          );
        })}
      </ul>
      {found.length > SHOWN && <p class="quiet">{b('shown', { shown: String(SHOWN), count: number(found.length) })}</p>}
      {removed !== null && (
        <Confirm title={b('deleteTitle', { name: plain(removed === 'bundle' ? bundle.slug : `${removed.slug} ${removed.version}`) })} text={b(removed === 'bundle' ? 'deleteBundle' : 'deleteTool')} action={b('delete')}
          onConfirm={() => void remove(removed)} onClose={() => setRemoved(null)} />
      )}
    </div>
  );
}

/** The next version, such as `v3` after `v2`, if it is free. */
function nextVersion({ slug, version }: Tool, tools: Tool[]): string {
  const [, start = '', digits] = /^(.*?)(\d+)$/.exec(version) ?? [];
  if (digits === undefined) return '';
  const next = `${start}${Number(digits) + 1}`;
  return tools.some((tool) => tool.slug === slug && tool.version === next) ? '' : next;
}

function AuthSteps({ report }: { report: AuthReport }) {
  return (
    <Notice kind={report.ok ? 'info' : 'bad'}>
      <ol class="plain-list">{report.steps.map((step) => <li key={step.step}><strong>{t(`auth.${step.step}`)}</strong> {plain(step.message)}{step.hint && <span class="hint"> {plain(step.hint)}</span>}</li>)}</ol>
    </Notice>
  );
}

const identifier = (slug: string) => slug.replace(/[^\p{L}\p{Nd}_]/gu, '_');

function ToolForm({ draft, onChange, bundle, secrets, path, onDone }: { draft: Draft; onChange(draft: Draft): void; bundle: string; secrets: string[]; path(slug: string, version: string): string; onDone(saved: string | null): void }) {
  const [problem, setProblem] = useState<unknown>(null);
  const [early, setEarly] = useState<ApiError | null>(null);
  const basic = useMemo(toolSchema, [language.value]);
  const options = useMemo(toolOptionsSchema, [language.value]);
  const form = useFirstField();
  const { value, problems } = useMemo(() => valueOf(draft), [draft]);
  const found = useMemo(() => {
    const all = new Map(problems.map((entry) => [entry.path, draftMessage(entry)]));
    for (const error of [early, problem]) if (error instanceof ApiError && error.pointer !== undefined) all.set(error.pointer, error.message.replace(/^[\w.[\]]+: /, ''));
    return all;
  }, [problems, problem, early]);
  const tool = useMemo(() => {
    if (problems.length > 0 || !(value instanceof Map)) return null;
    const { slug: _slug, version: _version, ...body } = toExact(value) as Record<string, unknown>;
    return body;
  }, [value, problems]);
  const missing = tool ? missingArguments(tool, secrets) : [];
  const name = (key: string) => { const text = value instanceof Map ? value.get(key) : undefined; return typeof text === 'string' ? text : ''; };
  const entries = draft instanceof Entries ? draft : EMPTY;
  const change = (next: Draft) => {
    setProblem(null);
    onChange(next);
  };
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
  const isHere = (pointer: string) => OPTIONS.some((option) => pointer === option || pointer.startsWith(`${option}/`));
  const [isMore, setIsMore] = useState(() => OPTIONS.some((option) => draftAt(entries, option) !== undefined));
  const shown = { problems: found, showAll: true, titles: true, only: true };
  return (
    <form class="card" ref={form} noValidate onSubmit={(event) => { event.preventDefault(); void save(); }}>
      <h2>{b('httpTool')}</h2>
      <SchemaForm form={{ root: basic, ...shown }} draft={entries} onChange={change} />
      <ArgumentsEditor draft={entries.get('argSchema')} problem={[...found].find(([pointer]) => pointer.startsWith('/argSchema'))?.[1]} onChange={(schema) => change(entries.with('argSchema', schema))} />
      {tool !== null && missing.length > 0 && (
        <Notice>
          <div class="row wrap"><span class="grow">{t('editor.missing', { names: missing.map((entry) => entry.name).join(', ') })}</span>
            <button type="button" class="small" onClick={() => change(draftOfPlain({ slug: name('slug'), version: name('version'), ...withArguments(tool, missing) }))}>{t('editor.addArguments')}</button></div>
        </Notice>
      )}
      <details open={isMore || [...found.keys()].some(isHere)} onToggle={(event) => setIsMore(event.currentTarget.open)}>
        <summary>{b('more')}</summary>
        <SchemaForm form={{ root: options, ...shown }} draft={entries} onChange={change} />
      </details>
      {problem !== null && <Failure error={problem} />}
      <RequestPreview bundle={bundle} tool={tool} onProblem={setEarly} />
      <div class="row actions"><button type="submit" class="primary" disabled={name('slug') === '' || name('version') === ''}>{t('save')}</button><button type="button" onClick={() => onDone(null)}>{t('cancel')}</button></div>
    </form>
  );
}

/** Fields in the section of additional options, by pointer. */
const OPTIONS = ['auth', 'secrets', 'responseEncoding', 'extractExpr', 'successCodes', 'errorMode', 'timeoutMs', 'maxRetries', 'stream', 'paginate'].map((name) => `/impl/${name}`).concat('/tags', '/maxCallsPerMinute', '/outputSchema');

function draftAt(entries: Entries, pointer: string): Draft {
  const [first = '', second] = pointer.slice(1).split('/');
  const part = entries.get(first);
  return second === undefined ? part : part instanceof Entries ? part.get(second) : undefined;
}
