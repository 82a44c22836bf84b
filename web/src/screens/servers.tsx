// MCP servers and Python workers: state, log, restart, sign-in, and changed tools.
import { useEffect, useState } from 'preact/hooks';
import { may, segment, send } from '../api';
import { plural, t } from '../i18n';
import { plain } from '../text';
import { useEvery, useLoad } from '../ui/load';
import { Badge, CopyButton, Dialog, Failure, Notice, say, sayProblem } from '../ui/parts';
import { TextView } from '../ui/result';
import { Changes, LOOK_MS } from './pins';

export interface ServerRow {
  name: string;
  kind: 'server' | 'worker';
  state: string;
  reason?: string;
  toolCount: number;
  detail?: string;
  auth?: { state: 'signed in' | 'needs sign-in'; reason?: string; expiresIn?: number; url?: string };
}

const STATES = ['connected', 'connecting', 'disconnected', 'disabled', 'running', 'idle'] as const;
const stateName = (state: string) => {
  const known = STATES.find((name) => name === state);
  return known ? t(`servers.${known}`) : plain(state);
};
const dot = (state: string) => (state === 'connected' || state === 'running' ? 'good' : state === 'disconnected' ? 'bad' : '');

export function Servers() {
  const { data, error, reload } = useLoad<{ servers: ServerRow[] }>('api/servers');
  const [log, setLog] = useState<string | null>(null);
  const [signIn, setSignIn] = useState<string | null>(null);
  useEvery(LOOK_MS, reload);
  if (error !== null && !data) return <Failure error={error} onRetry={reload} />;
  if (!data) return <p class="quiet loading">{t('loading')}</p>;
  const act = async (path: string, done: string) => {
    try {
      await send('POST', path);
      say(done);
    } catch (problem) {
      sayProblem(problem);
    }
    reload();
  };
  const at = (row: ServerRow) => `api/servers/${segment(row.name)}`;
  return (
    <>
      <Changes />
      {data.servers.length === 0 && <p class="quiet empty">{t('servers.none')}</p>}
      <ul class="plain-list cards">
        {data.servers.map((row) => (
          <li key={`${row.kind} ${row.name}`} class="card">
            <div class="row wrap">
              <span class={`dot ${dot(row.state)}`} />
              <strong>{plain(row.name)}</strong>
              <Badge>{row.kind === 'server' ? 'MCP' : 'Python'}</Badge>
              <span class="quiet">{stateName(row.state)} · {plural(row.toolCount, 'tools.one', 'tools.many')}</span>
              {row.auth && <Badge kind={row.auth.state === 'signed in' ? '' : 'warn'}>{row.auth.state === 'signed in' ? t('signedIn') : t('needsSignIn')}</Badge>}
              <span class="grow" />
              <span class="row wrap">
                {row.auth?.state === 'needs sign-in' && <button type="button" class="small primary" disabled={!may('admin')} onClick={() => setSignIn(row.name)}>{t('signIn.submit')}</button>}
                {row.auth?.state === 'signed in' && <button type="button" class="small" disabled={!may('admin')} onClick={() => void act(`${at(row)}/logout`, t('servers.signedOut', { name: plain(row.name) }))}>{t('signOut')}</button>}
                <button type="button" class="small" onClick={() => setLog(row.name)}>{t('servers.log')}</button>
                <button type="button" class="small" disabled={!may('admin') || row.state === 'disabled'} onClick={() => void act(`${at(row)}/restart`, t('servers.restarted', { name: plain(row.name) }))}>{row.kind === 'server' ? t('servers.reconnect') : t('servers.restart')}</button>
              </span>
            </div>
            {row.detail && <code class="quiet">{plain(row.detail)}</code>}
            {row.auth?.state === 'signed in' && row.auth.expiresIn !== undefined && <p class="quiet small-text">{t('servers.expires', { count: Math.max(1, Math.round(row.auth.expiresIn / 60)) })}</p>}
            {row.reason && <Notice kind="warn">{plain(row.auth?.reason && row.auth.state === 'needs sign-in' ? row.auth.reason : row.reason)}</Notice>}
          </li>
        ))}
      </ul>
      {log !== null && <LogDialog name={log} onClose={() => setLog(null)} />}
      {signIn !== null && <SignInDialog name={signIn} row={data.servers.find((row) => row.name === signIn)} onClose={() => { setSignIn(null); reload(); }} />}
    </>
  );
}

