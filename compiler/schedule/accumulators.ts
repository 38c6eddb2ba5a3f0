/**
 * Accumulators: the variables a reduction keeps, how elements and partial results get into them, and
 * the result. Serial loops use them, and templates that reduce cooperatively.
 */
import type { Compute, Monoid } from '../ir/compute';
import type { ValueId } from '../ir/expr';
import { CodeBuilder } from './codeBuilder';
import type { KExpr } from './kernelIr';
import { convert, identity, ktype, lit, MONOID_OP, narrow } from './scalars';

export interface Accumulator {
  readonly value: KExpr;
  /** Arg reductions: the position; negative before the first element. */
  readonly at?: KExpr;
}

export abstract class AccumulatingBuilder extends CodeBuilder {
  accumulator(c: Compute, monoid: Monoid, name: string): Accumulator {
    if (monoid.kind === 'argmax' || monoid.kind === 'argmin') {
      const t = ktype(c.body.dtype);
      const best = this.variable(`${name}_best`, t, identity(monoid, t));
      const at = this.variable(`${name}_at`, 'i32', lit(-1, 'i32'));
      return { value: best, at };
    }
    const t = ktype(c.accumulator);
    return { value: this.variable(name, t, identity(monoid, t)) };
  }

  accumulate(acc: Accumulator, monoid: Monoid, x: KExpr, position: () => KExpr): void {
    const depth = Math.max(acc.value.depth, x.depth);
    if (monoid.kind === 'argmax' || monoid.kind === 'argmin') {
      if (!acc.at) throw new Error('an arg reduction without a position');
      this.takeBetter(acc, monoid, { value: this.let('x', x), at: position() });
      return;
    }
    const t = acc.value.type;
    const y = convert(x, t);
    this.set(acc.value, {
      k: 'binary',
      fn: MONOID_OP[monoid.kind],
      a: acc.value,
      b: y,
      type: t,
      depth,
    });
  }

  /** Combines a second partial result into the first. */
  combine(acc: Accumulator, monoid: Monoid, other: { value: KExpr; at?: KExpr }): void {
    if ((monoid.kind === 'argmax' || monoid.kind === 'argmin') && other.at)
      this.takeBetter(acc, monoid, { value: other.value, at: other.at });
    else this.accumulate(acc, monoid, other.value, () => lit(0, 'i32'));
  }

  private takeBetter(
    acc: Accumulator,
    monoid: Monoid & { kind: 'argmax' | 'argmin' },
    x: { value: KExpr; at: KExpr },
  ): void {
    const at = acc.at;
    if (!at) return;
    const d = this.depth;
    const cmp = (fn: 'gt' | 'lt' | 'eq' | 'ge', a: KExpr, b: KExpr): KExpr => ({
      k: 'binary',
      fn,
      a,
      b,
      type: 'bool',
      depth: d,
    });
    const or = (a: KExpr, b: KExpr): KExpr => ({
      k: 'binary',
      fn: 'or',
      a,
      b,
      type: 'bool',
      depth: d,
    });
    const and = (a: KExpr, b: KExpr): KExpr => ({
      k: 'binary',
      fn: 'and',
      a,
      b,
      type: 'bool',
      depth: d,
    });
    const strictly = cmp(monoid.kind === 'argmax' ? 'gt' : 'lt', x.value, acc.value);
    const tie = and(cmp('eq', x.value, acc.value), cmp(monoid.last ? 'gt' : 'lt', x.at, at));
    const first = cmp('lt', at, lit(0, 'i32'));
    const valid = cmp('ge', x.at, lit(0, 'i32'));
    const better = and(valid, or(first, or(strictly, tie)));
    this.guarded(better, () => {
      this.set(acc.value, x.value);
      this.set(at, x.at);
    });
  }

  /** What a value is called, for names in the code. */
  protected abstract nameOf(value: ValueId): string;

  /** The reduction's result in the value's own dtype. */
  finish(c: Compute, acc: Accumulator): KExpr {
    const raw = acc.at ? this.binary('max', acc.at, lit(0, 'i32')) : acc.value;
    // A variable changes: freeze what it is now.
    const name = this.fresh(`${this.nameOf(c.value)}_r`);
    const e = narrow(convert(raw, ktype(c.dtype)), acc.at ? 'i32' : c.accumulator, c.dtype);
    this.emit({ s: 'let', name, expr: e });
    return this.ref(name, ktype(c.dtype));
  }

  private binary(fn: 'max', a: KExpr, b: KExpr): KExpr {
    return { k: 'binary', fn, a, b, type: a.type, depth: Math.max(a.depth, b.depth) };
  }
}
