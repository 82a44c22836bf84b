// Shows a JSON value as a tree or a table, with rows fetched from the worker.
import { useCallback, useEffect, useId, useRef, useState } from 'preact/hooks';
import { plural, t } from '../i18n';
import { plain } from '../text';
import { CopyButton, Notice } from '../ui/parts';
import { VirtualList } from '../ui/virtual';
import { type OpenedJson, openJson } from './client';
import type { Row } from './model';

const ROW = 24;
const CHUNK = 100;

export function useJson(text: string | null): { json: OpenedJson | null; error: string | null } {
  const [state, setState] = useState<{ json: OpenedJson | null; error: string | null }>({ json: null, error: null });
  useEffect(() => {
    setState({ json: null, error: null });
    if (text === null) return;
    let isGone = false;
    let opened: OpenedJson | null = null;
    openJson(text).then(
      (json) => {
        opened = json;
        if (isGone) json.close();
        else setState({ json, error: null });
      },
      (error: Error) => { if (!isGone) setState({ json: null, error: error.message }); },
    );
    return () => {
      isGone = true;
      opened?.close();
    };
  }, [text]);
  return state;
}

/** Fetches rows in chunks as they come into view. */
function usePieces<T>(fetch: (from: number, to: number) => Promise<T[]>, version: number): { at(index: number): T | undefined; need(from: number, to: number): void } {
  const pieces = useRef(new Map<number, T[]>());
  const asked = useRef(new Set<number>());
  const [, redraw] = useState(0);
  const current = useRef(version);
  if (current.current !== version) {
    current.current = version;
    pieces.current = new Map();
    asked.current = new Set();
  }
  const need = useCallback((from: number, to: number) => {
    for (let piece = Math.floor(from / CHUNK); piece * CHUNK < to; piece += 1) {
      if (asked.current.has(piece)) continue;
      asked.current.add(piece);
      // The caller may hold an earlier `need`, so the current version is compared.
      const at = current.current;
      void fetch(piece * CHUNK, (piece + 1) * CHUNK).then((rows) => {
        if (current.current !== at) return;
        pieces.current.set(piece, rows);
        redraw((n) => n + 1);
      }).catch(() => undefined);
    }
  }, [fetch]);
  return { at: (index) => pieces.current.get(Math.floor(index / CHUNK))?.[index % CHUNK], need };
}

export function JsonTree({ json, label }: { json: OpenedJson; label: string }) {
  const id = useId();
  const [count, setCount] = useState(json.count);
  const [version, setVersion] = useState(0);
  const [active, setActive] = useState(0);
  const [query, setQuery] = useState('');
  const [missed, setMissed] = useState(false);
  const fetch = useCallback((from: number, to: number) => json.rows(from, to), [json]);
  const rows = usePieces<Row>(fetch, version);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    setCount(json.count);
    setVersion((n) => n + 1);
    setActive(0);
  }, [json]);
  const changed = (next: number) => {
    json.count = next;
    setCount(next);
    setVersion((n) => n + 1);
  };
  const toggle = (index: number) => void json.toggle(index).then(changed);
  const range = useRef<[number, number]>([0, 0]);
  useEffect(() => rows.need(...range.current), [version, count]);
  const find = async (wanted: string) => {
    if (wanted === '') return;
    let found = await json.find(wanted, active + 1);
    if (found.index < 0) found = await json.find(wanted, 0);
    changed(found.count);
    setMissed(found.index < 0);
    if (found.index >= 0) setActive(found.index);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const row = rows.at(active);
    const keys: Record<string, () => void> = {
      ArrowDown: () => setActive(Math.min(active + 1, count - 1)),
      ArrowUp: () => setActive(Math.max(active - 1, 0)),
      Home: () => setActive(0),
      End: () => setActive(count - 1),
      PageDown: () => setActive(Math.min(active + 20, count - 1)),
      PageUp: () => setActive(Math.max(active - 20, 0)),
      Enter: () => toggle(active),
      ' ': () => toggle(active),
      ArrowRight: () => { if (row && row.size > 0 && !row.isOpen) toggle(active); else setActive(Math.min(active + 1, count - 1)); },
      ArrowLeft: () => {
        if (row?.isOpen) toggle(active);
        else if (row) {
          let parent = active;
          while (parent > 0 && (rows.at(parent)?.depth ?? 0) >= row.depth) parent -= 1;
          setActive(parent);
        }
      },
    };
    const action = keys[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  };
  return (
    <div class="json">
      <div class="row toolbar">
        <input type="search" aria-label={t('json.find')} placeholder={t('json.find')} value={query} onInput={(event) => { setQuery(event.currentTarget.value); setMissed(false); }}
          onKeyDown={(event) => { if (event.key === 'Enter') { event.preventDefault(); void find(event.currentTarget.value); } }} />
        {missed && <span class="quiet" role="status">{t('json.notFound')}</span>}
        <span class="grow" />
        <CopyButton text={() => json.text(0, 2)} />
      </div>
      <div ref={list}>
        <VirtualList class="tree" role="tree" tabIndex={0} aria-label={label} aria-activedescendant={`${id}-${active}`} onKeyDown={onKeyDown}
          count={count} height={ROW} focus={active} always
          style={{ height: `${Math.min(Math.max(count, 2) * ROW + 2, 480)}px` }}
          onRange={(from, to) => { range.current = [from, to]; rows.need(from, to); }}
          row={(index) => <TreeRow row={rows.at(index)} id={`${id}-${index}`} isActive={index === active} onToggle={() => { setActive(index); toggle(index); }} onSelect={() => setActive(index)} />} />
      </div>
    </div>
  );
}

