// Data fetched for a screen: loading, loaded, or failed.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { get } from '../api';

export interface Loaded<T> {
  data: T | null;
  error: unknown;
  isLoading: boolean;
  /** Fetches it again; resolves when it has loaded or failed. */
  reload(): Promise<void>;
  set(data: T): void;
}

let underWay = 0;

/** Shows the number of active loads in the document, for styles and tests. */
function count(change: number) {
  underWay += change;
  document.documentElement.dataset.loads = String(underWay);
}

export function useLoad<T>(path: string | null, fetch: (path: string, signal?: AbortSignal) => Promise<T> = get): Loaded<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; error: unknown; isLoading: boolean }>({ path: null, data: null, error: null, isLoading: path !== null });
  const control = useRef<AbortController | null>(null);
  const load = useCallback(async () => {
    control.current?.abort();
    if (path === null) return;
    const own = new AbortController();
    control.current = own;
    setState((old) => ({ path, data: old.path === path ? old.data : null, error: null, isLoading: true }));
    count(1);
    await fetch(path, own.signal).then(
      (data) => { if (!own.signal.aborted) setState({ path, data, error: null, isLoading: false }); },
      (error: unknown) => { if (!own.signal.aborted) setState((old) => ({ ...old, error, isLoading: false })); },
    ).finally(() => count(-1));
  }, [path]);
  useEffect(() => {
    void load();
    return () => control.current?.abort();
  }, [load]);
  const isCurrent = state.path === path;
  return {
    data: isCurrent ? state.data : null,
    error: isCurrent ? state.error : null,
    isLoading: state.isLoading || !isCurrent,
    reload: load,
    set: (data) => setState({ path, data, error: null, isLoading: false }),
  };
}

/** Repeats an action while the page is visible. */
export function useEvery(ms: number, work: (() => void) | null) {
  useEffect(() => {
    if (work === null) return;
    const timer = setInterval(() => { if (document.visibilityState === 'visible') work(); }, ms);
    return () => clearInterval(timer);
  }, [ms, work]);
}
