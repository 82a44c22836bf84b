// Small components that every screen uses.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api';
import { t } from '../i18n';
import { copy, plain } from '../text';

interface Toast {
  id: number;
  text: string;
  isError: boolean;
  undo?: () => void;
}

const toasts = signal<Toast[]>([]);
const TOAST_MS = 8_000;
const MAX_TOASTS = 3;
let lastToast = 0;

/** Shows a message at the edge of the page. A text is not shown twice at the same time. */
export function say(text: string, options: { isError?: boolean; undo?: () => void } = {}) {
  lastToast += 1;
  const id = lastToast;
  const others = toasts.value.filter((toast) => toast.text !== text);
  toasts.value = [...others, { id, text, isError: options.isError ?? false, undo: options.undo }].slice(-MAX_TOASTS);
  setTimeout(fade, TOAST_MS, id);
}

/** Removes the message after a while, unless it is being used. */
function fade(id: number) {
  if (document.querySelector('.toasts:hover, .toasts:focus-within')) setTimeout(fade, 2_000, id);
  else dismiss(id);
}

function dismiss(id: number) {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** The error message, in the reader's language if it is one of ours. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError && error.code === 'offline') return t('offline');
  return error instanceof Error ? error.message : String(error);
}

export function problemText(error: unknown): string {
  if (error instanceof ApiError && error.code !== 'offline') return error.hint ? `${error.message}. ${error.hint}` : error.message;
  return messageOf(error);
}

export const sayProblem = (error: unknown) => say(plain(problemText(error)), { isError: true });

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={`toast ${toast.isError ? 'bad' : ''}`}>
          <span>{toast.text}</span>
          {toast.undo && <button type="button" class="link" onClick={() => { dismiss(toast.id); toast.undo?.(); }}>{t('undo')}</button>}
          <button type="button" class="link" aria-label={t('close')} onClick={() => dismiss(toast.id)}>✕</button>
        </div>
      ))}
    </div>
  );
}

export function Switch({ isOn, label, disabled, onChange }: { isOn: boolean; label: string; disabled?: boolean; onChange(isOn: boolean): void }) {
  return (
    <button type="button" role="switch" class="switch" aria-checked={isOn} aria-label={label} title={label} disabled={disabled}
      onClick={(event) => { event.stopPropagation(); onChange(!isOn); }}>
      <span />
    </button>
  );
}

export function Notice({ kind = 'info', children }: { kind?: 'info' | 'bad' | 'warn'; children: ComponentChildren }) {
  return <div class={`notice ${kind}`} role={kind === 'bad' ? 'alert' : undefined}>{children}</div>;
}

export function Failure({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  return (
    <Notice kind="bad">
      <p>{plain(messageOf(error))}</p>
      {error instanceof ApiError && error.hint && <p class="hint">{plain(error.hint)}</p>}
      {onRetry && <button type="button" onClick={onRetry}>{t('retry')}</button>}
    </Notice>
  );
}

export function CopyButton({ text, label }: { text: string | (() => Promise<string>); label?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button type="button" class="small" onClick={() => void (async () => { await copy(typeof text === 'string' ? text : await text()); setDone(true); })()}>
      {done ? t('copied') : (label ?? t('copy'))}
    </button>
  );
}

/** A modal dialog; the browser traps the focus inside and restores it. */
export function Dialog({ label, onClose, children, class: className }: { label: string; onClose(): void; children: ComponentChildren; class?: string }) {
  const element = useRef<HTMLDialogElement>(null);
  // Synchronously, so that no following key is lost.
  useLayoutEffect(() => {
    element.current?.showModal();
    return () => element.current?.close();
  }, []);
  return (
    <dialog ref={element} class={className} aria-label={label} onCancel={(event) => { event.preventDefault(); onClose(); }} onClick={(event) => { if (event.target === element.current) onClose(); }}>
      {children}
    </dialog>
  );
}

/** Asks for confirmation before something is lost. */
export function Confirm({ title, text, action, onConfirm, onClose }: { title: string; text: string; action: string; onConfirm(): void; onClose(): void }) {
  return (
    <Dialog label={title} onClose={onClose}>
      <h2>{title}</h2>
      <p>{text}</p>
      <div class="row actions"><button type="button" class="danger" onClick={() => { onClose(); onConfirm(); }}>{action}</button><button type="button" onClick={onClose}>{t('cancel')}</button></div>
    </Dialog>
  );
}

/** Tabs by the ARIA pattern: arrow keys move, and only one is in the tab order. */
export function Tabs<T extends string>({ label, tabs, current, onChange, id }: { label: string; tabs: [T, string][]; current: T; onChange(tab: T): void; id: string }) {
  const move = (step: number) => {
    const index = tabs.findIndex(([name]) => name === current);
    const next = tabs[(index + step + tabs.length) % tabs.length];
    if (!next) return;
    onChange(next[0]);
    document.getElementById(`${id}-tab-${next[0]}`)?.focus();
  };
  // On a narrow screen the current tab may be out of view.
  useEffect(() => {
    const tab = document.getElementById(`${id}-tab-${current}`);
    const list = tab?.parentElement;
    if (tab && list && list.scrollWidth > list.clientWidth) list.scrollLeft = tab.offsetLeft - list.offsetLeft - 16;
  }, [current, id]);
  return (
    <div role="tablist" aria-label={label} class="tabs"
      onKeyDown={(event) => { if (event.key === 'ArrowRight') move(1); else if (event.key === 'ArrowLeft') move(-1); }}>
      {tabs.map(([name, title]) => (
        <button key={name} type="button" role="tab" id={`${id}-tab-${name}`} aria-selected={name === current} aria-controls={`${id}-panel`} tabIndex={name === current ? 0 : -1} onClick={() => onChange(name)}>{title}</button>
      ))}
    </div>
  );
}

export function Badge({ children, kind = '' }: { children: ComponentChildren; kind?: string }) {
  return <span class={`badge ${kind}`}>{children}</span>;
}
