// The page: the current user, the current screen, and what all screens share.
import { type ComponentChildren, render } from 'preact';
import { useEffect, useErrorBoundary, useRef, useState } from 'preact/hooks';
import { ApiError, type Session, get, keepToken, may, send, session, token } from './api';
import { ctrl, language, t } from './i18n';
import { approvals, connection, startLive, stopLive } from './live';
import { address, needs, place } from './router';
import { ActivityScreen } from './screens/activity';
import { ApprovalsScreen } from './screens/approvals';
import { ConsoleScreen } from './screens/console';
import { EditorScreen } from './screens/editor';
import { SettingsScreen } from './screens/settings';
import { ToolsScreen } from './screens/tools';
import { applyTheme } from './theme';
import { loadToolbox } from './toolbox';
import { Palette, palette } from './ui/palette';
import { Failure, Toasts, problemText } from './ui/parts';

const screens = {
  tools: ToolsScreen,
  editor: EditorScreen,
  console: ConsoleScreen,
  activity: ActivityScreen,
  approvals: ApprovalsScreen,
  settings: SettingsScreen,
} as const;
type ScreenName = keyof typeof screens;

const icons: Record<ScreenName, string> = {
  tools: 'M14.500 5.500a4 4 0 0 0-5.300 4.800L4 15.500 6.500 18l5.200-5.200a4 4 0 0 0 4.800-5.300L14 10l-2-2z',
  editor: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  console: 'M4 6l5 5-5 5M11 17h7',
  activity: 'M3 12h4l3-7 4 13 3-6h4',
  approvals: 'M4 12l5 5L20 6',
  settings: 'M4 7h10M18 7h2M4 12h2M10 12h10M4 17h8M16 17h4M14 5v4M6 10v4M12 15v4',
};

function App() {
  const [error, setError] = useState<unknown>(null);
  const [isSigningIn, setIsSigningIn] = useState(false);
  document.documentElement.lang = language.value;

  const begin = async () => {
    setError(null);
    try {
      const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
      if (code !== undefined) {
        // A code from the command line is exchanged once, and removed from the address.
        history.replaceState(null, '', `${location.pathname}#/tools`);
        dispatchEvent(new HashChangeEvent('hashchange'));
        const { token } = await send<{ token: string }>('POST', 'api/session', { code });
        keepToken(token);
      }
      session.value = await get<Session>('api/session');
      if (may('read')) {
        void loadToolbox();
        startLive();
      }
    } catch (problem) {
      if (problem instanceof ApiError && problem.status === 401 && token.value !== null) {
        keepToken(null);
        void begin();
      } else setError(problem);
    }
  };
  useEffect(() => {
    void begin();
    return stopLive;
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k' && may('read')) {
        event.preventDefault();
        palette.value = palette.value && palette.value.tool === undefined ? null : {};
      } else if (event.key === '/' && !isTyping(event)) {
        const search = document.getElementById('tool-search');
        if (search) {
          event.preventDefault();
          search.focus();
        }
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);

  useScreenFocus(place.value.screen);

  if (error !== null) return <main class="alone"><h1>OneTool</h1><Failure error={error} onRetry={() => void begin()} /></main>;
  if (session.value === null) return <main class="alone"><p class="quiet loading">{t('loading')}</p></main>;
  if (!may('read')) return <SignIn isBusy={isSigningIn} onSignIn={async (given) => { setIsSigningIn(true); keepToken(given); await begin(); setIsSigningIn(false); }} />;
  const shown = (Object.keys(screens) as ScreenName[]).filter((screen) => may(needs[screen]));
  const name: ScreenName = shown.find((screen) => screen === place.value.screen) ?? 'tools';
  const Screen = screens[name];
  document.title = `${approvals.value.length > 0 ? `(${approvals.value.length}) ` : ''}${t(`nav.${name}`)} · OneTool`;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>{t('skip')}</a>
      <nav aria-label={t('nav.label')}>
        <span class="brand" aria-hidden="true">OneTool</span>
        {shown.map((screen) => (
          <a key={screen} href={address(screen)} aria-current={screen === name ? 'page' : undefined}>
            <svg viewBox="0 0 24 24" aria-hidden="true"><path d={icons[screen]} /></svg>
            <span>{t(`nav.${screen}`)}</span>
            {screen === 'approvals' && approvals.value.length > 0 && <span class="count-badge">{approvals.value.length}</span>}
          </a>
        ))}
        <span class="grow" />
        <button type="button" class="palette-button" onClick={() => { palette.value = {}; }} aria-label={`+ ${ctrl()} K: ${t('palette.title')}`} title={t('palette.title')}>+ <kbd>{ctrl()} K</kbd></button>
      </nav>
      <main id="main" tabIndex={-1} data-live={connection.value} data-place={`${place.value.screen}/${place.value.subject}`}>
        {connection.value === 'lost' && <p class="lost-line" role="status">{t('live.lost')}</p>}
        <Boundary><Screen /></Boundary>
      </main>
      <Palette />
      <Toasts />
    </>
  );
}

/** Shows an error for a screen that fails to render; the others keep working. */
function Boundary({ children }: { children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary();
  useEffect(() => { if (error !== undefined) reset(); }, [place.value]);
  return error === undefined ? <>{children}</> : <div class="page"><Failure error={error} onRetry={reset} /></div>;
}

/** Moves the focus to a new screen, unless something has it. */
function useScreenFocus(name: string) {
  const last = useRef(name);
  useEffect(() => {
    if (last.current === name) return;
    last.current = name;
    const timer = setTimeout(() => {
      if (document.activeElement === null || document.activeElement === document.body) document.getElementById('main')?.focus();
    });
    return () => clearTimeout(timer);
  }, [name]);
}

function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName));
}

function SignIn({ isBusy, onSignIn }: { isBusy: boolean; onSignIn(token: string): Promise<void> }) {
  const [given, setGiven] = useState('');
  const [problem, setProblem] = useState('');
  const submit = async () => {
    setProblem('');
    try {
      await onSignIn(given.trim());
      if (!may('read')) setProblem(t('signIn.refused'));
    } catch (error) {
      setProblem(problemText(error));
    }
  };
  return (
    <main class="alone">
      <h1>OneTool</h1>
      <form class="card" onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <label class="label" for="token">{t('signIn.token')}</label>
        <input id="token" type="password" value={given} autocomplete="current-password" aria-describedby="token-hint" aria-invalid={problem !== ''} onInput={(event) => setGiven(event.currentTarget.value)} />
        <p id="token-hint" class="quiet">{t('signIn.hint')}</p>
        {problem !== '' && <p class="problem" role="alert">{problem}</p>}
        <button type="submit" class="primary" disabled={isBusy || given.trim() === ''}>{t('signIn.submit')}</button>
      </form>
    </main>
  );
}

applyTheme();
const host = document.getElementById('app');
if (host) {
  host.replaceChildren();
  render(<App />, host);
}
