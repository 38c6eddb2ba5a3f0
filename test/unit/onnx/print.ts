/**
 * An imported graph as text, for tests: a line per tensor that isn't a result, then one per node.
 */
import type { AttrValue, Graph, ImportResult, Tensor } from '../../../compiler/graph/graph';
import { printIndex } from '../../../compiler/ir/indexExpr';

export function printImport(r: ImportResult): string[] {
  return [
    ...printGraph(r.graph),
    ...r.diagnostics.map((d) => `${d.severity} ${d.code}: ${d.message}`),
  ];
}

export function printGraph(g: Graph): string[] {
  const lines: string[] = [];
  for (const t of g.tensors.values())
    if (t.role !== 'result')
      lines.push(`${t.role} ${t.id} '${t.name}' ${printType(t)}${printData(t)}`);
  for (const n of g.nodes) {
    const attrs = Object.entries(n.attrs)
      .filter(([k]) => k !== 'opset')
      .map(([k, v]) => `${k}=${printAttr(v)}`);
    const operands = n.operands.map((o) => o ?? '-').join(', ');
    const results = n.results.map((id) => {
      const t = g.tensors.get(id);
      return `${id} '${t?.name ?? '?'}'${t?.type ? ` ${printType(t)}` : ''}`;
    });
    lines.push(
      `${results.join(', ')} = ${n.unsupported === undefined ? n.op : `!${n.sourceOp}`}(${operands})` +
        (attrs.length > 0 ? ` {${attrs.join(', ')}}` : ''),
    );
  }
  for (const o of g.outputs) lines.push(`output '${o.name}' = ${o.tensor}`);
  return lines;
}

function printType(t: Tensor): string {
  return t.type ? `${t.type.dtype}[${t.type.shape.map(printIndex).join(', ')}]` : 'untyped';
}

function printData(t: Tensor): string {
  const d = t.data;
  switch (d?.kind) {
    case undefined:
      return '';
    case 'bytes':
      return ` ${d.bytes.length} bytes`;
    case 'numbers':
      return ` (${d.values.join(', ')})`;
    case 'fill':
      return ` filled with ${d.value}`;
    case 'inModel':
      return ` in the file at ${d.offset}, ${d.length} bytes${d.form === 'varints' ? ' of varints' : ''}`;
    case 'external':
      return ` at ${d.location}+${d.offset}`;
  }
}

function printAttr(v: AttrValue | undefined): string {
  if (typeof v !== 'object') return String(v);
  if ('tensor' in v) return 'tensor';
  if ('dims' in v) return `[${v.dims.map(printIndex).join(', ')}]`;
  return `[${v.join(', ')}]`;
}
