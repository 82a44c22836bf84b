// Calls and runs: active ones with elapsed time and a button to cancel, and the last ones that ended.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { type CallEvent, may, send } from '../api';
import { bytes, duration, number, t, time } from '../i18n';
import { activity, elapsed, underWay } from '../live';
import { address } from '../router';
import { plain, shortened } from '../text';
import { Badge, Dialog, sayProblem } from '../ui/parts';
import { TextView } from '../ui/result';
import { VirtualList } from '../ui/virtual';

const ROW = 38;
const LONGEST_LIST = 560;
const TICK_MS = 500;

/** Counts while something is active. Components that show elapsed time take the count, to be rendered again. */
function useTicks(isOn: boolean): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => setTick((tick) => tick + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [isOn]);
  return tick;
}

/** The principal, and the client if it has a name. */
function who(entry: CallEvent): string {
  const isNamed = entry.client !== undefined && entry.door !== 'rest';
  return isNamed ? `${entry.principal} · ${entry.client}` : entry.principal;
}

const KINDS: Record<string, (entry: CallEvent) => boolean> = {
  run: (entry) => entry.kind === 'run',
  call: (entry) => entry.kind === 'call',
  errors: (entry) => entry.error !== undefined,
  underWay: (entry) => entry.isUnderWay,
};

async function cancel(entry: CallEvent) {
  try {
    await send('DELETE', `api/activity/${entry.id}`);
  } catch (error) {
    sayProblem(error);
  }
}

export function Calls() {
  const [query, setQuery] = useState('');
  const [only, setOnly] = useState('');
  const [person, setPerson] = useState('');
  const [shown, setShown] = useState<number | null>(null);
  const [ended, open] = [activity.value, underWay.value];
  const tick = useTicks(open.length > 0);
  // Newest first, with active ones before all others.
  const all = useMemo(() => [...ended, ...open].reverse(), [ended, open]);
  const people = useMemo(() => [...new Set(all.map((entry) => entry.principal))].sort(), [all]);
  const rows = useMemo(() => {
    const wanted = query.trim().toLowerCase();
    const text = (entry: CallEvent) => [entry.name, entry.caller, entry.principal, entry.client, entry.error, entry.kind === 'run' ? entry.detail : ''].join(' ').toLowerCase();
    return all.filter((entry) => (KINDS[only]?.(entry) ?? true) && (person === '' || entry.principal === person) && (wanted === '' || text(entry).includes(wanted)));
  }, [all, query, only, person]);
  const entry = shown === null ? undefined : all.find((other) => other.id === shown);
  return (
    <>
      <dl class="figures">
        <div><dt>{t('activity.underWay')}</dt><dd>{number(open.length)}</dd></div>
        <div><dt>{t('activity.calls')}</dt><dd>{number(ended.length)}</dd></div>
        <div><dt>{t('use.errors')}</dt><dd>{number(ended.filter((other) => other.error !== undefined).length)}</dd></div>
        <div class="wide"><dt>{t('activity.perMinute')}</dt><dd><Sparkline events={ended} /></dd></div>
      </dl>
      <div class="row wrap activity-filters">
        <input type="search" class="grow" aria-label={t('activity.filter')} placeholder={t('activity.filter')} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
        <select aria-label={t('activity.who')} value={person} onChange={(event) => setPerson(event.currentTarget.value)}>
          <option value="">{t('activity.everybody')}</option>
          {(person === '' || people.includes(person) ? people : [person, ...people]).map((name) => <option key={name} value={name}>{shortened(name, 40)}</option>)}
        </select>
        <select aria-label={t('activity.only')} value={only} onChange={(event) => setOnly(event.currentTarget.value)}>
          <option value="">{t('activity.all')}</option>
          <option value="underWay">{t('activity.underWay')}</option>
          <option value="run">{t('activity.runs')}</option>
          <option value="call">{t('activity.calls')}</option>
          <option value="errors">{t('use.errors')}</option>
        </select>
      </div>
      {rows.length === 0 && <p class="quiet empty">{t(all.length === 0 ? 'activity.none' : 'tools.nothing')}</p>}
      <VirtualList class="activity-list" role="list" aria-label={t('nav.activity')} count={rows.length} height={ROW} style={{ height: `${Math.min(Math.max(rows.length, 1) * ROW, LONGEST_LIST) + 2}px` }}
        row={(index) => <Row entry={rows[index]!} tick={rows[index]!.isUnderWay ? tick : 0} onOpen={setShown} />} />
      {entry && <EventDialog entry={entry} tick={tick} onClose={() => setShown(null)} />}
    </>
  );
}

