// The event stream: calls and runs as they happen, and notices of changes. One connection for the whole page, which
// reconnects silently.
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
  /** The principal, and the client in use. */
  principal?: string;
  client?: string;
  at: string;
  /** The files that `always` writes a rule into. */
  alwaysWrites: string[];
}

/** Ended calls and runs, oldest first. */
export const activity = signal<CallEvent[]>([]);
/** Active calls and runs, oldest first. */
export const underWay = signal<CallEvent[]>([]);
export const approvals = signal<Approval[]>([]);
/** Whether the server has reported what waits. */
export const approvalsKnown = signal(false);
export const connection = signal<'connecting' | 'open' | 'lost'>('connecting');

const KEPT = 1_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

let control: AbortController | null = null;

export function startLive() {
  control?.abort();
  control = new AbortController();
  // Another user may have signed in.
  [activity.value, underWay.value, approvals.value] = [[], [], []];
  void follow(control.signal);
}

export function stopLive() {
  control?.abort();
}

async function follow(stop: AbortSignal) {
  let pause = FIRST_PAUSE_MS;
  while (!stop.aborted) {
    try {
      // The stream first: it queues events while the rest is fetched.
      const response = await request('api/events', { signal: stop, accept: 'text/event-stream' });
      await catchUp(stop);
      connection.value = 'open';
      pause = FIRST_PAUSE_MS;
      for await (const { event, data } of events(response)) take(event, data);
    } catch {
      // Retried below.
    }
    if (stop.aborted || !may('read')) return;
    connection.value = 'lost';
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

/** When an active call was reported, by this browser's clock, which may differ from the server's. */
const toldAt = new WeakMap<CallEvent, number>();

/** The duration of a call, or the time elapsed so far. */
export function elapsed(entry: CallEvent): number {
  const soFar = entry.durationMs ?? 0;
  return entry.isUnderWay ? soFar + performance.now() - (toldAt.get(entry) ?? performance.now()) : soFar;
}

async function catchUp(stop?: AbortSignal) {
  const [recent, waiting] = await Promise.all([
    get<{ events: CallEvent[]; underWay: CallEvent[] }>('api/activity', stop),
    // Only administrators decide.
    may('admin') ? get<{ approvals: Approval[] }>('api/approvals', stop) : { approvals: [] },
  ]);
  for (const entry of recent.underWay) toldAt.set(entry, performance.now());
  const ended = new Set(recent.events.map((entry) => entry.id));
  activity.value = recent.events.slice(-KEPT);
  underWay.value = recent.underWay.filter((entry) => !ended.has(entry.id));
  approvals.value = waiting.approvals;
  approvalsKnown.value = true;
}

let pending: CallEvent[] = [];

function take(event: string, data: string) {
  if (event === 'activity' || event === 'started') {
    // A burst of calls is one redraw.
    if (pending.length === 0) requestAnimationFrame(flush);
    const entry = JSON.parse(data) as CallEvent;
    if (entry.isUnderWay) toldAt.set(entry, performance.now());
    pending.push(entry);
  } else if (event === 'missed') void catchUp().catch(() => undefined);
  else if (event === 'approvals') approvals.value = (JSON.parse(data) as { approvals: Approval[] }).approvals;
  else if (event === 'tools') void loadToolbox();
}

function flush() {
  const known = new Set(activity.value.map((entry) => entry.id));
  const open = new Map(underWay.value.map((entry) => [entry.id, entry]));
  const ended: CallEvent[] = [];
  for (const entry of pending) {
    if (known.has(entry.id)) continue;
    if (entry.isUnderWay) {
      if (!open.has(entry.id)) open.set(entry.id, entry);
      continue;
    }
    open.delete(entry.id);
    known.add(entry.id);
    ended.push(entry);
  }
  pending = [];
  if (ended.length > 0) activity.value = [...activity.value, ...ended].slice(-KEPT);
  underWay.value = [...open.values()].filter((entry) => !known.has(entry.id));
}
