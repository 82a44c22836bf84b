// Configuration and its problems, trust, secrets, tokens; and the appearance of this page.
import { useState } from 'preact/hooks';
import { keepToken, may, segment, send, session, token } from '../api';
import { chooseLanguage, language, languages, t } from '../i18n';
import { plain } from '../text';
import { chooseTheme, theme } from '../theme';
import { useLoad } from '../ui/load';
import { Confirm, Failure, Notice, say, sayProblem } from '../ui/parts';
import { TokensSection } from './tokens';
import { TrustSection } from './trust';

interface Configuration {
  files: { path: string }[];
  problems: { severity: 'info' | 'warning' | 'error'; subject: string; file?: string; line?: number; message: string }[];
  tokens: { name: string; scopes: string[] }[];
}

export function SettingsScreen() {
  const [changes, setChanges] = useState(0);
  return (
    <div class="page">
      <h1>{t('nav.settings')}</h1>
      <Appearance />
      <ConfigurationSection key={changes} />
      <TrustSection onChange={() => setChanges(changes + 1)} />
      <SecretsSection />
      <TokensSection />
    </div>
  );
}

function Appearance() {
  return (
    <section class="card">
      <h2>{t('settings.page')}</h2>
      <div class="row wrap">
        <label class="inline">{t('settings.language')}{' '}
          <select value={language.value} onChange={(event) => chooseLanguage(event.currentTarget.value)}>
            {Object.entries(languages).map(([code, name]) => <option key={code} value={code}>{name}</option>)}
          </select>
        </label>
        <label class="inline">{t('settings.theme')}{' '}
          <select value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value)}>
            <option value="auto">{t('theme.auto')}</option>
            <option value="light">{t('theme.light')}</option>
            <option value="dark">{t('theme.dark')}</option>
          </select>
        </label>
        <span class="grow" />
        {token.value !== null && <button type="button" onClick={() => { keepToken(null); session.value = session.value && { ...session.value, scopes: [] }; }}>{t('signOut')}</button>}
      </div>
      <p class="quiet">OneTool {session.value?.version} · {plain(session.value?.project ?? '')} · <a href="docs">REST API</a></p>
    </section>
  );
}

function ConfigurationSection() {
  const { data, error, reload } = useLoad<Configuration>(may('admin') ? 'api/config' : null);
  if (!may('admin')) return null;
  const act = async (path: string, done: string) => {
    try {
      await send('POST', path);
      say(done);
    } catch (problem) {
      sayProblem(problem);
    }
    reload();
  };
  return (
    <section class="card">
      <div class="row"><h2>{t('settings.configuration')}</h2><span class="grow" /><button type="button" class="small" disabled={!may('admin')} onClick={() => void act('api/config/reload', t('settings.reloaded'))}>{t('settings.reload')}</button></div>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {data && (
        <>
          {data.problems.length === 0 ? <Notice>{t('settings.noProblems')}</Notice> : data.problems.map((problem, index) => (
            <Notice key={index} kind={problem.severity === 'error' ? 'bad' : problem.severity === 'warning' ? 'warn' : 'info'}><p><strong>{plain(problem.file !== undefined && problem.line !== undefined ? `${problem.file}:${problem.line}` : problem.subject)}</strong></p><p>{plain(problem.line !== undefined ? problem.message.replace(/^line \d+: /, '') : problem.message)}</p></Notice>
          ))}
          <h3>{t('settings.files')}</h3>
          <ul class="plain-list">
            {data.files.map((file) => <li key={file.path} class="row wrap"><code class="grow">{plain(file.path)}</code></li>)}
          </ul>
          {data.tokens.length > 0 && (
            <>
              <h3>{t('settings.tokens')}</h3>
              <ul class="plain-list">{data.tokens.map((entry) => <li key={entry.name} class="row"><code>{plain(entry.name)}</code><span class="quiet">{entry.scopes.join(', ')}</span></li>)}</ul>
            </>
          )}
        </>
      )}
    </section>
  );
}

function SecretsSection() {
  const { data, error, reload } = useLoad<{ secrets: { name: string; isSet: boolean }[] }>(may('admin') ? 'api/secrets' : null);
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const [removed, setRemoved] = useState<string | null>(null);
  if (!may('admin')) return null;
  const save = async () => {
    try {
      await send('PUT', `api/secrets/${segment(name)}`, { value });
      say(t('secrets.saved', { name }));
      setName('');
      setValue('');
    } catch (problem) {
      sayProblem(problem);
    }
    reload();
  };
  const remove = async (secret: string) => {
    try {
      await send('DELETE', `api/secrets/${segment(secret)}`);
      say(t('secrets.removed', { name: secret }));
    } catch (problem) {
      sayProblem(problem);
    }
    reload();
  };
  return (
    <section class="card">
      <h2>{t('settings.secrets')}</h2>
      <p class="quiet">{t('secrets.hint')}</p>
      {error !== null && <Failure error={error} onRetry={reload} />}
      <ul class="plain-list">
        {data?.secrets.map((secret) => (
          <li key={secret.name} class="row"><code class="grow">{plain(secret.name)}</code><span class="quiet">{secret.isSet ? '••••••••' : t('secrets.empty')}</span><button type="button" class="small danger" onClick={() => setRemoved(secret.name)} aria-label={t('form.remove', { name: plain(secret.name) })}>✕</button></li>
        ))}
      </ul>
      <form class="row wrap" onSubmit={(event) => { event.preventDefault(); void save(); }}>
        <input aria-label={t('secrets.name')} placeholder={t('secrets.name')} value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
        <input type="password" aria-label={t('secrets.value')} placeholder={t('secrets.value')} value={value} autocomplete="new-password" onInput={(event) => setValue(event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={name === '' || value === ''}>{t('save')}</button>
      </form>
      {removed !== null && <Confirm title={t('form.remove', { name: plain(removed) })} text={t('secrets.removeHint')} action={t('remove')} onConfirm={() => void remove(removed)} onClose={() => setRemoved(null)} />}
    </section>
  );
}
