// All tools by pack; search, filters, switches.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type PackRow, type SearchHit, type ToolKind, type ToolRow, get, may } from '../api';
import { plural, t } from '../i18n';
import { address, go, place } from '../router';
import { plain, shortened } from '../text';
import { byName, isSwitchable, loadState, loadToolbox, packs, tags, toggle, tools } from '../toolbox';
import { Badge, Failure, Switch } from '../ui/parts';
import { VirtualList } from '../ui/virtual';
import { ToolPage } from './tool';

type Line = { pack: PackRow; shown: number } | { tool: ToolRow };

export const kinds: ToolKind[] = ['native', 'python', 'mcp', 'bundle'];
export const kindName = (kind: ToolKind) => t(`kind.${kind}`);

export function ToolsScreen() {
  const selected = place.value.subject;
  const [query, setQuery] = useState('');
  const [kind, setKind] = useState('');
  const [state, setState] = useState('');
  const [tag, setTag] = useState('');
  const hits = useSearch(query);
  const lines = useMemo(() => arrange(hits, kind, state, tag), [hits, kind, state, tag, tools.value, packs.value]);
  const shown = lines.filter((line) => 'tool' in line).length;
  const index = lines.findIndex((line) => 'tool' in line && line.tool.name === selected);
  const list = useRef<HTMLDivElement>(null);

  const move = (step: number) => {
    let at = index;
    do at += step; while (at >= 0 && at < lines.length && !('tool' in lines[at]!));
    const line = lines[at];
    if (line && 'tool' in line) go('tools', line.tool.name);
  };

  if (loadState.value instanceof Error) return <Failure error={loadState.value} onRetry={() => void loadToolbox()} />;
  return (
    <div class={`split ${selected ? 'has-detail' : ''}`}>
      <h1 class="visually-hidden">{t('tools.title')}</h1>
      <section class="list-pane" aria-label={t('tools.title')}>
        <div class="filters">
          <input type="search" id="tool-search" aria-label={t('tools.search')} placeholder={t('tools.search')} value={query} autocomplete="off" spellcheck={false}
            onInput={(event) => setQuery(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'ArrowDown') { event.preventDefault(); move(1); }
              else if (event.key === 'ArrowUp') { event.preventDefault(); move(-1); }
              else if (event.key === 'Enter') { const first = lines.find((line) => 'tool' in line); if (first && 'tool' in first && index < 0) go('tools', first.tool.name); focusDetail(); }
            }} />
          <div class="row">
            <select aria-label={t('tools.kind')} value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
              <option value="">{t('tools.allKinds')}</option>
              {kinds.map((kind) => <option key={kind} value={kind}>{kindName(kind)}</option>)}
            </select>
            <select aria-label={t('tools.state')} value={state} onChange={(event) => setState(event.currentTarget.value)}>
              <option value="">{t('tools.allStates')}</option>
              <option value="on">{t('tools.on')}</option>
              <option value="off">{t('tools.off')}</option>
            </select>
            {tags.value.length > 0 && (
              <select aria-label={t('tools.tag')} value={tag} onChange={(event) => setTag(event.currentTarget.value)}>
                <option value="">{t('tools.allTags')}</option>
                {tags.value.map((tag) => <option key={tag} value={tag}>{shortened(tag, 30)}</option>)}
              </select>
            )}
          </div>
          <p class="quiet count" role="status">{loadState.value === 'ready' || tools.value.length > 0 ? plural(shown, 'tools.one', 'tools.many') : t('loading')}</p>
        </div>
        <div class="list-host" ref={list} onKeyDown={(event) => {
          if (event.key === 'ArrowDown') { event.preventDefault(); move(1); }
          else if (event.key === 'ArrowUp') { event.preventDefault(); move(-1); }
        }}>
          {shown === 0 && loadState.value === 'ready' && <p class="quiet empty">{t('tools.nothing')}</p>}
          <VirtualList class="tool-list" role="list" count={lines.length} focus={index} height={(at) => (lines[at] && 'pack' in lines[at] ? 44 : 54)}
            row={(at) => <ListLine line={lines[at]} selected={selected} />} />
        </div>
      </section>
      <section class="detail-pane" id="tool-detail" tabIndex={-1} aria-label={selected ? plain(selected) : t('tools.details')}>
        {selected ? <ToolPage key={selected} name={selected} /> : <div class="empty-detail"><p>{t('tools.choose')}</p><p class="quiet">{t('tools.chooseHint')}</p></div>}
      </section>
    </div>
  );
}

