/**
 * L1 as text: one line per compute, for tests, for debugging and for structural comparison.
 *
 *     c3: v3[d0:64, d1:1024] f32 = sum(r0:1024) mul(v1[d0, r0], v2[r0, d1])  # n2
 *
 * Left of the `=`: the compute, the value it defines with its loop dims, the dtype. Right: the monoid
 * with its reduction dims (and `acc f32` where sums are kept in another type), and the body. After
 * the `#`: the L0 nodes it comes from.
 */
import type { Compute, LoopDim, Monoid, Program } from './compute';
import { printExpr } from './expr';
import { printIndex } from './indexExpr';

export function printMonoid(m: Monoid): string {
  switch (m.kind) {
    case 'argmax':
    case 'argmin':
      return m.last ? `${m.kind}_last` : m.kind;
    default:
      return m.kind;
  }
}

function printDims(dims: readonly LoopDim[]): string {
  return dims.map((d) => `${d.name}:${printIndex(d.extent)}`).join(', ');
}

export function printCompute(c: Compute): string {
  let reduction = '';
  if (c.monoid) {
    const acc = c.accumulator === c.dtype ? '' : `, acc ${c.accumulator}`;
    reduction = `${printMonoid(c.monoid)}(${printDims(c.reduce)}${acc}) `;
  }
  return (
    `${c.id}: ${c.value}[${printDims(c.dims)}] ${c.dtype} = ` +
    `${reduction}${printExpr(c.body)}  # ${c.origin.join(', ')}`
  );
}

export function printProgram(program: Program): string {
  return program.computes.map(printCompute).join('\n');
}
