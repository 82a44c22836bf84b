// Named tokens for access to this server. A token's text is shown once.
import { useState } from 'preact/hooks';
import { ApiError, type Scope, may, segment, send } from '../api';
import { t, time } from '../i18n';
import { plain } from '../text';
import { useLoad } from '../ui/load';
import { Badge, CopyButton, Dialog, Failure, Notice, say, sayProblem } from '../ui/parts';

interface TokenRow {
  id: string;
  name: string;
  scopes: string[];
  groups: string[];
  createdAt: string;
  expiresAt?: string;
  lastUsedAt?: string;
  isExpired?: boolean;
}

const SCOPES: Scope[] = ['read', 'invoke', 'admin'];
const DAY = 86_400;

export function TokensSection() {
  const { data, error, reload } = useLoad<{ tokens: TokenRow[] }>(may('admin') ? 'api/tokens' : null);
  const [isNew, setIsNew] = useState(false);
  const [made, setMade] = useState<{ name: string; token: string } | null>(null);
  const [revoked, setRevoked] = useState<TokenRow | null>(null);
  // A server without named tokens has no such section.
  if (!may('admin') || (error instanceof ApiError && error.status === 404)) return null;
  const revoke = async (row: TokenRow) => {
    setRevoked(null);
    try {
      await send('DELETE', `api/tokens/${segment(row.id)}`);
      say(t('tokens.revoked', { name: plain(row.name) }));
    } catch (problem) {
      sayProblem(problem);
    }
    reload();
  };
  return (
    <section class="card">
      <div class="row"><h2>{t('tokens.title')}</h2><span class="grow" /><button type="button" class="small" onClick={() => setIsNew(true)}>{t('tokens.new')}</button></div>
      <p class="quiet">{t('tokens.hint')}</p>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {data?.tokens.length === 0 && <p class="quiet">{t('tokens.none')}</p>}
      <ul class="plain-list">
        {data?.tokens.map((row) => (
          <li key={row.id} class="row wrap">
            <strong>{plain(row.name)}</strong>
            {row.scopes.map((scope) => <Badge key={scope}>{plain(scope)}</Badge>)}
            {row.groups.map((group) => <Badge key={group}>{plain(group)}</Badge>)}
            {row.isExpired && <Badge kind="warn">{t('tokens.expired')}</Badge>}
            <span class="quiet grow small-text">{[t('tokens.created', { time: time(row.createdAt) }), row.expiresAt ? t('tokens.expires', { time: time(row.expiresAt) }) : t('tokens.forever'), row.lastUsedAt ? t('tokens.used', { time: time(row.lastUsedAt) }) : t('tokens.unused')].join(' · ')}</span>
            <button type="button" class="small danger" aria-label={t('tokens.revokeName', { name: plain(row.name) })} onClick={() => setRevoked(row)}>{t('tokens.revoke')}</button>
          </li>
        ))}
      </ul>
      {isNew && <NewToken onClose={() => setIsNew(false)} onMade={(result) => { setIsNew(false); setMade(result); reload(); }} />}
      {made && (
        <Dialog label={t('tokens.madeTitle', { name: plain(made.name) })} onClose={() => setMade(null)}>
          <h2>{t('tokens.madeTitle', { name: plain(made.name) })}</h2>
          <Notice kind="warn">{t('tokens.once')}</Notice>
          <pre tabIndex={0} role="region" aria-label={t('tokens.token')}>{made.token}</pre>
          <div class="row actions"><CopyButton text={made.token} /><span class="grow" /><button type="button" class="primary" onClick={() => setMade(null)}>{t('tokens.kept')}</button></div>
        </Dialog>
      )}
      {revoked && (
        <Dialog label={t('tokens.revokeName', { name: plain(revoked.name) })} onClose={() => setRevoked(null)}>
          <h2>{t('tokens.revokeName', { name: plain(revoked.name) })}</h2>
          <p>{t('tokens.revokeHint')}</p>
          <div class="row actions"><button type="button" class="danger" onClick={() => void revoke(revoked)}>{t('tokens.revoke')}</button><button type="button" onClick={() => setRevoked(null)}>{t('cancel')}</button></div>
        </Dialog>
      )}
    </section>
  );
}

function NewToken({ onClose, onMade }: { onClose(): void; onMade(made: { name: string; token: string }): void }) {
  const [name, setName] = useState('');
  const [scopes, setScopes] = useState<Scope[]>(['read', 'invoke']);
  const [groups, setGroups] = useState('');
  const [days, setDays] = useState('90');
  const [error, setError] = useState<unknown>(null);
  const save = async () => {
    setError(null);
    const count = Number(days);
    try {
      const body = {
        name: name.trim(),
        scopes,
        groups: groups.split(/[\s,]+/).filter((group) => group !== ''),
        ...(days.trim() === '' ? {} : { expiresInSeconds: Math.round(count * DAY) }),
      };
      const { token } = await send<{ token: string }>('POST', 'api/tokens', body);
      onMade({ name: body.name, token });
    } catch (problem) {
      setError(problem);
    }
  };
  const toggle = (scope: Scope) => setScopes(scopes.includes(scope) ? scopes.filter((other) => other !== scope) : [...scopes, scope]);
  const isValid = name.trim() !== '' && scopes.length > 0 && (days.trim() === '' || Number(days) > 0);
  return (
    <Dialog label={t('tokens.new')} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void save(); }}>
        <h2>{t('tokens.new')}</h2>
        {error !== null && <Failure error={error} />}
        <label class="field"><span class="label">{t('tokens.name')}</span><input value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} /></label>
        <fieldset class="field">
          <legend class="label">{t('tokens.scopes')}</legend>
          {SCOPES.map((scope) => <label key={scope} class="inline"><input type="checkbox" checked={scopes.includes(scope)} onChange={() => toggle(scope)} /> <strong>{scope}</strong> <span class="quiet">{t(`tokens.scope.${scope}`)}</span></label>)}
        </fieldset>
        <label class="field"><span class="label">{t('tokens.groups')}</span><input value={groups} autocomplete="off" placeholder={t('tokens.groupsHint')} onInput={(event) => setGroups(event.currentTarget.value)} /></label>
        <label class="field"><span class="label">{t('tokens.days')}</span><input inputMode="numeric" value={days} placeholder={t('tokens.forever')} onInput={(event) => setDays(event.currentTarget.value)} /></label>
        <div class="row actions"><button type="submit" class="primary" disabled={!isValid}>{t('tokens.make')}</button><button type="button" onClick={onClose}>{t('cancel')}</button></div>
      </form>
    </Dialog>
  );
}
