/**
 * Help while a `.fuse` text is typed: what may stand at the cursor, and the signature of the call
 * that it is in. It works on the cursor's line alone, which is seldom complete.
 */
import type { SourcePosition } from '../../diagnostics';
import { fuseFormsByName, fuseNames } from '../../ops/index';
import { KEYWORDS } from './ast';
import type { SymbolKind } from './binder';
import { signature, signatureParam, type FormChoice } from './calls';
import { PATTERNS } from '../../fusion/verdicts';
import { EXPECTATIONS } from './directives';
import { lex, type Token } from './lexer';
import { outlineFuse } from './outline';
import { DTYPE_NAMES, dtypeOf } from './values';

export interface Suggestion {
  readonly kind: 'keyword' | 'op' | 'argument' | 'dtype' | 'word' | SymbolKind;
  readonly label: string;
  readonly detail: string;
  readonly documentation?: string;
}

/** What may stand at the position, by what stands before it; the editor filters by what is typed. */
export function suggestionsAt(source: string, position: SourcePosition): Suggestion[] {
  const line = tokensBefore(source, position);
  const [first, second] = line;
  const last = line[line.length - 1];
  // The word being typed isn't context.
  const typing = last?.kind === 'name' && last.column + last.text.length >= position.column ? 1 : 0;
  const before = line.slice(0, line.length - typing);
  if (before.length === 0) return KEYWORDS.map((k) => ({ kind: 'keyword', label: k, detail: '' }));
  const names = definedSymbols(source);
  const keyword = first?.kind === 'name' && second?.text !== '=' ? first.text : undefined;
  switch (keyword) {
    case 'input':
    case 'param':
    case 'const': {
      if (before[before.length - 1]?.text === ':') return dtypeSuggestions();
      if (keyword !== 'const' || !before.some((t) => t.text === '=')) {
        return names.filter((n) => n.kind === 'dim' && before.some((t) => t.text === '['));
      }
      break;
    }
    case 'dim':
      return names.filter((n) => n.kind === 'dim');
    case 'expect':
      if (before.length === 1)
        return EXPECTATIONS.map((label) => ({ kind: 'word', label, detail: '' }));
      if (second?.text === 'pattern' && before.some((t) => t.text === '=')) {
        return PATTERNS.map((label) => ({ kind: 'word', label, detail: '' }));
      }
      return second?.text === 'kernels' || second?.text === 'bytes'
        ? []
        : names.filter((n) => n.kind === 'value');
    case 'output':
    case 'materialize':
    case 'recompute':
    case 'nofuse':
    case 'fuse':
    case 'schedule':
      return before.some((t) => t.text === '{') ? [] : names.filter((n) => n.kind === 'value');
    default:
      break;
  }
  const call = openCall(before);
  return [
    ...(call ? argumentSuggestions(call.name) : []),
    ...names,
    ...fuseNames().map((label) => opSuggestion(label)),
    ...(call ? dtypeSuggestions() : []),
  ];
}

function dtypeSuggestions(): Suggestion[] {
  return DTYPE_NAMES.filter((t) => dtypeOf(t) === t).map((label) => ({
    kind: 'dtype',
    label,
    detail: 'element type',
  }));
}

function definedSymbols(source: string): Suggestion[] {
  const seen = new Set<string>();
  const out: Suggestion[] = [];
  for (const s of outlineFuse(source)) {
    if (s.kind === 'output' || s.kind === 'directive' || seen.has(s.name)) continue;
    seen.add(s.name);
    out.push({ kind: s.kind, label: s.name, detail: s.detail });
  }
  return out;
}

function opSuggestion(label: string): Suggestion {
  const form = fuseFormsByName(label)[0]?.form;
  return form
    ? { kind: 'op', label, detail: signature(form, label), documentation: form.doc }
    : { kind: 'op', label, detail: '' };
}

function argumentSuggestions(op: string): Suggestion[] {
  const seen = new Set<string>();
  const out: Suggestion[] = [];
  for (const { form } of fuseFormsByName(op)) {
    for (const p of form.params) {
      if (seen.has(p.name)) continue;
      seen.add(p.name);
      out.push({
        kind: 'argument',
        label: `${p.name}=`,
        detail: `${p.kind} of ${op}: ${signatureParam(p)}`,
      });
    }
  }
  return out;
}

/** The tokens of the position's line up to it; nothing inside a comment. */
function tokensBefore(source: string, position: SourcePosition): Token[] {
  const line = source.split(/\r\n|\r|\n/, position.line + 1)[position.line] ?? '';
  return lex(line.slice(0, position.column)).tokens.filter(
    (t) => t.kind !== 'end' && t.kind !== 'newline',
  );
}

/** The innermost call that is still open at the end of the tokens, and which argument it is at. */
function openCall(tokens: readonly Token[]): { name: string; argument: number } | undefined {
  let depth = 0;
  let argument = 0;
  for (let i = tokens.length - 1; i >= 0; i--) {
    const t = tokens[i];
    if (t?.kind !== 'punctuation') continue;
    if (t.text === ')' || t.text === ']') depth++;
    else if (t.text === ',' && depth === 0) argument++;
    else if (t.text === '(' || t.text === '[') {
      if (depth-- > 0) continue;
      depth = 0;
      const name = tokens[i - 1];
      if (t.text === '(' && name?.kind === 'name') return { name: name.text, argument };
      // A list or a bracket within the call: its commas aren't the call's.
      argument = 0;
    }
  }
  return undefined;
}

export interface CallHelp {
  readonly op: string;
  /** One for each form of the name. */
  readonly forms: readonly {
    readonly label: string;
    readonly params: readonly string[];
    readonly doc: string;
  }[];
  readonly activeParameter: number;
}

/** The signature of the call that the position is in. */
export function callHelpAt(source: string, position: SourcePosition): CallHelp | undefined {
  const tokens = tokensBefore(source, position);
  const call = openCall(tokens);
  const forms: readonly FormChoice[] = call ? fuseFormsByName(call.name) : [];
  if (!call || forms.length === 0) return undefined;
  return {
    op: call.name,
    forms: forms.map(({ form }) => ({
      label: signature(form, call.name),
      params: form.params.map(signatureParam),
      doc: form.doc,
    })),
    activeParameter: call.argument,
  };
}
