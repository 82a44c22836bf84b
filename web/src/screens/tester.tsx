// The live tester: a form from the tool's schema, validated while it is filled in; the call takes the same path as any
// other.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, type Part, type ToolDetail, events, may, request, segment, session } from '../api';
import { type Draft, EMPTY, Entries, RawText, draftOf, textOf, valueOf } from '../form/draft';
import { initial as initialDraft } from '../form/fit';
import { type FormContext, SchemaForm } from '../form/form';
import { draftMessage, messages } from '../form/messages';
import { duration, plural, t, time } from '../i18n';
import { validate } from '../json/client';
import { type Json, type JsonObject, parse, python, stringify, toPlain } from '../json/lossless';
import { plain, shortened } from '../text';
import { CopyButton, Notice, messageOf } from '../ui/parts';
import { type Outcome, ResultView } from '../ui/result';

interface Past {
  at: string;
  args: string;
  isError: boolean;
  durationMs: number;
}

/** A report of an active call. */
interface Reported {
  done?: number;
  total?: number;
  message?: string;
  isPrinted?: boolean;
}

const MAX_STREAMED = 100_000;
const MAX_HISTORY = 20;
const HISTORY_KEY = 'onetool.calls';
const MAX_STORED_CHARS = 500_000;
const history = new Map<string, Past[]>(stored());

function stored(): [string, Past[]][] {
  try {
    return JSON.parse(sessionStorage.getItem(HISTORY_KEY) ?? '[]') as [string, Past[]][];
  } catch {
    return [];
  }
}

/** Keeps the history of calls until the tab is closed. */
function keep(name: string, past: Past[]) {
  history.delete(name);
  history.set(name, past);
  const text = JSON.stringify([...history]);
  try {
    if (text.length < MAX_STORED_CHARS) sessionStorage.setItem(HISTORY_KEY, text);
  } catch {
    // Not stored; it lasts as long as the page.
  }
}

