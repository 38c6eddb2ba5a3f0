/**
 * `expect` lines: what the file promises of its plan, checked.
 */
import { type Diagnostic, error } from '../diagnostics';
import type { Graph, NodeId, Relation, TensorId } from '../graph/graph';
import type { Decision, ExpectationView, PlanView } from '../result';

export function checkExpectations(
  graph: Graph,
  plan: PlanView,
  decisions: readonly Decision[],
): { views: ExpectationView[]; diagnostics: Diagnostic[] } {
  const views: ExpectationView[] = [];
  const diagnostics: Diagnostic[] = [];
  if (!graph.directives.some((d) => d.kind === 'expect')) return { views, diagnostics };
  const producer = new Map<TensorId, NodeId>();
  for (const n of graph.nodes) for (const r of n.results) producer.set(r, n.id);
  const kernelsOf = (t: TensorId): string[] => {
    const n = producer.get(t);
    return n === undefined ? [] : plan.kernels.filter((k) => k.nodes.includes(n)).map((k) => k.id);
  };
  const nameOf = (t: TensorId): string => graph.tensors.get(t)?.name ?? t;
  for (const d of graph.directives) {
    if (d.kind !== 'expect') continue;
    const e = d.expectation;
    let held = false;
    let actual = '';
    let why = '';
    switch (e.kind) {
      case 'kernels':
        held = compare(plan.kernels.length, e.relation, e.count);
        actual = `${plan.kernels.length} kernels`;
        why = reasons(decisions);
        break;
      case 'bytes': {
        const bytes = plan.bytesRead + plan.bytesWritten;
        held = compare(bytes, e.relation, e.bytes);
        actual = `${bytes} bytes`;
        break;
      }
      case 'fused': {
        const sets = e.values.map(kernelsOf);
        const common = (sets[0] ?? []).filter((k) => sets.every((s) => s.includes(k)));
        held = sets.length > 0 && common.length > 0;
        actual = held
          ? `all in ${common[0] ?? ''}`
          : e.values
              .map((v, i) => `${nameOf(v)} in ${(sets[i] ?? []).join(', ') || 'no kernel'}`)
              .join('; ');
        why = held
          ? ''
          : reasons(
              decisions.filter((x) =>
                e.values.some((v) => producer.get(v) === x.to || producer.get(v) === x.from),
              ),
            );
        break;
      }
      case 'pattern': {
        const within = new Set(kernelsOf(e.value));
        const patterns = plan.kernels.filter((k) => within.has(k.id)).map((k) => k.pattern);
        held = patterns.some((p) => p === e.pattern);
        actual =
          patterns.length > 0
            ? `${nameOf(e.value)} is in a kernel of pattern ${patterns.join(', ')}`
            : `${nameOf(e.value)} is in no kernel`;
        break;
      }
    }
    views.push({ text: d.text, held, actual, ...(d.range ? { range: d.range } : {}) });
    if (!held)
      diagnostics.push(
        error(
          'EXPECTATION_FAILED',
          `'${d.text}' doesn't hold: ${actual}${why ? `. ${why}` : ''}`,
          d.range,
        ),
      );
  }
  return { views, diagnostics };
}

function compare(a: number, r: Relation, b: number): boolean {
  switch (r) {
    case '<=':
      return a <= b;
    case '<':
      return a < b;
    case '==':
      return a === b;
    case '>=':
      return a >= b;
    case '>':
      return a > b;
    case '!=':
      return a !== b;
  }
}

/** The verdicts behind a plan that is larger than hoped for: the first few, in words. */
function reasons(decisions: readonly Decision[]): string {
  const texts = [...new Set(decisions.filter((d) => !d.fused).map((d) => d.summary))];
  if (texts.length === 0) return '';
  const shown = texts.slice(0, 2).join('; ');
  return `Not fused because: ${shown}${texts.length > 2 ? `; and ${texts.length - 2} more reasons` : ''}`;
}
