// Texts in the reader's language. A catalogue is an object; `{name}` in a text is replaced by its argument.
import { signal } from '@preact/signals';
import { de } from './locales/de';
import { en, type Catalogue, type Key } from './locales/en';

const catalogues: Record<string, Catalogue> = { en, de };
export const languages: Record<string, string> = { en: 'English', de: 'Deutsch' };
const LANGUAGE_KEY = 'onetool.language';

function preferred(): string {
  try {
    const chosen = localStorage.getItem(LANGUAGE_KEY);
    if (chosen !== null && chosen in catalogues) return chosen;
  } catch {
    // No storage: the browser's languages are used.
  }
  for (const language of navigator.languages) {
    const short = language.slice(0, 2).toLowerCase();
    if (short in catalogues) return short;
  }
  return 'en';
}

export const language = signal(preferred());

export function chooseLanguage(value: string) {
  language.value = value;
  document.documentElement.lang = value;
  try {
    localStorage.setItem(LANGUAGE_KEY, value);
  } catch {
    // Not stored; it lasts as long as the page.
  }
}

/** The modifier key for shortcuts. */
export const ctrl = (): string => (/^(Mac|iP)/.test(navigator.platform ?? '') ? '⌘' : t('ctrl'));

export function t(key: Key, values: Record<string, string | number> = {}): string {
  const text = catalogues[language.value]?.[key] ?? en[key];
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = name === 'ctrl' ? ctrl() : values[name];
    if (value === undefined) return whole;
    return typeof value === 'number' ? number(value) : value;
  });
}

/** Selects `one` or `other` by the language's plural rule. */
export function plural(count: number, one: Key, other: Key): string {
  const rule = new Intl.PluralRules(language.value).select(count);
  return t(rule === 'one' ? one : other, { count });
}

export function number(value: number): string {
  return new Intl.NumberFormat(language.value, { maximumFractionDigits: 1 }).format(value);
}

export function money(dollars: number): string {
  return new Intl.NumberFormat(language.value, { style: 'currency', currency: 'USD' }).format(dollars);
}

export function duration(ms: number): string {
  if (ms < 1) return `${number(Math.round(ms * 100) / 100)} ms`;
  if (ms < 1000) return `${number(Math.round(ms))} ms`;
  if (ms < 120_000) return `${number(Math.round(ms / 100) / 10)} s`;
  if (ms < 7_200_000) return `${number(Math.round(ms / 6_000) / 10)} min`;
  return `${number(Math.round(ms / 360_000) / 10)} h`;
}

export function bytes(count: number): string {
  if (count < 1024) return `${number(count)} B`;
  if (count < 1024 * 1024) return `${number(count / 1024)} kB`;
  return `${number(count / 1024 / 1024)} MB`;
}

export function time(iso: string): string {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return iso;
  const today = new Date().toDateString() === date.toDateString();
  return new Intl.DateTimeFormat(language.value, today ? { timeStyle: 'medium' } : { dateStyle: 'short', timeStyle: 'short' }).format(date);
}
