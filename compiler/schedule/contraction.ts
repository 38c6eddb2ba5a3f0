/** Which reductions are products of matrices (or convolutions), and how such a kernel is blocked. */
import type { Compute } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { IndexExpr } from '../ir/indexExpr';
import type { DeviceProfile } from '../result';
import { bound, boundElements, type GroupSpec, visitLoads } from './group';
import { type LoopPlan, spaceVars } from './loop';
import { type ContractionTile, contractionTile } from './tiles';

/** A reduction whose operands are each shared by many of its results: matmul, convolution. */
export function isContraction(c: Compute): boolean {
  return contractionDims(c) !== undefined;
}

/**
 * For a sum of products: the two parallel dims to block in registers. Each of two operands is
 * independent of one of them, so that a block of A×B results loads A + B elements.
 */
export function contractionDims(c: Compute): { row: number; column: number } | undefined {
  if (c.monoid?.kind !== 'sum' || c.dims.length < 2) return undefined;
  const uses: boolean[][] = [];
  visitLoads(c.body, (l) => {
    const names = new Set<string>();
    for (const i of l.index) I.visitAtoms(i, (a) => a.kind === 'var' && names.add(a.name));
    if (![...names].some((n) => n.startsWith('r'))) return;
    uses.push(c.dims.map((d) => names.has(d.name)));
  });
  if (uses.length < 2) return undefined;
  const big = (i: number): boolean => !I.isConst(c.dims[i]?.extent ?? I.num(1), 1);
  for (let column = c.dims.length - 1; column >= 0; column--) {
    if (!big(column)) continue;
    for (let row = c.dims.length - 1; row >= 0; row--) {
      if (row === column || !big(row)) continue;
      const onlyColumn = uses.some((u) => u[column] && !u[row]);
      const onlyRow = uses.some((u) => u[row] && !u[column]);
      if (onlyColumn && onlyRow) return { row, column };
    }
  }
  return undefined;
}

/** The register tile over the space in which the group's contraction is blocked, when its index is the space's. */
export function blocking(
  group: GroupSpec,
  plan: LoopPlan,
  device: DeviceProfile,
): { sizes: number[]; row: number; column: number; tile: ContractionTile } | undefined {
  const main = group.members.find((m) => contractionDims(m) !== undefined);
  if (!main) return undefined;
  const dims = contractionDims(main);
  if (!dims) return undefined;
  // Where the contraction's dims are in the space: element for element, or by a permutation.
  const map = indexFromSpace(group, plan, main);
  if (!map) return undefined;
  const sizes = plan.space.map(() => 1);
  const vars = spaceVars(plan.space);
  const where = (dim: number): number => vars.findIndex((v) => v.key === map[dim]?.key);
  const row = where(dims.row);
  const column = where(dims.column);
  if (row < 0 || column < 0) return undefined;
  const size = (i: number): number => bound(group.program, plan.space[i] ?? I.num(1));
  const tile = contractionTile(
    size(row),
    size(column),
    boundElements(group.program, plan.space),
    device,
  );
  sizes[row] = tile.row;
  sizes[column] = tile.column;
  return { sizes, row, column, tile };
}

/** The index of `c`'s value over the space's variables, by following one chain of reads from the primary output. */
export function indexFromSpace(
  group: GroupSpec,
  plan: LoopPlan,
  c: Compute,
): readonly IndexExpr[] | undefined {
  const byValue = new Map(group.members.map((m) => [m.value, m]));
  const at = new Map<ValueId, readonly IndexExpr[]>();
  for (const s of plan.stores) at.set(s.value, s.point);
  for (const m of [...group.members].reverse()) {
    const point = at.get(m.value);
    if (!point) continue;
    if (m === c) return point;
    const env = new Map(m.dims.map((d, i) => [d.name, point[i] ?? I.num(0)]));
    visitLoads(m.body, (l) => {
      if (at.has(l.value) || !byValue.has(l.value)) return;
      at.set(
        l.value,
        l.index.map((i) => I.rewrite(i, (a) => (a.kind === 'var' ? env.get(a.name) : undefined))),
      );
    });
  }
  return at.get(c.value);
}