function LogDialog({ name, onClose }: { name: string; onClose(): void }) {
  const { data, error, reload } = useLoad<{ lines: string[] }>(`api/servers/${segment(name)}/log`);
  const text = data?.lines.join('\n') ?? '';
  return (
    <Dialog label={t('servers.log')} class="wide" onClose={onClose}>
      <div class="row"><h2>{plain(name)}</h2><span class="grow" /><button type="button" class="small" onClick={reload}>{t('refresh')}</button><button type="button" class="link" aria-label={t('close')} onClick={onClose}>✕</button></div>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {data && (text === '' ? <p class="quiet">{t('servers.noLog')}</p> : <TextView text={text} label={t('servers.log')} />)}
    </Dialog>
  );
}

/** Only http(s) pages are opened, whatever a server sends. */
function safeAddress(text: string | undefined): string | null {
  try {
    const url = new URL(text ?? '');
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
  } catch {
    return null;
  }
}

/** Opens the sign-in page in another tab, and waits for the redirect to OneTool or for the pasted redirect address. */
function SignInDialog({ name, row, onClose }: { name: string; row: ServerRow | undefined; onClose(): void }) {
  const [begun, setBegun] = useState<{ url?: string } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [pasted, setPasted] = useState('');
  const path = `api/servers/${segment(name)}/login`;
  const begin = async () => {
    setError(null);
    try {
      setBegun(await send<{ url?: string }>('POST', path, {}));
    } catch (problem) {
      setError(problem);
    }
  };
  const finish = async () => {
    setError(null);
    try {
      await send('POST', path, { callback: pasted.trim() });
      done();
    } catch (problem) {
      setError(problem);
    }
  };
  const done = () => {
    say(t('servers.signedIn', { name: plain(name) }));
    onClose();
  };
  useEffect(() => { void begin(); }, []);
  useEffect(() => { if (begun && row?.auth?.state === 'signed in') done(); }, [begun, row?.auth?.state]);
  const url = safeAddress(begun?.url);
  return (
    <Dialog label={t('servers.signInTo', { name: plain(name) })} onClose={onClose}>
      <div class="row"><h2>{t('servers.signInTo', { name: plain(name) })}</h2><span class="grow" /><button type="button" class="link" aria-label={t('close')} onClick={onClose}>✕</button></div>
      {error !== null && <Failure error={error} onRetry={() => void begin()} />}
      {!begun && error === null && <p class="quiet loading">{t('loading')}</p>}
      {url && (
        <>
          <p>{t('servers.signInHint', { host: plain(new URL(url).host) })}</p>
          <p class="row actions"><a class="button primary" href={url} target="_blank" rel="noopener noreferrer">{t('servers.openSignIn')}</a><CopyButton text={url} label={t('copyLink')} /></p>
          <p class="quiet" role="status">{t('servers.waiting')}</p>
          <details>
            <summary>{t('servers.cannotReturn')}</summary>
            <form class="row" onSubmit={(event) => { event.preventDefault(); void finish(); }}>
              <input class="grow" aria-label={t('servers.pasted')} placeholder={t('servers.pasted')} value={pasted} autocomplete="off" onInput={(event) => setPasted(event.currentTarget.value)} />
              <button type="submit" disabled={pasted.trim() === ''}>{t('servers.finish')}</button>
            </form>
          </details>
        </>
      )}
    </Dialog>
  );
}
