// The stream of events: calls and runs as they happen, and word of changes. One connection for the whole page; it comes
// back by itself, quietly.
import { signal } from '@preact/signals';
import { type CallEvent, events, get, may, request } from './api';
import { loadToolbox } from './toolbox';

export interface Approval {
  id: string;
  tool: string;
  /** JSON text of the arguments, secrets masked. */
  arguments: string;
  run: string;
  caller: string;
  at: string;
  /** The files that `always` writes a rule into. */
  alwaysWrites: string[];
}

export const activity = signal<CallEvent[]>([]);
export const approvals = signal<Approval[]>([]);
/** Whether the server has said what waits. */
export const approvalsKnown = signal(false);
export const connection = signal<'connecting' | 'open' | 'lost'>('connecting');

const KEPT = 1_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

let control: AbortController | null = null;

export function startLive() {
  control?.abort();
  control = new AbortController();
  void follow(control.signal);
}

export function stopLive() {
  control?.abort();
}

async function follow(stop: AbortSignal) {
  let pause = FIRST_PAUSE_MS;
  while (!stop.aborted) {
    try {
      const [recent, waiting] = await Promise.all([
        get<{ events: CallEvent[] }>('api/activity', stop),
        get<{ approvals: Approval[] }>('api/approvals', stop),
      ]);
      activity.value = recent.events.slice(-KEPT);
      approvals.value = waiting.approvals;
      approvalsKnown.value = true;
      const response = await request('api/events', { signal: stop, accept: 'text/event-stream' });
      connection.value = 'open';
      pause = FIRST_PAUSE_MS;
      for await (const { event, data } of events(response)) take(event, data);
    } catch {
      // Tried again below.
    }
    if (stop.aborted || !may('read')) return;
    connection.value = 'lost';
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

let pending: CallEvent[] = [];

function take(event: string, data: string) {
  if (event === 'activity') {
    // A burst of calls is one redraw.
    if (pending.length === 0) requestAnimationFrame(flush);
    pending.push(JSON.parse(data) as CallEvent);
  } else if (event === 'approvals') approvals.value = (JSON.parse(data) as { approvals: Approval[] }).approvals;
  else if (event === 'tools') void loadToolbox();
}

function flush() {
  const known = new Set(activity.value.map((entry) => entry.id));
  activity.value = [...activity.value, ...pending.filter((entry) => !known.has(entry.id))].slice(-KEPT);
  pending = [];
}
