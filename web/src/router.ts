// The current place is in the address's fragment: `#/tools/file.read`. It works without the server, can be bookmarked,
// and never reaches a log.
import { signal } from '@preact/signals';
import type { Scope } from './api';

/** The screens, with the scope that each requires. */
export const needs = { tools: 'read', editor: 'admin', console: 'invoke', activity: 'read', approvals: 'admin', settings: 'read' } as const satisfies Record<string, Scope>;

export interface Place {
  screen: string;
  /** What the screen shows, e.g. a tool's name. */
  subject: string;
  query: URLSearchParams;
}

function read(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const [screen = '', ...rest] = path.split('/');
  return { screen: screen || 'tools', subject: decode(rest.join('/')), query: new URLSearchParams(query) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export const place = signal<Place>(read());
addEventListener('hashchange', () => {
  place.value = read();
});

export function address(screen: string, subject = '', query: Record<string, string> = {}): string {
  const text = new URLSearchParams(query).toString();
  return `#/${screen}${subject ? `/${encodeURIComponent(subject)}` : ''}${text ? `?${text}` : ''}`;
}

export function go(screen: string, subject = '', query: Record<string, string> = {}) {
  location.hash = address(screen, subject, query);
}
