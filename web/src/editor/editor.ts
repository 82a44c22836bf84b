// The code editor of the console: CodeMirror with Python, completion of tools, signatures, and errors at their line. It
// is loaded when the console opens. It lives in a shadow root, where its styles need no exception from the page's
// policy.
import { type Completion, type CompletionContext, type CompletionResult, autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap, completionStatus } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { python, pythonLanguage } from '@codemirror/lang-python';
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorState, StateEffect, StateField } from '@codemirror/state';
import { EditorView, type Tooltip, drawSelection, highlightActiveLine, keymap, lineNumbers, placeholder, showTooltip } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { EditorHandle, EditorOptions } from './types';

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword], color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--code-comment)', fontStyle: 'italic' },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: 'var(--code-function)' },
]);

const theme = EditorView.theme({
  '&': { fontSize: '0.9rem', backgroundColor: 'var(--field)', color: 'var(--text)', border: '1px solid var(--line-strong)', borderRadius: '8px', height: '100%' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.5', minHeight: '9em', maxHeight: '50vh' },
  '.cm-content': { caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { backgroundColor: 'transparent', color: 'var(--quiet)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'var(--hover)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { backgroundColor: 'var(--selection) !important' },
  '.cm-placeholder': { color: 'var(--quiet)' },
  '.cm-tooltip': { backgroundColor: 'var(--surface)', color: 'var(--text)', border: '1px solid var(--line-strong)', borderRadius: '6px', maxWidth: 'min(40rem, 90vw)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-completionDetail': { color: 'inherit', opacity: '0.85', fontStyle: 'normal' },
  '.cm-signature': { padding: '4px 8px', fontFamily: 'var(--mono)', fontSize: '0.8rem', whiteSpace: 'pre-wrap' },
});

export function mount(host: HTMLElement, options: EditorOptions): EditorHandle {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
  const holder = document.createElement('div');
  root.replaceChildren(holder);

  const setSignature = StateEffect.define<{ at: number; text: string } | null>();
  const signature = StateField.define<Tooltip | null>({
    create: () => null,
    update(value, transaction) {
      for (const effect of transaction.effects) {
        if (!effect.is(setSignature)) continue;
        const shown = effect.value;
        if (shown === null) return null;
        return {
          pos: Math.min(shown.at, transaction.state.doc.length),
          above: true,
          create() {
            const dom = document.createElement('div');
            dom.className = 'cm-signature';
            dom.textContent = shown.text;
            return { dom };
          },
        };
      }
      return value;
    },
    provide: (field) => showTooltip.from(field),
  });

  let asked = '';
  const look = (view: EditorView) => {
    const call = enclosingCall(view.state);
    const name = call?.name ?? '';
    if (name === asked) return;
    asked = name;
    if (!call) {
      view.dispatch({ effects: setSignature.of(null) });
      return;
    }
    void options.signature(call.name).then((text) => {
      if (asked === call.name) view.dispatch({ effects: setSignature.of(text === null ? null : { at: call.at, text }) });
    });
  };

  const view = new EditorView({
    parent: holder,
    root,
    state: EditorState.create({
      doc: options.code,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        indentUnit.of('    '),
        python(),
        pythonLanguage.data.of({ autocomplete: (context: CompletionContext) => complete(context, options) }),
        autocompletion({ icons: false }),
        lintGutter(),
        syntaxHighlighting(colours),
        theme,
        signature,
        placeholder(options.placeholder),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': options.label }),
        keymap.of([
          { key: 'Mod-Enter', run: (view) => (closeCompletion(view), options.onRun(), true), preventDefault: true },
          { key: 'Shift-Enter', run: () => (options.onRun(), true) },
          {
            key: '+',
            run: (view) => {
              const line = view.state.doc.lineAt(view.state.selection.main.head);
              if (line.text.trim() !== '') return false;
              options.onPlus();
              return true;
            },
          },
          // After Escape, Tab leaves the editor, so that keyboard focus is never trapped. Completions are closed first.
          { key: 'Escape', run: (view) => (completionStatus(view.state) === 'active' ? closeCompletion(view) : (view.contentDOM.blur(), true)) },
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...historyKeymap,
          ...defaultKeymap,
          indentWithTab,
        ]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) options.onChange(update.state.doc.toString());
          if (update.docChanged || update.selectionSet) queueMicrotask(() => look(update.view));
        }),
      ],
    }),
  });

  return {
    code: () => view.state.doc.toString(),
    setCode(code) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: code }, selection: { anchor: code.length } });
    },
    insert(text) {
      const { from, to } = view.state.selection.main;
      const inside = text.endsWith('()') ? text.length - 1 : text.length;
      view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + inside } });
      view.focus();
    },
    showError(line, message) {
      const diagnostics: Diagnostic[] = [];
      if (line !== null && line >= 1 && line <= view.state.doc.lines) {
        const { from, to } = view.state.doc.line(line);
        diagnostics.push({ from, to, severity: 'error', message });
      }
      view.dispatch(setDiagnostics(view.state, diagnostics));
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}

const MAX_LOOKBACK = 2_000;

/** The call around the cursor: `pack.function(` without its closing parenthesis. */
function enclosingCall(state: EditorState): { name: string; at: number } | null {
  const head = state.selection.main.head;
  const start = Math.max(0, head - MAX_LOOKBACK);
  const text = state.sliceDoc(start, head);
  let depth = 0;
  for (let index = text.length - 1; index >= 0; index -= 1) {
    const character = text[index];
    if (character === ')') depth += 1;
    else if (character === '(') {
      if (depth === 0) {
        const name = /[A-Za-z_]\w*\.[A-Za-z_]\w*$/.exec(text.slice(0, index))?.[0];
        return name ? { name, at: start + index - name.length } : null;
      }
      depth -= 1;
    }
  }
  return null;
}

async function complete(context: CompletionContext, options: EditorOptions): Promise<CompletionResult | null> {
  const member = context.matchBefore(/[A-Za-z_]\w*\.\w*/);
  if (member) {
    const [pack = '', typed = ''] = member.text.split('.');
    const functions = options.functions(pack);
    if (functions.length === 0) return null;
    return { from: member.to - typed.length, options: functions.map(({ name, summary }) => ({ label: name, detail: summary, type: 'function', apply: applyCall(name) })), validFor: /^\w*$/ };
  }
  const word = context.matchBefore(/\w+/);
  if (!word && !context.explicit) return null;
  const found: Completion[] = options.packs().map(({ name, summary }) => ({ label: name, detail: summary, type: 'namespace' }));
  const call = enclosingCall(context.state);
  if (call) {
    for (const name of await options.parameters(call.name)) found.unshift({ label: name, apply: `${name}=`, detail: '=', type: 'property', boost: 10 });
  }
  return { from: word?.from ?? context.pos, options: found, validFor: /^\w*$/ };
}

function applyCall(name: string) {
  return (view: EditorView, _completion: Completion, from: number, to: number) => {
    view.dispatch({ changes: { from, to, insert: `${name}()` }, selection: { anchor: from + name.length + 1 } });
  };
}
