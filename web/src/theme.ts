// Light, dark, or as the system prefers.
import { signal } from '@preact/signals';

const KEY = 'onetool.theme';

function stored(): string {
  try {
    return localStorage.getItem(KEY) ?? 'auto';
  } catch {
    return 'auto';
  }
}

export const theme = signal(stored());

export function applyTheme() {
  const root = document.documentElement;
  if (theme.value === 'auto') root.removeAttribute('data-theme');
  else root.setAttribute('data-theme', theme.value);
}

export function chooseTheme(value: string) {
  theme.value = value;
  applyTheme();
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // Not stored; it lasts as long as the page.
  }
}
