// The audit log, searched on the server.
import { useState } from 'preact/hooks';
import { duration, t, time } from '../i18n';
import { plain, shortened } from '../text';
import { useLoad } from '../ui/load';
import { downloaded } from '../ui/download';
import { Badge, Failure } from '../ui/parts';

interface AuditRecord {
  ts: string;
  event: 'run' | 'call' | 'auth' | 'admin' | 'lost';
  principal?: string;
  client?: string;
  door?: string;
  address?: string;
  run?: string;
  tool?: string;
  argumentsHash?: string;
  arguments?: string;
  outcome: string;
  error?: string;
  approval?: string;
  durationMs?: number;
  count?: number;
}

const EVENTS = ['run', 'call', 'auth', 'admin'] as const;
const SHOWN = 200;

export function Audit() {
  const [text, setText] = useState('');
  const [event, setEvent] = useState('');
  const [applied, setApplied] = useState('');
  const query = new URLSearchParams({ limit: String(SHOWN), ...(applied ? { q: applied } : {}), ...(event ? { event } : {}) });
  const { data, error, reload } = useLoad<{ records: AuditRecord[] }>(`api/audit?${query}`);
  return (
    <>
      <form class="row wrap" onSubmit={(submitted) => { submitted.preventDefault(); setApplied(text.trim()); reload(); }}>
        <input type="search" class="grow" aria-label={t('audit.search')} placeholder={t('audit.search')} value={text} onInput={(typed) => setText(typed.currentTarget.value)} />
        <select aria-label={t('activity.only')} value={event} onChange={(chosen) => setEvent(chosen.currentTarget.value)}>
          <option value="">{t('activity.all')}</option>
          {EVENTS.map((name) => <option key={name} value={name}>{t(`audit.${name}`)}</option>)}
        </select>
        <button type="submit">{t('results.find')}</button>
        <button type="button" onClick={() => void downloaded('api/audit/export', 'application/x-ndjson', 'audit.jsonl')}>{t('audit.export')}</button>
      </form>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {data?.records.length === 0 && <p class="quiet empty">{t('audit.none')}</p>}
      <ul class="plain-list">
        {data?.records.map((record, index) => <Line key={`${record.ts}-${index}`} record={record} />)}
      </ul>
    </>
  );
}

function Line({ record }: { record: AuditRecord }) {
  const detail = [record.approval, record.error, record.arguments, record.client, record.address].filter(Boolean).join(' · ');
  return (
    <li class="row audit-line">
      <span class={record.outcome === 'ok' ? 'dot good' : 'dot bad'} role="img" aria-label={plain(record.outcome)} />
      <span class="when">{time(record.ts)}</span>
      <strong class="who ellipsis">{shortened(record.principal ?? '–', 40)}</strong>
      <span class="tool-name ellipsis">{shortened(record.tool ?? record.event, 60)}</span>
      <span class="quiet grow ellipsis detail">{shortened(detail, 160)}</span>
      {record.door && <Badge>{record.door}</Badge>}
      <span class="quiet number">{record.durationMs === undefined ? '' : duration(record.durationMs)}</span>
    </li>
  );
}
