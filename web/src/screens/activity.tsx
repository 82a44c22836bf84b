// Activity: live calls and runs, charts, stored results, servers and workers.
import { useId, useState } from 'preact/hooks';
import { type Scope, may, segment } from '../api';
import { bytes, number, plural, t, time } from '../i18n';
import { connection } from '../live';
import { go, place } from '../router';
import { plain, shortened } from '../text';
import { useLoad } from '../ui/load';
import { Dialog, Failure, Tabs } from '../ui/parts';
import { TextView } from '../ui/result';
import { Audit } from './audit';
import { Calls } from './calls';
import { Servers } from './servers';
import { StatisticsSection } from './statistics';

const SECTIONS = ['calls', 'stats', 'results', 'servers', 'audit'] as const;
type Section = (typeof SECTIONS)[number];

/** The scope that a section requires. */
const needs: Record<Section, Scope> = { calls: 'read', stats: 'read', results: 'admin', servers: 'admin', audit: 'admin' };

export function ActivityScreen() {
  const id = useId();
  const shown = SECTIONS.filter((name) => may(needs[name]));
  const section = shown.find((name) => name === place.value.subject) ?? 'calls';
  const tabs: [Section, string][] = shown.map((name) => [name, t(`activity.${name}`)]);
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
  const [open, setOpen] = useState<string | null>(place.value.query.get('handle'));
  if (error) return <Failure error={error} onRetry={reload} />;
  if (!data) return <p class="quiet loading">{t('loading')}</p>;
  return (
    <>
      {data.results.length === 0 && <p class="quiet empty">{t('results.none')}</p>}
      <ul class="plain-list">
        {data.results.map((result) => (
          <li key={result.handle} class="row wrap">
            <button type="button" class="link" onClick={() => setOpen(result.handle)}><code>{shortened(result.handle, 20)}</code></button>
            <span>{plain(result.tool)}</span>
            <span class="quiet grow">{time(result.createdAt)} · {bytes(result.bytes)} · {plural(result.lines, 'results.line', 'results.lines')}</span>
          </li>
        ))}
      </ul>
      {open !== null && <ResultDialog handle={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function ResultDialog({ handle, onClose }: { handle: string; onClose(): void }) {
  const [offset, setOffset] = useState(0);
  const [search, setSearch] = useState('');
  const [applied, setApplied] = useState('');
  const query = new URLSearchParams({ offset: String(offset), limit: String(PAGE), ...(applied ? { search: applied } : {}) });
  const { data, error } = useLoad<ResultPage>(`api/results/${segment(handle)}?${query}`);
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
