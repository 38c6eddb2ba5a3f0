// Prints graphs and diagnostics of the `.fuse` importer as text that tests compare.

import type { Diagnostic, QuickFix } from '../../../compiler/diagnostics';
import type { AttrValue, Graph, Tensor } from '../../../compiler/graph/graph';
import { printIndex, printShape } from '../../../compiler/ir/indexExpr';

export function printGraph(g: Graph): string[] {
  const lines: string[] = [];
  for (const [name, value] of g.dims) lines.push(`dim ${name} = ${value}`);
  for (const t of g.tensors.values()) if (t.role !== 'result') lines.push(printTensor(t));
  for (const n of g.nodes) {
    const attrs = Object.entries(n.attrs).map(([k, v]) => ` ${k}=${printAttr(v)}`);
    const operands = n.operands.map((o) => o ?? '-').join(', ');
    const bad = n.unsupported === undefined ? '' : ' unsupported';
    lines.push(`${n.id}: ${n.results.join(', ')} = ${n.op}(${operands})${attrs.join('')}${bad}`);
  }
  for (const o of g.outputs) lines.push(`output ${o.name} = ${o.tensor}`);
  return lines;
}

function printTensor(t: Tensor): string {
  const type = t.type ? `${t.type.dtype}${printShape(t.type.shape)}` : '?';
  const data =
    t.data?.kind === 'numbers'
      ? ` = ${t.data.values.join(' ')}`
      : t.data?.kind === 'fill'
        ? ` = all ${t.data.value}`
        : '';
  return `${t.role} ${t.id}: ${type}${data}${t.weak ? ' weak' : ''}`;
}

function printAttr(v: AttrValue | undefined): string {
  if (typeof v !== 'object') return String(v);
  if ('dims' in v) return `[${v.dims.map(printIndex).join(', ')}]`;
  if ('tensor' in v) return 'tensor';
  return `[${v.join(', ')}]`;
}

/** `error UNKNOWN_OP 2:5`, with lines and columns from 1 as people count them. */
export function printDiagnostics(all: readonly Diagnostic[]): string[] {
  return all.map((d) => {
    const at = d.range ? ` ${d.range.start.line + 1}:${d.range.start.column + 1}` : '';
    return `${d.severity} ${d.code}${at}`;
  });
}

/** The text after a quick fix, as an editor would make it. */
export function applyFix(text: string, fix: QuickFix): string {
  const lineStarts = [0];
  for (const m of text.matchAll(/\n/g)) lineStarts.push(m.index + 1);
  const offset = (p: { line: number; column: number }): number =>
    (lineStarts[p.line] ?? text.length) + p.column;
  const edits = [...fix.edits].sort((a, b) => offset(b.range.start) - offset(a.range.start));
  let out = text;
  for (const { range, newText } of edits) {
    out = out.slice(0, offset(range.start)) + newText + out.slice(offset(range.end));
  }
  return out;
}
