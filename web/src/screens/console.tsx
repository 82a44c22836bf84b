// The console: run() with an editor, live output, and history.
import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Part, type ToolDetail, events, get, may, request, segment } from '../api';
import type { EditorHandle, EditorOptions } from '../editor/types';
import { duration, t, time } from '../i18n';
import { place } from '../router';
import { plain, shortened } from '../text';
import { packs, tools } from '../toolbox';
import { palette } from '../ui/palette';
import { Dialog, Notice } from '../ui/parts';
import { type Outcome, ResultView } from '../ui/result';
import { failed, progressText } from './tester';

declare const EDITOR_FILE: string;

interface Past {
  at: string;
  code: string;
  isError: boolean;
  durationMs: number;
}

const HISTORY_KEY = 'onetool.console';
const MAX_HISTORY = 50;
const MAX_PRINTED = 1_000_000;

function stored(): { code: string; past: Past[] } {
  try {
    return JSON.parse(sessionStorage.getItem(HISTORY_KEY) ?? '') as { code: string; past: Past[] };
  } catch {
    return { code: '', past: [] };
  }
}

const past = signal<Past[]>(stored().past);
let code = stored().code;

function keep() {
  try {
    sessionStorage.setItem(HISTORY_KEY, JSON.stringify({ code, past: past.value }));
  } catch {
    // Not stored; it lasts as long as the page.
  }
}

const details = new Map<string, Promise<ToolDetail | null>>();

function detail(name: string): Promise<ToolDetail | null> {
  let known = details.get(name);
  if (!known) {
    known = get<ToolDetail>(`api/tools/${segment(name)}`).catch(() => null);
    details.set(name, known);
  }
  return known;
}

async function parameters(name: string): Promise<string[]> {
  const schema = (await detail(name))?.inputSchema as { properties?: Record<string, unknown> } | undefined;
  return Object.keys(schema?.properties ?? {}).slice(0, 100);
}