export function Tester({ tool, initial, onInsert }: { tool: ToolDetail; initial?: string; onInsert?(line: string): void }) {
  const [draft, setDraft] = useState<Draft>(() => start(tool, initial));
  const [showAll, setShowAll] = useState(false);
  const [found, setFound] = useState<ReadonlyMap<string, string>>(new Map());
  const [unchecked, setUnchecked] = useState(false);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [progress, setProgress] = useState<Reported>({});
  const [streamed, setStreamed] = useState('');
  const [, setPast] = useState(0);
  const running = useRef<AbortController | null>(null);
  const [isRunning, setIsRunning] = useState(false);
  const { value, problems } = useMemo(() => valueOf(draft), [draft]);
  const args = value instanceof Map ? value : null;

  useEffect(() => {
    let isGone = false;
    const timer = setTimeout(() => {
      void validate(tool.inputSchema, toPlain(value ?? new Map())).then((errors) => {
        if (isGone) return;
        setUnchecked(errors === null);
        setFound(messages(errors ?? []));
      });
    }, 150);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [tool.inputSchema, value]);
  useEffect(() => () => running.current?.abort(), []);

  const all = useMemo(() => {
    const result = new Map(found);
    for (const problem of problems) result.set(problem.path, draftMessage(problem));
    return result;
  }, [found, problems]);
  const form: FormContext = { root: tool.inputSchema, problems: all, showAll };
  const blocked = problems.length > 0 || args === null;

  const invoke = async (dryRun: boolean, despite = false) => {
    setShowAll(true);
    if (blocked || isRunning) return;
    if (!despite) {
      const errors = await validate(tool.inputSchema, toPlain(args));
      setFound(messages(errors ?? []));
      if ((errors ?? []).length > 0) {
        setTimeout(showProblem);
        return;
      }
    }
    await perform(stringify(args), dryRun);
  };
  const perform = async (sent: string, dryRun: boolean) => {
    if (running.current) return;
    const control = new AbortController();
    running.current = control;
    setIsRunning(true);
    setOutcome(null);
    setProgress({});
    setStreamed('');
    const started = performance.now();
    const result = await call(tool.name, sent, dryRun, control.signal, (report) => {
      setProgress(report);
      // Pieces of a stream are appended unchanged; other reports are lines.
      if (report.message) setStreamed((text) => `${text}${report.message}${tool.kind === 'bundle' || report.isPrinted ? '' : '\n'}`.slice(-MAX_STREAMED));
    }).catch((error: unknown) => failed(error, control.signal, started));
    running.current = null;
    setOutcome(result);
    setIsRunning(false);
    const list = history.get(tool.name) ?? [];
    if (!dryRun) keep(tool.name, [{ at: new Date().toISOString(), args: sent, isError: result.isError, durationMs: result.durationMs }, ...list].slice(0, MAX_HISTORY));
    setPast((n) => n + 1);
  };

  const reuse = (text: string) => setDraft(draftOf(parse(text)));
  const canCall = may('invoke') && tool.isEnabled && !isRunning;
  const isJson = draft instanceof RawText;
  return (
    <form class="tester" noValidate onSubmit={(event) => { event.preventDefault(); void invoke(false); }}
      onKeyDown={(event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) { event.preventDefault(); void invoke(false); } }}>
      <div class="row">
        <h3>{t('tester.title')}</h3>
        <span class="grow" />
        <button type="button" class="link small" onClick={() => setDraft(isJson ? fromText(draft) : new RawText(textOf(draft) || '{}'))} disabled={isJson && problems.length > 0}>
          {isJson ? t('form.asForm') : t('form.asJson')}
        </button>
        <button type="button" class="link small" onClick={() => { setDraft(start(tool, undefined)); setShowAll(false); }}>{t('tester.clear')}</button>
      </div>
      <SchemaForm form={form} draft={draft} onChange={setDraft} />
      {unchecked && <Notice kind="warn">{t('tester.unchecked')}</Notice>}
      {showAll && all.size > 0 && <Notice kind="warn">{plural(all.size, 'tester.problem', 'tester.problems')}{all.has('') && `: ${all.get('')}`} {!blocked && may('invoke') && <button type="button" class="link" onClick={() => void invoke(false, true)}>{t('tester.anyway')}</button>}</Notice>}
      <div class="row actions">
        <button type="submit" class="primary" disabled={!canCall}>{isRunning ? t('tester.running') : t('tester.run')}</button>
        {isRunning && <button type="button" onClick={() => running.current?.abort()}>{t('tester.stop')}</button>}
        {onInsert && args && <button type="button" onClick={() => onInsert(runLine(tool.name, args))}>{t('tester.insert')}</button>}
        <button type="button" disabled={isRunning || !may('invoke')} title={t('tester.dryRunHint')} onClick={() => void invoke(true)}>{t('tester.dryRun')}</button>
        {!tool.isEnabled && <span class="quiet">{t('tester.disabled')}</span>}
        {tool.isEnabled && !may('invoke') && <span class="quiet">{t('tester.noScope')}</span>}
        {isRunning && progress.total !== undefined && progress.total > 0 && <progress max={progress.total} value={Math.min(progress.done ?? 0, progress.total)} aria-label={t('tester.running')} />}
      </div>
      {isRunning && streamed !== '' && <pre class="printed" role="status" tabIndex={0}>{plain(streamed)}</pre>}
      {outcome && <ResultView outcome={outcome} />}
      {args && <Equivalents name={tool.name} args={args} />}
      <History past={history.get(tool.name) ?? []} canCall={canCall} onPick={reuse} onCall={(text) => { reuse(text); void perform(text, false); }} />
    </form>
  );
}

/** Scrolls to the first mistake, and focuses it. */
function showProblem() {
  const field = document.querySelector<HTMLElement>('.tester [aria-invalid="true"]') ?? document.querySelector<HTMLElement>('.tester .problem')?.closest('fieldset')?.querySelector<HTMLElement>('button');
  field?.scrollIntoView({ block: 'center' });
  field?.focus({ preventScroll: true });
}

function start(tool: ToolDetail, initial: string | undefined): Draft {
  try {
    if (initial !== undefined) return draftOf(parse(initial));
  } catch {
    // The address is invalid; the form starts empty.
  }
  const draft = initialDraft(tool.inputSchema, tool.inputSchema);
  return draft instanceof Entries ? draft : EMPTY;
}

function fromText(draft: Draft): Draft {
  const { value } = valueOf(draft);
  return value instanceof Map ? draftOf(value) : EMPTY;
}

