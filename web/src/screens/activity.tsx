// What happens: calls and runs as they come, charts of them, stored results, servers and workers.
import { useId, useMemo, useState } from 'preact/hooks';
import { type CallEvent, segment } from '../api';
import { bytes, duration, number, t, time } from '../i18n';
import { activity, connection } from '../live';
import { address, go, place } from '../router';
import { plain, shortened } from '../text';
import { useLoad } from '../ui/load';
import { Badge, Dialog, Failure, Tabs } from '../ui/parts';
import { TextView } from '../ui/result';
import { VirtualList } from '../ui/virtual';
import { Servers } from './servers';
import { Audit } from './audit';
import { StatisticsSection } from './statistics';

const SECTIONS = ['calls', 'stats', 'results', 'servers', 'audit'] as const;
type Section = (typeof SECTIONS)[number];

export function ActivityScreen() {
  const id = useId();
  const section = SECTIONS.find((name) => name === place.value.subject) ?? 'calls';
  const tabs: [Section, string][] = SECTIONS.map((name) => [name, t(`activity.${name}`)]);
  return (
    <div class="page">
      <div class="row">
        <h1>{t('nav.activity')}</h1>
        <span class={`live ${connection.value}`} role="status">{t(`live.${connection.value}`)}</span>
      </div>
      <Tabs id={id} label={t('nav.activity')} tabs={tabs} current={section} onChange={(next) => go('activity', next)} />
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-tab-${section}`}>
        {section === 'calls' && <Calls />}
        {section === 'stats' && <StatisticsSection />}
        {section === 'results' && <Results />}
        {section === 'servers' && <Servers />}
        {section === 'audit' && <Audit />}
      </div>
    </div>
  );
}

function Calls() {
  const [query, setQuery] = useState('');
  const [only, setOnly] = useState('');
  const [shown, setShown] = useState<CallEvent | null>(null);
  const all = activity.value;
  const rows = useMemo(() => {
    const wanted = query.trim().toLowerCase();
    return all
      .filter((entry) => (only === '' || (only === 'errors' ? entry.error !== undefined : entry.kind === only)) && (wanted === '' || `${entry.name} ${entry.caller} ${entry.error ?? ''}`.toLowerCase().includes(wanted)))
      .reverse();
  }, [all, query, only]);
  const failures = all.filter((entry) => entry.error !== undefined).length;
  return (
    <>
      <dl class="figures">
        <div><dt>{t('activity.calls')}</dt><dd>{number(all.length)}</dd></div>
        <div><dt>{t('use.errors')}</dt><dd>{number(failures)}</dd></div>
        <div class="wide"><dt>{t('activity.perMinute')}</dt><dd><Sparkline events={all} /></dd></div>
      </dl>
      <div class="row">
        <input type="search" class="grow" aria-label={t('activity.filter')} placeholder={t('activity.filter')} value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
        <select aria-label={t('activity.only')} value={only} onChange={(event) => setOnly(event.currentTarget.value)}>
          <option value="">{t('activity.all')}</option>
          <option value="run">{t('activity.runs')}</option>
          <option value="call">{t('activity.calls')}</option>
          <option value="errors">{t('use.errors')}</option>
        </select>
      </div>
      {rows.length === 0 && <p class="quiet empty">{t('activity.none')}</p>}
      <VirtualList class="activity-list" role="list" count={rows.length} height={38} style={{ height: `${Math.min(Math.max(rows.length, 1) * 38, 560) + 2}px` }}
        row={(index) => {
          const entry = rows[index]!;
          return (
            <div role="listitem">
              <button type="button" class="activity-row" onClick={() => setShown(entry)}>
                <span class={entry.error ? 'dot bad' : 'dot good'} role="img" aria-label={entry.error ? t('result.failed') : t('result.ok')} />
                <span class="when">{time(entry.at)}</span>
                <span class="tool-name">{shortened(entry.kind === 'run' ? (entry.detail ?? 'run') : entry.name, 90)}</span>
                <span class="quiet grow ellipsis">{entry.error ? shortened(entry.error, 90) : entry.kind === 'run' ? '' : shortened(entry.detail ?? '', 90)}</span>
                <Badge>{entry.kind === 'run' ? 'run' : entry.caller}</Badge>
                <span class="quiet number">{duration(entry.durationMs ?? 0)}</span>
              </button>
            </div>
          );
        }} />
      {shown && <EventDialog entry={shown} onClose={() => setShown(null)} />}
    </>
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

function EventDialog({ entry, onClose }: { entry: CallEvent; onClose(): void }) {
  const within = activity.value.filter((other) => other.run === entry.run && other.kind === 'call');
  const start = Math.min(...within.map((call) => Date.parse(call.at) - (call.durationMs ?? 0)));
  const end = Math.max(...within.map((call) => Date.parse(call.at)));
  const span = Math.max(1, end - start);
  return (
    <Dialog label={t('activity.detail')} onClose={onClose}>
      <div class="row"><h2>{shortened(entry.name, 80)}</h2><span class="grow" /><button type="button" class="link" aria-label={t('close')} onClick={onClose}>✕</button></div>
      <dl class="facts">
        <div><dt>{t('activity.when')}</dt><dd>{time(entry.at)}</dd></div>
        <div><dt>{t('activity.duration')}</dt><dd>{duration(entry.durationMs ?? 0)}</dd></div>
        <div><dt>{t('activity.caller')}</dt><dd>{entry.caller}</dd></div>
        <div><dt>{t('activity.run')}</dt><dd><code>{plain(entry.run)}</code></dd></div>
        <div><dt>{t('activity.size')}</dt><dd>{bytes(entry.charsIn)} → {bytes(entry.charsOut)}</dd></div>
        {entry.error && <div><dt>{t('result.failed')}</dt><dd class="bad-text">{plain(entry.error)}</dd></div>}
      </dl>
      {entry.detail && <TextView text={entry.detail} label={t('activity.arguments')} />}
      {within.length > 1 && (
        <>
          <h3>{t('activity.timeline')}</h3>
          <ul class="plain-list timeline">
            {within.map((call) => {
              const from = Date.parse(call.at) - (call.durationMs ?? 0) - start;
              return (
                <li key={call.id}>
                  <span class="tool-name">{shortened(call.name, 40)}</span>
                  <span class="bar"><span class={call.error ? 'bad' : ''} style={{ left: `${(100 * from) / span}%`, width: `${Math.max(1, (100 * (call.durationMs ?? 0)) / span)}%` }} /></span>
                  <span class="quiet number">{duration(call.durationMs ?? 0)}</span>
                </li>
              );
            })}
          </ul>
        </>
      )}
      <div class="row actions">
        {entry.kind === 'call' && <a class="button" href={address('tools', entry.name)} onClick={onClose}>{t('activity.openTool')}</a>}
        {entry.kind === 'run' && entry.detail && <a class="button" href={address('console', '', { code: entry.detail })} onClick={onClose}>{t('activity.openConsole')}</a>}
      </div>
    </Dialog>
  );
}

interface StoredResult {
  handle: string;
  tool: string;
  createdAt: string;
  bytes: number;
  lines: number;
}

interface ResultPage {
  lines: string[];
  offset: number;
  totalLines: number;
}

const PAGE = 200;

function Results() {
  const { data, error, reload } = useLoad<{ results: StoredResult[] }>('api/results');
  const [open, setOpen] = useState<StoredResult | null>(null);
  if (error) return <Failure error={error} onRetry={reload} />;
  if (!data) return <p class="quiet">{t('loading')}</p>;
  if (data.results.length === 0) return <p class="quiet empty">{t('results.none')}</p>;
  return (
    <>
      <ul class="plain-list">
        {data.results.map((result) => (
          <li key={result.handle} class="row">
            <button type="button" class="link" onClick={() => setOpen(result)}><code>{shortened(result.handle, 40)}</code></button>
            <span>{plain(result.tool)}</span>
            <span class="quiet grow">{time(result.createdAt)} · {bytes(result.bytes)} · {number(result.lines)} {t('results.lines')}</span>
          </li>
        ))}
      </ul>
      {open && <ResultDialog result={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function ResultDialog({ result, onClose }: { result: StoredResult; onClose(): void }) {
  const [offset, setOffset] = useState(0);
  const [search, setSearch] = useState('');
  const [applied, setApplied] = useState('');
  const query = new URLSearchParams({ offset: String(offset), limit: String(PAGE), ...(applied ? { search: applied } : {}) });
  const { data, error } = useLoad<ResultPage>(`api/results/${segment(result.handle)}?${query}`);
  return (
    <Dialog label={t('results.title')} class="wide" onClose={onClose}>
      <div class="row"><h2>{t('results.title')}</h2><span class="grow" /><button type="button" class="link" aria-label={t('close')} onClick={onClose}>✕</button></div>
      <form class="row" onSubmit={(event) => { event.preventDefault(); setOffset(0); setApplied(search); }}>
        <input type="search" class="grow" aria-label={t('results.search')} placeholder={t('results.search')} value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <button type="submit">{t('results.find')}</button>
      </form>
      {error !== null && <Failure error={error} />}
      {data && <TextView text={data.lines.join('\n')} label={t('results.title')} />}
      {data && (
        <div class="row">
          <button type="button" disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))}>←</button>
          <span class="quiet">{number(Math.min(offset + 1, data.totalLines))}–{number(Math.min(offset + data.lines.length, data.totalLines))} / {number(data.totalLines)}</span>
          <button type="button" disabled={offset + data.lines.length >= data.totalLines} onClick={() => setOffset(offset + PAGE)}>→</button>
        </div>
      )}
    </Dialog>
  );
}
