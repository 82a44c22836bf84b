// The result of a call or a run: text, a tree, a table, images.
import { useId, useMemo, useState } from 'preact/hooks';
import { type Part, may } from '../api';
import { bytes, duration, t } from '../i18n';
import { JsonTable, JsonTree, useJson } from '../json/view';
import { address } from '../router';
import { plain } from '../text';
import { CopyButton, Notice, Tabs } from './parts';
import { VirtualList } from './virtual';

export interface Outcome {
  isError: boolean;
  /** JSON text of the value, or `null` for a text. */
  json: string | null;
  text: string | null;
  parts: Part[];
  durationMs: number;
  hint?: string;
  note?: string;
}

/** The JSON of an outcome; text that is JSON counts too. */
function jsonOf(outcome: Outcome): string | null {
  if (outcome.isError) return null;
  const text = outcome.json ?? outcome.text;
  return text !== null && /^\s*[[{]/.test(text) ? text : null;
}

/** The text of an outcome; a JSON string is unquoted. */
function textOf(outcome: Outcome): string {
  if (outcome.text !== null) return outcome.text;
  if (outcome.json === null) return '';
  if (!outcome.json.startsWith('"')) return outcome.json;
  try {
    return JSON.parse(outcome.json) as string;
  } catch {
    return outcome.json;
  }
}

/** The handle of a result that was stored because of its size. */
function handleOf(outcome: Outcome): string | null {
  return /^\s*\{\s*"handle":\s*"([0-9a-f]{16,64})"/.exec(outcome.isError ? '' : (outcome.json ?? outcome.text ?? ''))?.[1] ?? null;
}

type View = 'tree' | 'table' | 'text' | 'images';

export function ResultView({ outcome }: { outcome: Outcome }) {
  const id = useId();
  const source = useMemo(() => jsonOf(outcome), [outcome]);
  const { json } = useJson(source);
  const images = outcome.parts.filter((part) => part.kind === 'image' && part.data);
  const text = useMemo(() => textOf(outcome), [outcome]);
  const handle = useMemo(() => handleOf(outcome), [outcome]);
  const [wanted, setWanted] = useState<View | null>(null);
  const views: [View, string][] = [];
  if (images.length > 0) views.push(['images', t('result.images')]);
  if (json?.table) views.push(['table', t('result.table')]);
  if (json) views.push(['tree', t('result.tree')]);
  if (text !== '' || views.length === 0) views.push(['text', t('result.text')]);
  const best: View = images.length > 0 ? 'images' : json ? 'tree' : 'text';
  const current = wanted && views.some(([name]) => name === wanted) ? wanted : best;
  return (
    <section class={`result ${outcome.isError ? 'bad' : 'good'}`} aria-label={t('result.title')}>
      <div class="row result-head">
        <strong>{outcome.isError ? t('result.failed') : t('result.ok')}</strong>
        <span class="quiet">{duration(outcome.durationMs)} · {bytes(text.length)}</span>
        {outcome.note && <span class="quiet">{plain(outcome.note)}</span>}
        <span class="grow" />
        {views.length > 1 && <Tabs id={id} label={t('result.title')} tabs={views} current={current} onChange={(next) => setWanted(next)} />}
      </div>
      <div id={`${id}-panel`} role={views.length > 1 ? 'tabpanel' : undefined}>
        {current === 'tree' && json && <JsonTree json={json} label={t('result.title')} />}
        {current === 'table' && json && <JsonTable json={json} label={t('result.title')} />}
        {current === 'images' && images.map((part, index) => <Picture key={index} part={part} />)}
        {current === 'text' && <TextView text={text} />}
      </div>
      {handle !== null && may('admin') && <p><a href={address('activity', 'results', { handle })}>{t('results.open')}</a></p>}
      {outcome.hint && <Notice kind="warn">{plain(outcome.hint)}</Notice>}
    </section>
  );
}

const IMAGE_TYPES = /^image\/(png|jpeg|gif|webp|avif|bmp)$/;

function Picture({ part }: { part: Part }) {
  // Images in a markup language could contain scripts and addresses, and are not shown.
  if (!IMAGE_TYPES.test(part.mimeType ?? '')) return <Notice>{t('result.noImage', { type: plain(part.mimeType ?? '?') })}</Notice>;
  return <img class="picture" alt={t('result.image')} src={`data:${part.mimeType};base64,${(part.data ?? '').replace(/[^A-Za-z0-9+/=]/g, '')}`} />;
}

const LINE = 20;
const WHOLE_TEXT = 20_000;
const LINE_CHARS = 2_000;

export function TextView({ text, label }: { text: string; label?: string }) {
  const name = label ?? t('result.text');
  const isLarge = text.length > WHOLE_TEXT;
  const lines = useMemo(() => (isLarge ? text.split('\n').flatMap(wrapped) : []), [text, isLarge]);
  return (
    <div class="text-view">
      <div class="row toolbar"><span class="grow" /><CopyButton text={text} /></div>
      {isLarge
        ? <VirtualList class="lines" role="region" aria-label={name} tabIndex={0} count={lines.length} height={LINE} style={{ height: '480px' }} always row={(index) => <div class="line">{plain(lines[index] ?? '')}</div>} />
        : <pre tabIndex={0} role="region" aria-label={name}>{plain(text)}</pre>}
    </div>
  );
}

/** Splits a very long line, which would take the browser minutes to render. */
function wrapped(line: string): string[] {
  if (line.length <= LINE_CHARS) return [line];
  const pieces: string[] = [];
  for (let at = 0; at < line.length; at += LINE_CHARS) pieces.push(line.slice(at, at + LINE_CHARS));
  return pieces;
}
