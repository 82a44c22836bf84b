// The page's side of the worker. It starts with the first request; a worker that takes too long is terminated.
import type { Row, Table } from './model';
import { fromPlain, toPlain } from './lossless';
import type { Problem, Request } from './protocol';

declare const WORKER_FILE: string;

/** Counted from when the worker runs, because a slow machine takes a while to start it. */
const VALIDATION_PATIENCE_MS = 3_000;

class Background {
  private worker: Worker | null = null;
  private lastId = 0;
  private readonly waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  private started: Promise<unknown> = Promise.resolve();

  /** Waits until the worker runs. */
  ready(): Promise<unknown> {
    this.worker ??= this.start();
    return this.started;
  }

  ask<T>(request: Request, transfer: Transferable[] = []): Promise<T> {
    this.worker ??= this.start();
    this.lastId += 1;
    const id = this.lastId;
    return new Promise<T>((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.worker!.postMessage({ id, request }, transfer);
    });
  }

  /** Terminates the worker and rejects pending requests. */
  end(reason: string) {
    this.worker?.terminate();
    this.worker = null;
    for (const { reject } of this.waiting.values()) reject(new Error(reason));
    this.waiting.clear();
  }

  private start(): Worker {
    const url = new URL(WORKER_FILE, location.href).href;
    const worker = new Worker(trusted(url) as string);
    this.started = new Promise((resolve, reject) => this.waiting.set(0, { resolve, reject }));
    this.started.catch(() => undefined);
    worker.onmessage = (event: MessageEvent<{ id: number; value?: unknown; error?: string }>) => {
      const { id, value, error } = event.data;
      const waiter = this.waiting.get(id);
      this.waiting.delete(id);
      if (error === undefined) waiter?.resolve(value);
      else waiter?.reject(new Error(error));
    };
    worker.onerror = () => this.end('the worker could not be loaded');
    return worker;
  }
}

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): unknown };
}

let policy: { createScriptURL(url: string): unknown } | undefined;

/** Only the worker's own address is accepted as a script. */
function trusted(url: string): unknown {
  const types = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
  policy ??= types?.createPolicy('onetool', {
    createScriptURL(candidate) {
      if (candidate !== new URL(WORKER_FILE, location.href).href) throw new TypeError('not our worker');
      return candidate;
    },
  });
  return policy ? policy.createScriptURL(url) : url;
}

const values = new Background();
const checks = new Background();

/** A JSON value shown by the worker. */
export interface OpenedJson {
  count: number;
  table: Table | null;
  rows(from: number, to: number): Promise<Row[]>;
  cells(from: number, to: number): Promise<string[][]>;
  toggle(index: number): Promise<number>;
  find(text: string, from: number): Promise<{ index: number; count: number }>;
  text(index: number, indent: number): Promise<string>;
  close(): void;
}

export async function openJson(source: string | ArrayBuffer): Promise<OpenedJson> {
  const transfer = source instanceof ArrayBuffer ? [source] : [];
  const { model, count, table } = await values.ask<{ model: number; count: number; table: Table | null }>({ op: 'open', text: source }, transfer);
  return {
    count,
    table,
    rows: (from, to) => values.ask({ op: 'rows', model, from, to }),
    cells: (from, to) => values.ask({ op: 'cells', model, from, to }),
    toggle: (index) => values.ask({ op: 'toggle', model, index }),
    find: (text, from) => values.ask({ op: 'find', model, text, from }),
    text: (index, indent) => values.ask({ op: 'text', model, index, indent }),
    close: () => void values.ask({ op: 'close', model }).catch(() => undefined),
  };
}

/** The problems of a value; `null` if they cannot be determined here, and the server has to check. */
export async function validate(schema: unknown, value: unknown): Promise<Problem[] | null> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    await checks.ready();
    timer = setTimeout(() => checks.end('timeout'), VALIDATION_PATIENCE_MS);
    return await checks.ask<Problem[]>({ op: 'validate', schema: toPlain(fromPlain(schema)), value });
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
  }
}