export async function call(name: string, args: string, dryRun: boolean, signal: AbortSignal, onProgress: (report: Reported) => void): Promise<Outcome> {
  const started = performance.now();
  const outcome: Outcome = { isError: false, json: null, text: null, parts: [], durationMs: 0 };
  const path = `api/tools/${segment(name)}/invoke${dryRun ? '?dryRun=true' : ''}`;
  const response = await request(path, { method: 'POST', body: `{"args":${args}}`, signal, accept: 'text/event-stream' });
  for await (const { event, data } of events(response)) {
    if (event === 'progress') onProgress(JSON.parse(data) as Reported);
    else if (event === 'printed') onProgress({ message: (JSON.parse(data) as { text: string }).text, isPrinted: true });
    else if (event === 'value') outcome.json = data;
    else if (event === 'error') {
      const error = JSON.parse(data) as { message: string; hint?: string; code: string };
      outcome.isError = true;
      outcome.text = error.message;
      outcome.hint = error.hint;
    } else if (event === 'done') {
      const done = JSON.parse(data) as { durationMs: number; parts?: Part[]; status?: number; attempts?: number };
      outcome.durationMs = done.durationMs;
      outcome.parts = done.parts ?? [];
      outcome.note = done.status ? `HTTP ${done.status}` : undefined;
    }
  }
  outcome.durationMs ||= performance.now() - started;
  return outcome;
}

export function progressText(data: string): string {
  const { done, total, message } = JSON.parse(data) as { done: number; total?: number; message?: string };
  return [message && shortened(message, 200), total ? `${Math.round((100 * done) / total)} %` : ''].filter(Boolean).join(' · ');
}

export function failed(error: unknown, signal: AbortSignal, started: number): Outcome {
  const text = signal.aborted ? t('tester.stopped') : messageOf(error);
  return { isError: true, json: null, text, parts: [], durationMs: performance.now() - started, hint: error instanceof ApiError ? error.hint : undefined };
}

function Equivalents({ name, args }: { name: string; args: JsonObject }) {
  const lines: [string, string][] = [
    ['run()', runLine(name, args)],
    ['curl', curlLine(name, args)],
    ['onetool', cliLine(name, args)],
  ];
  return (
    <details class="equivalents">
      <summary>{t('tester.equivalents')}</summary>
      {lines.map(([label, text]) => (
        <div class="row" key={label}>
          <span class="label equivalents-label">{label}</span>
          <code class="grow">{plain(text)}</code>
          <CopyButton text={text} />
        </div>
      ))}
    </details>
  );
}

const KEYWORDS = new Set('False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield'.split(' '));

export function runLine(name: string, args: JsonObject): string {
  const isName = (key: string) => /^[A-Za-z_]\w*$/.test(key) && !KEYWORDS.has(key);
  const plainNames = [...args].filter(([key]) => isName(key));
  const others = [...args].filter(([key]) => !isName(key));
  const parts = plainNames.map(([key, value]) => `${key}=${python(value)}`);
  if (others.length > 0) parts.push(`**${python(new Map(others))}`);
  return `${name}(${parts.join(', ')})`;
}

const quoted = (text: string) => `'${text.replace(/'/g, `'\\''`)}'`;

function curlLine(name: string, args: JsonObject): string {
  const body = stringify(new Map<string, Json>([['args', args]]));
  const access = session.value?.tokenRequired ? ' -H "Authorization: Bearer $ONETOOL_TOKEN"' : '';
  return `curl -X POST ${quoted(`${location.origin}/api/tools/${segment(name)}/invoke`)}${access} -H 'Content-Type: application/json' -d ${quoted(body)}`;
}

function cliLine(name: string, args: JsonObject): string {
  return args.size === 0 ? `onetool call ${name}` : `onetool call ${name} --json ${quoted(stringify(args))}`;
}

function History({ past, canCall, onPick, onCall }: { past: Past[]; canCall: boolean; onPick(args: string): void; onCall(args: string): void }) {
  if (past.length === 0) return null;
  return (
    <details>
      <summary>{t('tester.history')} ({past.length})</summary>
      <ul class="plain-list">
        {past.map((entry, index) => (
          <li key={index} class="row">
            <span class={entry.isError ? 'dot bad' : 'dot good'} role="img" aria-label={entry.isError ? t('result.failed') : t('result.ok')} />
            <span class="quiet">{time(entry.at)} · {duration(entry.durationMs)}</span>
            <code class="grow">{shortened(entry.args, 120)}</code>
            <button type="button" class="small" onClick={() => onPick(entry.args)}>{t('tester.again')}</button>
            <button type="button" class="small" disabled={!canCall} onClick={() => onCall(entry.args)}>{t('tester.callAgain')}</button>
          </li>
        ))}
      </ul>
    </details>
  );
}

