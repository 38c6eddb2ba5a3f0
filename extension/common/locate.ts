/** From places in the text to what stands there, and back. */
import type { SourcePosition, SourceRange } from '../../compiler/diagnostics';
import type { CompileResult, NodeView, TensorView } from '../../compiler/result';

export function contains(range: SourceRange, at: SourcePosition): boolean {
  return !isBefore(at, range.start) && !isBefore(range.end, at);
}

function isBefore(a: SourcePosition, b: SourcePosition): boolean {
  return a.line < b.line || (a.line === b.line && a.column < b.column);
}

/** Nodes whose own text holds the position, the innermost first. */
export function nodesAt(result: CompileResult, at: SourcePosition): NodeView[] {
  return result.graph.nodes
    .filter(({ range }) => range && contains(range, at))
    .sort((a, b) => (isInside(a.range, b.range) ? -1 : isInside(b.range, a.range) ? 1 : 0));
}

function isInside(inner: SourceRange | undefined, outer: SourceRange | undefined): boolean {
  return (
    inner !== undefined &&
    outer !== undefined &&
    contains(outer, inner.start) &&
    contains(outer, inner.end)
  );
}

/** What the cursor's line stands for: the op under the cursor, or else every op of the line. */
export function nodesForCursor(result: CompileResult, at: SourcePosition): NodeView[] {
  const [innermost] = nodesAt(result, at);
  return innermost ? [innermost] : nodesOnLine(result, at.line);
}

export function nodesOnLine(result: CompileResult, line: number): NodeView[] {
  return result.graph.nodes.filter(({ range }) => range?.start.line === line);
}

export function tensorAt(result: CompileResult, at: SourcePosition): TensorView | undefined {
  return result.graph.tensors.find(({ range }) => range && contains(range, at));
}
