/**
 * `x[:, 0, 1:n]` of `.fuse`, as PyTorch reads it; and a dim's size as a number to calculate with.
 *
 * Vocabulary
 *  - *item*: what stands between two commas. As an attribute: `:` and its variants (`a:`, `:b`,
 *    `a:b`), `at` a place, which drops the dim, `new` a dim of 1, `...` all dims that the others
 *    leave, `pick` the places that a tensor of integers holds.
 *  - `bounds`: the numbers of `a`, `b` and `at` in their order; `steps`: one for each range.
 *
 * All but `pick` are index maps.
 */
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import { gather } from './gather';
import type { LowerContext, LTensor, OpDef } from './op';
import { at } from './products';
import { sizesOf } from './shared';
import { type Cut, cutOf, cutView } from './slicing';

/** What becomes of one dim of the operand, or a new dim. */
type Item =
  | { readonly kind: 'keep' }
  | { readonly kind: 'at'; readonly place: Dim }
  | { readonly kind: 'new' }
  | { readonly kind: 'pick'; readonly operand: number };

function lowerIndex(ctx: LowerContext): LTensor {
  const x = ctx.input(0);
  const rank = x.shape.length;
  const given = ctx.node.attrs['items'];
  const texts = Array.isArray(given) ? given.map(String) : [];
  const bounds = [...(sizesOf(ctx, -1, 'bounds') ?? [])];
  const steps = [...ctx.ints('steps', [])];
  const taken = texts.filter((t) => t !== 'new' && t !== '...').length;
  if (taken > rank)
    ctx.fail(
      'BAD_INDEX',
      `${taken} dims are indexed, but ${I.printShape(x.shape)} has ${rank === 1 ? 'one' : rank}`,
    );
  const cuts: Cut[] = [];
  const items: Item[] = [];
  let axis = 0;
  let operand = 1;
  const rest = (): void => {
    for (let i = 0; i < rank - taken; i++, axis++) items.push({ kind: 'keep' });
  };
  for (const text of texts) {
    if (text === '...') {
      rest();
      continue;
    }
    if (text === 'new') {
      items.push({ kind: 'new' });
      continue;
    }
    const dim = at(x.shape, axis);
    if (text === 'at') {
      items.push({ kind: 'at', place: placeOf(ctx, bounds.shift() ?? I.num(0), dim, axis) });
    } else if (text === 'pick') {
      items.push({ kind: 'pick', operand: operand++ });
    } else {
      const start = text.startsWith('a') ? bounds.shift() : undefined;
      const stop = text.endsWith('b') ? bounds.shift() : undefined;
      const step = steps.shift() ?? 1;
      if (step === 0) ctx.fail('BAD_INDEX', `the step along dim ${axis} is 0`);
      if (start || stop || step !== 1) cuts.push(cutOf(axis, dim, start, stop, step));
      items.push({ kind: 'keep' });
    }
    axis++;
  }
  if (!texts.includes('...')) rest();

  let y = droppedAndAdded(ctx, cuts.length > 0 ? cutView(ctx, x, cuts) : x, items);
  const picks = items.filter((i) => i.kind !== 'at');
  // From the last to the first, so that the axes before stay where they are.
  for (let k = picks.length - 1; k >= 0; k--) {
    const p = picks[k];
    if (p?.kind === 'pick') y = gather(ctx, y, ctx.input(p.operand), k);
  }
  return y;
}

/** The place along a dim, counted from the end where it is negative. */
function placeOf(ctx: LowerContext, place: Dim, dim: Dim, axis: number): Dim {
  const fromEnd = I.upperBound(place) < 0;
  const p = fromEnd ? I.add(place, dim) : place;
  if (I.upperBound(p) < 0 || I.lowerBound(I.sub(p, dim)) >= 0)
    ctx.fail(
      'BAD_INDEX',
      `there is no place ${I.printIndex(place)} along dim ${axis}, which has ${I.printIndex(dim)}`,
    );
  return p;
}

function droppedAndAdded(ctx: LowerContext, x: LTensor, items: readonly Item[]): LTensor {
  if (items.every((i) => i.kind === 'keep' || i.kind === 'pick')) return x;
  const shape: Dim[] = [];
  let axis = 0;
  for (const i of items) {
    if (i.kind === 'new') shape.push(I.num(1));
    else if (i.kind === 'at') axis++;
    else shape.push(at(x.shape, axis++));
  }
  return ctx.view(shape, x, (index) => {
    const source: IndexExpr[] = [];
    let next = 0;
    for (const i of items) {
      if (i.kind === 'new') next++;
      else source.push(i.kind === 'at' ? i.place : at(index, next++));
    }
    return source;
  });
}

export const subscriptOps: readonly OpDef[] = [
  { name: 'index', lower: lowerIndex },
  {
    name: 'dim',
    lower: (ctx) =>
      ctx.constant(
        { dtype: 'i64', shape: [] },
        sizesOf(ctx, -1, 'size') ?? ctx.fail('BAD_ATTRIBUTE', 'the size is missing'),
      ),
  },
];
