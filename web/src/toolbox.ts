// The toolbox as known to the page: packs and tools, loaded once and refreshed when the server reports a change.
import { computed, signal } from '@preact/signals';
import { type PackRow, type ToolRow, get, segment, send } from './api';
import { t } from './i18n';
import { plain } from './text';
import { say, sayProblem } from './ui/parts';

export const packs = signal<PackRow[]>([]);
export const tools = signal<ToolRow[]>([]);
export const loadState = signal<'new' | 'loading' | 'ready' | Error>('new');

export const tags = computed(() => [...new Set(tools.value.flatMap((tool) => tool.tags ?? []))].sort());
export const byName = computed(() => new Map(tools.value.map((tool) => [tool.name, tool])));

const switchable = computed(() => new Set(packs.value.filter((pack) => pack.isSwitchable).map((pack) => pack.name)));
export const isSwitchable = (pack: string): boolean => switchable.value.has(pack);

interface ToolList {
  packs: PackRow[];
  tools: ToolRow[];
}

/** Packs that were disabled when first seen come last; a pack does not move when it is switched. */
const offAtFirst = new Map<string, boolean>();

function ordered(list: PackRow[]): PackRow[] {
  for (const { name, isEnabled } of list) if (!offAtFirst.has(name)) offAtFirst.set(name, !isEnabled);
  return [...list].sort((a, b) => Number(offAtFirst.get(a.name)) - Number(offAtFirst.get(b.name)));
}

let again = false;

export async function loadToolbox(): Promise<void> {
  if (loadState.value === 'loading') {
    again = true;
    return;
  }
  loadState.value = 'loading';
  try {
    do {
      again = false;
      const list = await get<ToolList>('api/tools?includeDisabled=true');
      packs.value = ordered(list.packs);
      tools.value = list.tools;
    } while (again);
    loadState.value = 'ready';
  } catch (error) {
    loadState.value = error instanceof Error ? error : new Error(String(error));
  }
}

/** Enables or disables a tool or a pack, immediately on the page, and reverts if the server refuses. */
export async function toggle(kind: 'tool' | 'pack', name: string, isEnabled: boolean, withUndo = true): Promise<void> {
  const before = { packs: packs.value, tools: tools.value };
  if (kind === 'pack') {
    packs.value = packs.value.map((pack) => (pack.name === name ? { ...pack, isEnabled } : pack));
    tools.value = tools.value.map((tool) => (tool.pack === name ? { ...tool, isEnabled } : tool));
  } else {
    tools.value = tools.value.map((tool) => (tool.name === name ? { ...tool, isEnabled } : tool));
  }
  try {
    await send('PATCH', `api/${kind}s/${segment(name)}`, { isEnabled });
    const text = t(isEnabled ? 'tools.enabled' : 'tools.disabled', { name: plain(name) });
    say(text, withUndo ? { undo: () => void toggle(kind, name, !isEnabled, false) } : {});
    await loadToolbox();
  } catch (error) {
    packs.value = before.packs;
    tools.value = before.tools;
    sayProblem(error);
  }
}