export function ConsoleScreen() {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorHandle | null>(null);
  const [loadError, setLoadError] = useState(false);
  const [isReady, setIsReady] = useState(false);
  const [isRunning, setIsRunning] = useState(false);
  const [printed, setPrinted] = useState('');
  const [progress, setProgress] = useState('');
  const [calls, setCalls] = useState<{ name: string; error?: string; durationMs: number }[]>([]);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [name, setName] = useState('');
  const [isSaving, setIsSaving] = useState(false);
  const running = useRef<AbortController | null>(null);

  const run = async (before: string[] = []) => {
    const command = editor.current?.code() ?? code;
    if (command.trim() === '' || running.current || !may('invoke')) return;
    const lines = [...(name.trim() === '' ? [] : [`__session__ = ${JSON.stringify(name.trim())}`]), ...before];
    const sent = [...lines, command].join('\n');
    const control = new AbortController();
    running.current = control;
    setIsRunning(true);
    setOutcome(null);
    setPrinted('');
    setProgress('');
    setCalls([]);
    editor.current?.showError(null, '');
    const started = performance.now();
    let result: Outcome | null = null;
    try {
      const response = await request('api/runs', { method: 'POST', body: JSON.stringify({ command: sent }), signal: control.signal, accept: 'text/event-stream' });
      for await (const { event, data } of events(response)) {
        if (event === 'printed') setPrinted((text) => (text + (JSON.parse(data) as { text: string }).text).slice(-MAX_PRINTED));
        else if (event === 'progress') setProgress(progressText(data));
        else if (event === 'call') setCalls((list) => [...list, JSON.parse(data) as { name: string; durationMs: number }].slice(-100));
        else if (event === 'result') {
          const reply = JSON.parse(data) as { text: string; isError: boolean; parts: Part[]; durationMs: number };
          result = { isError: reply.isError, json: null, text: reply.text, parts: reply.parts, durationMs: reply.durationMs };
        }
      }
      result ??= failed(new Error(t('console.cut')), control.signal, started);
    } catch (error) {
      result = failed(error, control.signal, started);
    }
    running.current = null;
    setIsRunning(false);
    setProgress('');
    setOutcome(result);
    if (result.isError) {
      const line = /\bline (\d+)/.exec(result.text ?? '')?.[1];
      editor.current?.showError(line ? Math.max(1, Number(line) - lines.length) : null, plain(result.text?.split('\n')[0] ?? ''));
    }
    past.value = [{ at: new Date().toISOString(), code: command, isError: result.isError, durationMs: result.durationMs }, ...past.value.filter((entry) => entry.code !== command)].slice(0, MAX_HISTORY);
    keep();
  };
  const latestRun = useRef(run);
  latestRun.current = run;

  useEffect(() => {
    let isGone = false;
    const given = place.value.query.get('code');
    if (given !== null) code = given;
    const options: EditorOptions = {
      code,
      label: t('console.code'),
      placeholder: t('console.placeholder'),
      packs: () => packs.value.filter((pack) => pack.isEnabled).map((pack) => ({ name: pack.name, summary: shortened(pack.description, 60) })),
      functions: (pack) => tools.value.filter((tool) => tool.pack === pack && tool.isEnabled).map((tool) => ({ name: tool.name.slice(pack.length + 1), summary: shortened(tool.summary, 60) })),
      parameters,
      signature: async (name) => { const tool = await detail(name); return tool ? plain(tool.signature) : null; },
      onChange: (text) => { code = text; keep(); },
      onRun: () => void latestRun.current(),
      onPlus: () => { palette.value = { insert: (text) => editor.current?.insert(text) }; },
    };
    const address: string = new URL(EDITOR_FILE, location.href).href;
    import(address).then(
      (module: { mount(host: HTMLElement, options: EditorOptions): EditorHandle }) => {
        if (isGone || !host.current) return;
        editor.current = module.mount(host.current, options);
        setIsReady(true);
        editor.current.focus();
      },
      () => { if (!isGone) setLoadError(true); },
    );
    return () => {
      isGone = true;
      editor.current?.destroy();
      editor.current = null;
      running.current?.abort();
    };
  }, []);

  // Code in the address, set while this screen is already open.
  const given = place.value.query.get('code');
  useEffect(() => {
    if (given === null || !editor.current) return;
    editor.current.setCode(given);
    editor.current.focus();
  }, [given]);

  return (
    <div class="page">
      <div class="row"><h1>{t('nav.console')}</h1></div>
      {loadError && (
        <textarea class="code" rows={10} aria-label={t('console.code')} defaultValue={code} onInput={(event) => { code = event.currentTarget.value; keep(); }} />
      )}
      <div ref={host} class="editor-host" data-ready={isReady} />
      <div class="row actions">
        <button type="button" class="primary" disabled={isRunning || !may('invoke')} onClick={() => void run()}>{isRunning ? t('tester.running') : t('console.run')}</button>
        {isRunning && <button type="button" onClick={() => running.current?.abort()}>{t('tester.stop')}</button>}
        <button type="button" aria-label={t('palette.title')} title={t('palette.title')} onClick={() => { palette.value = { insert: (text) => editor.current?.insert(text) }; }}><span aria-hidden="true">+</span></button>
        <button type="button" disabled={isRunning || !may('invoke')} onClick={() => setIsSaving(true)}>{t('console.save')}</button>
        <label class="row"><span class="quiet">{t('console.session')}</span><input class="small" value={name} size={10} autocomplete="off" spellcheck={false} placeholder={t('console.noSession')} title={t('console.sessionHint')} onInput={(event) => setName(event.currentTarget.value)} /></label>
        <span class="quiet keys">{t('console.keys')}</span>
      </div>
      {isSaving && <SaveDialog onClose={() => setIsSaving(false)} onSave={(line) => { setIsSaving(false); void run([line]); }} />}
      {!may('invoke') && <Notice kind="warn">{t('tester.noScope')}</Notice>}
      {isRunning && progress && <p class="quiet" role="status">{progress}</p>}
      {isRunning && printed !== '' && <pre class="printed" aria-live="polite" tabIndex={0}>{plain(printed)}</pre>}
      {outcome && <ResultView outcome={outcome} />}
      {calls.length > 0 && (
        <details>
          <summary>{t('console.calls')} ({calls.length})</summary>
          <ul class="plain-list">{calls.map((call, index) => <li key={index} class="row"><span class={call.error ? 'dot bad' : 'dot good'} /><code>{plain(call.name)}</code><span class="quiet">{duration(call.durationMs)}</span>{call.error && <span class="bad-text">{plain(call.error)}</span>}</li>)}</ul>
        </details>
      )}
      {past.value.length > 0 && (
        <section>
          <h2>{t('tester.history')}</h2>
          <ul class="plain-list">
            {past.value.map((entry, index) => (
              <li key={index} class="row wrap console-past">
                <span class={entry.isError ? 'dot bad' : 'dot good'} role="img" aria-label={entry.isError ? t('result.failed') : t('result.ok')} />
                <span class="quiet">{time(entry.at)} · {duration(entry.durationMs)}</span>
                <code class="grow ellipsis">{shortened(entry.code, 160)}</code>
                <button type="button" class="small" onClick={() => { editor.current?.setCode(entry.code); editor.current?.focus(); }}>{t('tester.again')}</button>
                <button type="button" class="small" disabled={isRunning || !may('invoke')} onClick={() => { editor.current?.setCode(entry.code); void run(); }}>{t('console.runAgain')}</button>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

/** Asks for the name of a snippet; the run itself saves the code. */
function SaveDialog({ onClose, onSave }: { onClose(): void; onSave(line: string): void }) {
  const [name, setName] = useState('');
  const [description, setDescription] = useState('');
  const isName = /^[A-Za-z_]\w*$/.test(name);
  return (
    <Dialog label={t('console.save')} onClose={onClose}>
      <form class="card" onSubmit={(event) => { event.preventDefault(); if (isName) onSave(`ot.save(${JSON.stringify(name)}, ${JSON.stringify(description)})`); }}>
        <label class="field"><span class="label">{t('console.saveName')}</span><input value={name} autocomplete="off" aria-invalid={name !== '' && !isName} onInput={(event) => setName(event.currentTarget.value)} /></label>
        <label class="field"><span class="label">{t('console.saveDescription')}</span><input value={description} autocomplete="off" onInput={(event) => setDescription(event.currentTarget.value)} /></label>
        <Notice>{t('console.saveHint')}</Notice>
        <div class="row actions"><button type="submit" class="primary" disabled={!isName}>{t('console.saveRun')}</button><button type="button" onClick={onClose}>{t('cancel')}</button></div>
      </form>
    </Dialog>
  );
}