function TreeRow({ row, id, isActive, onToggle, onSelect }: { row: Row | undefined; id: string; isActive: boolean; onToggle(): void; onSelect(): void }) {
  if (!row) return <div class="tree-row quiet" role="treeitem" id={id}>…</div>;
  const isContainer = row.kind === 'object' || row.kind === 'array';
  const count = row.kind === 'array' ? plural(row.size, 'json.item', 'json.items') : plural(row.size, 'json.member', 'json.members');
  return (
    <div class={`tree-row ${isActive ? 'active' : ''}`} role="treeitem" id={id} aria-level={row.depth + 1} aria-expanded={row.size > 0 ? row.isOpen : undefined} aria-selected={isActive}
      style={{ paddingInlineStart: `${0.4 + Math.min(row.depth, 40) * 1.1}em` }} onClick={row.size > 0 ? onToggle : onSelect}>
      <span class="twist" aria-hidden="true">{row.size > 0 ? (row.isOpen ? '▾' : '▸') : ''}</span>
      {row.key !== null && <span class={typeof row.key === 'number' ? 'index' : 'key'}>{typeof row.key === 'number' ? row.key : plain(row.key)}: </span>}
      {isContainer
        ? <span class="quiet">{row.kind === 'array' ? (row.size === 0 ? '[]' : `[ ${count} ]`) : row.size === 0 ? '{}' : `{ ${count} }`}</span>
        : <span class={`value ${row.kind}`}>{row.kind === 'string' ? `"${plain(row.text)}"` : row.text}</span>}
    </div>
  );
}

export function JsonTable({ json, label }: { json: OpenedJson; label: string }) {
  const fetch = useCallback((from: number, to: number) => json.cells(from, to), [json]);
  const rows = usePieces<string[]>(fetch, 0);
  const table = json.table;
  if (!table) return <Notice>{t('json.noTable')}</Notice>;
  const columns = `repeat(${table.columns.length}, minmax(8em, 1fr))`;
  return (
    <div class="grid-table" role="table" aria-label={label} aria-rowcount={table.rows + 1}>
      <div class="grid-inner" style={{ minWidth: `${table.columns.length * 8}em` }}>
        <div class="grid-row head" role="row" style={{ gridTemplateColumns: columns }}>
          {table.columns.map((column) => <span key={column} role="columnheader">{plain(column)}</span>)}
        </div>
        <VirtualList role="rowgroup" tabIndex={0} count={table.rows} height={ROW + 4} style={{ height: `${Math.min(table.rows * (ROW + 4) + 2, 440)}px` }}
          always onRange={rows.need}
          row={(index) => (
            <div class="grid-row" role="row" aria-rowindex={index + 2} style={{ gridTemplateColumns: columns }}>
              {(rows.at(index) ?? table.columns.map(() => '…')).map((cell, at) => <span key={at} role="cell" title={plain(cell)}>{plain(cell)}</span>)}
            </div>
          )} />
      </div>
    </div>
  );
}
