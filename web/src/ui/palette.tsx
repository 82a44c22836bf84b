// The "+" palette: finds a tool, a snippet or a page from anywhere, by name or description. A tool is filled in and
// called right there, or inserted into the console.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type SearchHit, type ToolDetail, get, getTool, may, toolPath } from '../api';
import { type Key } from '../locales/en';
import { t } from '../i18n';
import { address, go, needs } from '../router';
import { Tester } from '../screens/tester';
import { plain, shortened } from '../text';
import { tools } from '../toolbox';
import { useLoad } from './load';
import { Badge, Dialog, Failure } from './parts';

/** What to do with a choice; the console inserts it. */
type Insert = (text: string) => void;

export const palette = signal<{ insert?: Insert; tool?: string } | null>(null);

interface Choice {
  key: string;
  title: string;
  summary: string;
  kind: string;
  pick(): void;
  /** An alternative action. */
  open?(): void;
  insert?: string;
  /** The tool to fill in. */
  tool?: string;
}

const PAGES = Object.keys(needs) as (keyof typeof needs)[];
const SHOWN = 50;

export function Palette() {
  const open = palette.value;
  if (!open) return null;
  return open.tool !== undefined ? <TryDialog key={open.tool} name={open.tool} insert={open.insert} /> : <PaletteDialog insert={open.insert} />;
}

/** A tool, filled in and called without leaving the screen. */
function TryDialog({ name, insert }: { name: string; insert: Insert | undefined }) {
  const { data: tool, error, reload } = useLoad<ToolDetail>(toolPath(name), getTool);
  const close = () => { palette.value = null; };
  // Focus the first field to fill in.
  useEffect(() => { if (tool) document.querySelector<HTMLElement>('dialog .tester :is(input, select, textarea, button.primary)')?.focus(); }, [tool === null]);
  return (
    <Dialog label={plain(name)} class="wide" onClose={close}>
      <div class="row wrap">
        <button type="button" class="link" onClick={() => { palette.value = { insert }; }}>← {t('palette.back')}</button>
        <h2 class="tool-name grow">{shortened(name, 100)}</h2>
        <a href={address('tools', name)} onClick={close}>{t('activity.openTool')}</a>
        <button type="button" class="link" aria-label={t('close')} onClick={close}>✕</button>
      </div>
      {error !== null && <Failure error={error} onRetry={reload} />}
      {!tool && error === null && <p class="quiet loading">{t('loading')}</p>}
      {tool && (
        <>
          <p class="quiet">{shortened(tool.summary, 300)}</p>
          <Tester tool={tool} onInsert={insert && ((line) => { close(); setTimeout(insert, 0, line); })} />
        </>
      )}
    </Dialog>
  );
}

function PaletteDialog({ insert }: { insert: Insert | undefined }) {
  const [query, setQuery] = useState('');
  const [found, setFound] = useState<{ query: string; hits: SearchHit[] }>({ query: '', hits: [] });
  /** Set if Enter was pressed before the results arrived. */
  const pressed = useRef<'default' | 'open' | null>(null);
  const { hits } = found;
  const [active, setActive] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const wanted = query.trim();
  useEffect(() => {
    setActive(0);
    if (wanted === '') {
      setFound({ query: '', hits: tools.value.slice(0, SHOWN).map((tool) => ({ kind: 'tool', name: tool.name, summary: tool.summary })) });
      return;
    }
    const control = new AbortController();
    const timer = setTimeout(() => {
      get<{ hits: SearchHit[] }>(`api/search?q=${encodeURIComponent(wanted.slice(0, 200))}`, control.signal).then(({ hits }) => setFound({ query: wanted, hits: hits.slice(0, SHOWN) }), () => undefined);
    }, 60);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [wanted]);
  const choices = useMemo(() => [...(insert ? [] : pageChoices(wanted)), ...hits.map((hit) => choice(hit))], [hits, wanted]);
  const close = () => { palette.value = null; };
  const pick = (choice: Choice | undefined, how: 'default' | 'open') => {
    if (!choice) return;
    close();
    // Nothing outside the dialog can take the focus until it is closed.
    if (insert && how !== 'open' && choice.insert) setTimeout(insert, 0, choice.insert);
    else if (insert && choice.tool !== undefined) palette.value = { tool: choice.tool, insert };
    else if (how === 'open' && choice.open) choice.open();
    else choice.pick();
  };
  useEffect(() => {
    if (pressed.current && found.query === wanted) pick(choices[0], pressed.current);
  }, [found]);
  useEffect(() => list.current?.querySelector(`[data-index="${active}"]`)?.scrollIntoView({ block: 'nearest' }), [active]);
  return (
    <Dialog label={t('palette.title')} class="palette" onClose={close}>
      <input type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={`palette-${active}`} aria-label={t('palette.title')} placeholder={t('palette.placeholder')} autocomplete="off" spellcheck={false}
        value={query} onInput={(event) => { pressed.current = null; setQuery(event.currentTarget.value); }}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') { event.preventDefault(); setActive(Math.min(active + 1, choices.length - 1)); }
          else if (event.key === 'ArrowUp') { event.preventDefault(); setActive(Math.max(active - 1, 0)); }
          else if (event.key === 'Enter') {
            event.preventDefault();
            const how = event.shiftKey ? 'open' : 'default';
            // The last input may not be rendered yet.
            if (found.query === event.currentTarget.value.trim()) pick(choices[active], how);
            else pressed.current = how;
          }
        }} />
      <ul role="listbox" id="palette-list" aria-label={t('palette.results')} ref={list}>
        {choices.map((entry, index) => (
          <li key={entry.key} id={`palette-${index}`} data-index={index} role="option" aria-selected={index === active} class={index === active ? 'active' : ''} onClick={() => pick(entry, 'default')} onMouseMove={() => setActive(index)}>
            <span class="tool-name">{shortened(entry.title, 80)}</span>
            <span class="quiet summary grow">{shortened(entry.summary, 120)}</span>
            <Badge>{entry.kind}</Badge>
          </li>
        ))}
      </ul>
      {choices.length === 0 && <p class="quiet empty">{t('tools.nothing')}</p>}
      <p class="quiet keys">{insert ? t('palette.insertKeys') : t('palette.keys')}</p>
    </Dialog>
  );
}

function pageChoices(wanted: string): Choice[] {
  const lower = wanted.toLowerCase();
  return PAGES.filter((page) => lower !== '' && may(needs[page]) && t(`nav.${page}` as Key).toLowerCase().includes(lower)).map((page) => ({
    key: `page:${page}`,
    title: t(`nav.${page}` as Key),
    summary: '',
    kind: t('palette.page'),
    pick: () => go(page),
  }));
}

function choice(hit: SearchHit): Choice {
  const base = { key: `${hit.kind}:${hit.name}`, title: plain(hit.name), summary: hit.summary, kind: t(`hit.${hit.kind}`) };
  switch (hit.kind) {
    case 'tool':
      return { ...base, pick: () => { palette.value = { tool: hit.name }; }, open: () => go('tools', hit.name), insert: `${hit.name}()`, tool: hit.name };
    case 'snippet':
      return { ...base, pick: () => go('console', '', { code: `$${hit.name}` }), insert: `$${hit.name}` };
    case 'pack':
      return { ...base, pick: () => go('console', '', { code: `ot.help(query="${hit.name}")` }), insert: `${hit.name}.` };
    case 'alias':
      return { ...base, pick: () => go('console', '', { code: `${hit.name}()` }), insert: `${hit.name}()` };
  }
}