/** Moves the focus to the opened tool, however long the list is. */
function focusDetail() {
  setTimeout(() => document.getElementById('tool-detail')?.focus());
}

function ListLine({ line, selected }: { line: Line | undefined; selected: string }) {
  if (!line) return null;
  if ('pack' in line) {
    const { pack } = line;
    return (
      <div class="pack-line" role="listitem">
        <strong title={plain(pack.description)}>{shortened(pack.name, 60)}</strong>
        <Badge kind={pack.kind}>{kindName(pack.kind)}</Badge>
        {pack.note && <Badge kind="warn"><span title={plain(pack.note)}>!</span></Badge>}
        <span class="quiet grow">{line.shown}</span>
        <Switch isOn={pack.isEnabled} disabled={!may('admin') || !pack.isSwitchable} label={t('tools.switchPack', { name: plain(pack.name) })} onChange={(isOn) => void toggle('pack', pack.name, isOn)} />
      </div>
    );
  }
  const { tool } = line;
  return (
    <div class={`tool-line ${tool.name === selected ? 'selected' : ''} ${tool.isEnabled ? '' : 'off'}`} role="listitem">
      <a href={address('tools', tool.name)} aria-current={tool.name === selected ? 'true' : undefined} onClick={(event) => { if (!event.ctrlKey && !event.metaKey && !event.shiftKey) focusDetail(); }}>
        <span class="tool-name">{shortened(tool.name, 80)}</span>
        <span class="quiet summary">{shortened(tool.summary, 140)}</span>
      </a>
      <Switch isOn={tool.isEnabled} disabled={!may('admin') || !isSwitchable(tool.pack)} label={t('tools.switchTool', { name: plain(tool.name) })} onChange={(isOn) => void toggle('tool', tool.name, isOn)} />
    </div>
  );
}

/** Names in the server's order; `null` without a query. */
function useSearch(query: string): string[] | null {
  const [names, setNames] = useState<string[] | null>(null);
  const wanted = query.trim();
  useEffect(() => {
    if (wanted === '') {
      setNames(null);
      return;
    }
    const control = new AbortController();
    const timer = setTimeout(() => {
      get<{ hits: SearchHit[] }>(`api/search?includeDisabled=true&q=${encodeURIComponent(wanted.slice(0, 200))}`, control.signal).then(
        ({ hits }) => setNames(hits.flatMap((hit) => (hit.kind === 'tool' ? [hit.name] : []))),
        () => { if (!control.signal.aborted) setNames(local(wanted)); },
      );
    }, 80);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [wanted, tools.value]);
  return wanted === '' ? null : names;
}

/** Tools that can be found without the server. */
function local(wanted: string): string[] {
  const words = wanted.toLowerCase().split(/\s+/);
  return tools.value.filter((tool) => words.every((word) => `${tool.name} ${tool.summary}`.toLowerCase().includes(word))).map((tool) => tool.name);
}

function arrange(hits: string[] | null, kind: string, state: string, tag: string): Line[] {
  const fits = (tool: ToolRow) =>
    (kind === '' || tool.kind === kind) && (state === '' || tool.isEnabled === (state === 'on')) && (tag === '' || (tool.tags ?? []).includes(tag));
  if (hits !== null) {
    return hits.flatMap((name) => {
      const tool = byName.value.get(name);
      return tool && fits(tool) ? [{ tool }] : [];
    });
  }
  const groups = new Map<string, ToolRow[]>();
  for (const tool of tools.value) {
    if (!fits(tool)) continue;
    const group = groups.get(tool.pack);
    if (group) group.push(tool);
    else groups.set(tool.pack, [tool]);
  }
  return packs.value.flatMap((pack) => {
    const group = groups.get(pack.name) ?? [];
    const isFiltered = kind !== '' || state !== '' || tag !== '';
    if (group.length === 0 && (isFiltered || pack.toolCount > 0)) return [];
    return [{ pack, shown: group.length }, ...group.map((tool) => ({ tool }))];
  });
}
