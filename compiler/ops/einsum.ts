/**
 * Einsum: any sum of products over named dims.
 *
 * Vocabulary
 *  - *term*: the letters of one operand, one a dim; `...` stands for the dims that broadcast.
 *  - *label*: a letter, or one of the dims that `...` stands for (counted from the last).
 *
 * Labels of the output are parallel dims, all others are reduction dims. A label that occurs twice
 * in one term reads the diagonal.
 */
import { cast } from '../ir/expr';
import * as I from '../ir/indexExpr';
import type { Dim, IndexExpr } from '../ir/indexExpr';
import type { LowerContext, LTensor } from './op';
import { at, product, sumOfProducts, wide } from './products';
import { promote } from './shared';

interface Equation {
  readonly terms: readonly (readonly string[])[];
  readonly output: readonly string[] | undefined;
}

function parse(ctx: LowerContext, text: string): Equation {
  const clean = text.replace(/\s+/g, '');
  const parts = clean.split('->');
  const [left, right] = parts;
  if (parts.length > 2 || left === undefined) {
    ctx.fail('BAD_ATTRIBUTE', `the equation '${text}' has more than one '->'`);
  }
  return {
    terms: left.split(',').map((t) => letters(ctx, text, t)),
    output: right === undefined ? undefined : letters(ctx, text, right),
  };
}

function letters(ctx: LowerContext, equation: string, term: string): string[] {
  const found = term.match(/\.\.\.|[A-Za-z]/g) ?? [];
  if (found.join('') !== term || found.filter((f) => f === '...').length > 1) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `'${term}' in the equation '${equation}' must be letters, with at most one '...'`,
    );
  }
  return found;
}

/** The labels of the dims of an operand: `...` becomes one label per dim it covers. */
function labelsOf(
  ctx: LowerContext,
  equation: string,
  term: readonly string[],
  t: LTensor,
): string[] {
  const named = term.filter((l) => l !== '...').length;
  const covered = t.shape.length - named;
  const wild = term.includes('...');
  if (covered < 0 || (covered > 0 && !wild)) {
    ctx.fail(
      'SHAPE_MISMATCH',
      `in '${equation}' the term '${term.join('')}' names ${named} dims, but its operand has shape ${I.printShape(t.shape)}`,
    );
  }
  return term.flatMap((l) =>
    l === '...' ? Array.from({ length: covered }, (_, i) => `.${covered - 1 - i}`) : [l],
  );
}

export function lowerEinsum(ctx: LowerContext): LTensor {
  const text = ctx.str('equation');
  const equation = parse(ctx, text);
  const operands = Array.from({ length: ctx.arity }, (_, i) => ctx.input(i));
  if (equation.terms.length !== operands.length) {
    ctx.fail(
      'BAD_ATTRIBUTE',
      `the equation '${text}' has ${equation.terms.length} terms for ${operands.length} operands`,
    );
  }
  const labels = operands.map((t, i) => labelsOf(ctx, text, at(equation.terms, i), t));
  const extents = new Map<string, Dim>();
  const order: string[] = [];
  const occurrences = new Map<string, number>();
  labels.forEach((own, i) => {
    own.forEach((label, d) => {
      occurrences.set(label, (occurrences.get(label) ?? 0) + 1);
      const extent = at(at(operands, i).shape, d);
      const known = extents.get(label);
      if (known === undefined) order.push(label);
      if (known === undefined || I.isConst(known, 1)) extents.set(label, extent);
      else if (!I.isConst(extent, 1)) {
        ctx.requireEqual(known, extent, `the dims named '${label}' in '${text}'`);
      }
    });
  });
  const wild = order
    .filter((l) => l.startsWith('.'))
    .sort((a, b) => Number(b.slice(1)) - Number(a.slice(1)));
  const output = equation.output
    ? equation.output.flatMap((l) => (l === '...' ? wild : [l]))
    : [...wild, ...order.filter((l) => !l.startsWith('.') && occurrences.get(l) === 1).sort()];
  const missing = output.find((l) => !extents.has(l));
  if (missing !== undefined) {
    ctx.fail('BAD_ATTRIBUTE', `'${missing}' in the output of '${text}' is in none of the terms`);
  }
  if (new Set(output).size !== output.length) {
    ctx.fail('BAD_ATTRIBUTE', `the output of '${text}' names a dim twice`);
  }
  const summed = order.filter((l) => !output.includes(l));
  const extentOf = (l: string): Dim => extents.get(l) ?? I.num(1);
  const dtype = promote(operands);
  const shape = output.map(extentOf);
  const factors = (position: ReadonlyMap<string, IndexExpr>) =>
    operands.map((t, i) =>
      t.at(
        at(labels, i).map((l, d) =>
          I.isConst(at(t.shape, d), 1) ? I.num(0) : (position.get(l) ?? I.num(0)),
        ),
      ),
    );
  if (summed.length === 0) {
    return ctx.pointwise(shape, dtype, (index) => {
      const position = new Map(output.map((l, i) => [l, at(index, i)]));
      const acc = wide(dtype);
      return cast(product(factors(position).map((f) => cast(f, acc))), dtype);
    });
  }
  return sumOfProducts(ctx, { shape, over: summed.map(extentOf), dtype }, (index, over) =>
    factors(
      new Map([
        ...output.map((l, i): [string, IndexExpr] => [l, at(index, i)]),
        ...summed.map((l, i): [string, IndexExpr] => [l, at(over, i)]),
      ]),
    ),
  );
}