function Row({ entry, onOpen }: { entry: CallEvent; tick: number; onOpen(id: number): void }) {
  const [dot, label] = entry.isUnderWay ? ['running', t('activity.underWay')] : entry.error ? ['bad', t('result.failed')] : ['good', t('result.ok')];
  const isRun = entry.kind === 'run';
  return (
    <div role="listitem" class="activity-item">
      <button type="button" class="activity-row" onClick={() => onOpen(entry.id)}>
        <span class={`dot ${dot}`} role="img" aria-label={label} />
        <span class="when">{time(entry.at)}</span>
        <span class="tool-name">{shortened(isRun ? (entry.detail ?? 'run') : entry.name, 90)}</span>
        <span class="quiet grow ellipsis">{entry.error ? shortened(entry.error, 90) : isRun ? '' : shortened(entry.detail ?? '', 90)}</span>
        <span class="who ellipsis" title={t('activity.who')}>{shortened(who(entry), 60)}</span>
        {entry.node && <span class="who ellipsis" title={t('activity.node')}>{shortened(entry.node, 40)}</span>}
        <Badge>{isRun ? 'run' : entry.caller}</Badge>
        <span class="quiet number">{duration(elapsed(entry))}</span>
      </button>
      {entry.isUnderWay && may('invoke') && <button type="button" class="small danger" aria-label={`${t('cancel')}: ${plain(entry.name)}`} onClick={() => void cancel(entry)}>{t('cancel')}</button>}
    </div>
  );
}

/** Calls per minute over the last half hour. */
function Sparkline({ events }: { events: CallEvent[] }) {
  const now = Date.now();
  const minutes = new Array<number>(30).fill(0);
  for (const entry of events) {
    const minute = 29 - Math.floor((now - Date.parse(entry.at)) / 60_000);
    if (minute >= 0 && minute < 30) minutes[minute] = (minutes[minute] ?? 0) + 1;
  }
  const most = Math.max(1, ...minutes);
  return (
    <svg class="spark" viewBox="0 0 180 32" role="img" aria-label={t('activity.sparkline', { most })}>
      {minutes.map((count, index) => <rect key={index} x={index * 6} width="4" y={32 - Math.max(1, (30 * count) / most)} height={Math.max(1, (30 * count) / most)} />)}
    </svg>
  );
}

/** Start and end of a call by the server's clock; an active one ends now at the earliest. */
function interval(call: CallEvent): [number, number] {
  const at = Date.parse(call.at);
  return call.isUnderWay ? [at, at + elapsed(call)] : [at - (call.durationMs ?? 0), at];
}

function EventDialog({ entry, onClose }: { entry: CallEvent; tick: number; onClose(): void }) {
  const within = [...activity.value, ...underWay.value].filter((other) => other.run === entry.run && other.kind === 'call').sort((a, b) => a.id - b.id);
  const start = Math.min(...within.map((call) => interval(call)[0]));
  const span = Math.max(1, Math.max(...within.map((call) => interval(call)[1])) - start);
  return (
    <Dialog label={t('activity.detail')} onClose={onClose}>
      <div class="row"><h2>{shortened(entry.name, 80)}</h2><span class="grow" /><button type="button" class="link" aria-label={t('close')} onClick={onClose}>✕</button></div>
      <dl class="facts">
        <div><dt>{t('activity.when')}</dt><dd>{time(entry.at)}</dd></div>
        <div><dt>{t('activity.duration')}</dt><dd>{duration(elapsed(entry))}{entry.isUnderWay && ` · ${t('activity.underWay')}`}</dd></div>
        <div><dt>{t('activity.who')}</dt><dd>{plain(entry.principal)}</dd></div>
        {entry.client && <div><dt>{t('activity.client')}</dt><dd>{plain(entry.client)}</dd></div>}
        <div><dt>{t('activity.caller')}</dt><dd>{entry.caller === entry.door ? entry.caller : `${entry.caller} · ${entry.door}`}</dd></div>
        {entry.node && <div><dt>{t('activity.node')}</dt><dd>{plain(entry.node)}</dd></div>}
        <div><dt>{t('activity.run')}</dt><dd><code>{plain(entry.run)}</code></dd></div>
        {!entry.isUnderWay && <div><dt>{t('activity.size')}</dt><dd>{bytes(entry.charsIn)} → {bytes(entry.charsOut)}</dd></div>}
        {entry.error && <div><dt>{t('result.failed')}</dt><dd class="bad-text">{plain(entry.error)}</dd></div>}
      </dl>
      {entry.detail && <TextView text={entry.detail} label={t('activity.arguments')} />}
      {within.length > 1 && (
        <>
          <h3>{t('activity.timeline')}</h3>
          <ul class="plain-list timeline">
            {within.map((call) => {
              const [from, to] = interval(call);
              return (
                <li key={call.id}>
                  <span class="tool-name">{shortened(call.name, 40)}</span>
                  <span class="bar"><span class={call.error ? 'bad' : ''} style={{ left: `${(100 * (from - start)) / span}%`, width: `${Math.max(1, (100 * (to - from)) / span)}%` }} /></span>
                  <span class="quiet number">{duration(elapsed(call))}</span>
                </li>
              );
            })}
          </ul>
        </>
      )}
      <div class="row actions">
        {entry.isUnderWay && may('invoke') && <button type="button" class="danger" onClick={() => void cancel(entry)}>{t('cancel')}</button>}
        {entry.kind === 'call' && <a class="button" href={address('tools', entry.name)} onClick={onClose}>{t('activity.openTool')}</a>}
        {entry.kind === 'run' && entry.detail && may('invoke') && <a class="button" href={address('console', '', { code: entry.detail })} onClick={onClose}>{t('activity.openConsole')}</a>}
      </div>
    </Dialog>
  );
}
