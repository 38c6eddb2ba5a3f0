/**
 * Structural signatures: what a compute, and a group of computes, does, with all names taken out.
 *
 * Networks repeat themselves: the hundredth block asks the same questions as the first. Groups with
 * equal keys have equal schedules, prices and verdicts, whatever their values are called, so that
 * each question is answered once (see memo.ts).
 *
 * Vocabulary
 *  - *signature* of a compute: its dims, monoid, types and body, with the values that it loads
 *    numbered in the order in which they first occur, and the types of those values.
 *  - *literal*: a number of the body, such as a scale or a bias, that most schedules don't depend on: it
 *    is taken out as names are. Which literals of a group are equal is part of its key, since equal code
 *    is shared; what they are is so only where the scheduler has looked at them (see memo.ts).
 *  - *slices*: values that lie in others' buffers; where they lie is part of a group's key.
 *  - *numbering* of a group: its members' values and origins, numbered in the order in which they
 *    first occur; two groups with one key correspond by it, value for value.
 */
import { type DType, isFloat } from '../graph/dtype';
import type { Compute, Program, Value } from '../ir/compute';
import type { Expr, ValueId } from '../ir/expr';
import type { Atom, IndexExpr } from '../ir/indexExpr';
import { type Slices, sliceText } from '../schedule/slices';
import { Recall } from './memory';

export interface Signature {
  /** Equal where all but the literals is, within one program and what its compilation recalls. */
  readonly id: number;
  /** In the order of the text. */
  readonly literals: readonly number[];
  /** Numbers (in the program) of the values loaded, in the order of the signature's numbering. */
  readonly loads: readonly number[];
  /** Number of the value defined. */
  readonly value: number;
  /** Numbers of the L0 nodes it comes from. */
  readonly origin: readonly number[];
}

/** What the signature of a compute with some body was. */
export interface PrintedBody {
  readonly of: Compute;
  readonly loads: readonly ValueId[];
  readonly types: readonly (Value | undefined)[];
  readonly text: string;
  /** The number of the text. */
  readonly id: number;
  readonly literals: readonly number[];
}

export class Signatures {
  private readonly numbers = new Map<ValueId, number>();
  private readonly values: ValueId[] = [];
  private readonly originOf = new Map<string, number>();
  private readonly origins: string[] = [];
  private readonly known: (Signature | undefined)[];
  /** Numbering of the group at hand: a value's place holds when its stamp is the present one. */
  private valueStamp: Int32Array;
  private valuePlace: Int32Array;
  private originStamp: Int32Array;
  private originPlace: Int32Array;
  private stamp = 0;
  /** Different literals of the group at hand, in the order in which they occur. */
  private readonly met: number[] = [];
  /** The key in the making: UTF-16 units, and how many there are. */
  private units = new Uint16Array(1024);
  private length = 0;

  constructor(
    readonly program: Program,
    private readonly recall = new Recall(),
  ) {
    for (const v of program.values.keys()) this.numberOf(v);
    for (const c of program.computes) {
      this.numberOf(c.value);
      for (const o of c.origin) {
        if (this.originOf.has(o)) continue;
        this.originOf.set(o, this.origins.length);
        this.origins.push(o);
      }
    }
    this.known = new Array<Signature | undefined>(program.computes.length);
    this.valueStamp = new Int32Array(this.values.length);
    this.valuePlace = new Int32Array(this.values.length);
    this.originStamp = new Int32Array(this.origins.length);
    this.originPlace = new Int32Array(this.origins.length);
  }

  numberOf(v: ValueId): number {
    let n = this.numbers.get(v);
    if (n === undefined) {
      n = this.values.length;
      this.numbers.set(v, n);
      this.values.push(v);
    }
    return n;
  }

  valueId(n: number): ValueId {
    return this.values[n] ?? '';
  }

  originId(n: number): string {
    return this.origins[n] ?? '';
  }

  /** The signature of the compute at a position in the program. */
  of(position: number): Signature {
    const old = this.known[position];
    if (old) return old;
    const c = this.program.computes[position];
    if (!c) throw new Error(`no compute ${position}`);
    const s = this.make(c);
    this.known[position] = s;
    return s;
  }

  private make(c: Compute): Signature {
    const known = this.recall.body(c.body);
    const printed = known && this.isOf(known, c) ? known : this.printed(c);
    return {
      id: printed.id,
      literals: printed.literals,
      loads: printed.loads.map((v) => this.numberOf(v)),
      value: this.numberOf(c.value),
      origin: c.origin.map((o) => this.originOf.get(o) ?? 0),
    };
  }

  private printed(c: Compute): PrintedBody {
    const loads: ValueId[] = [];
    const literals: number[] = [];
    const text = this.print(c, loads, literals);
    const made: PrintedBody = {
      of: c,
      loads,
      types: loads.map((v) => this.program.values.get(v)),
      text,
      id: this.recall.numberOf(text),
      literals: literals.length === 0 ? NO_LITERALS : literals,
    };
    this.recall.keepBody(c.body, made);
    return made;
  }

  /** Whether the compute is printed as the one with that body was: with the very same parts around it. */
  private isOf({ of, loads, types }: PrintedBody, c: Compute): boolean {
    if (
      of !== c &&
      (of.dims !== c.dims ||
        of.reduce !== c.reduce ||
        of.monoid !== c.monoid ||
        of.dtype !== c.dtype ||
        of.accumulator !== c.accumulator)
    )
      return false;
    for (let i = 0; i < loads.length; i++) {
      const was = types[i];
      const now = this.program.values.get(loads[i] ?? '');
      if (was !== now && (was?.dtype !== now?.dtype || was?.shape !== now?.shape)) return false;
    }
    return true;
  }

  /** The signature of a compute in full, as people could read it: with its literals. */
  textOf(position: number): string {
    const c = this.program.computes[position];
    if (!c) throw new Error(`no compute ${position}`);
    return this.print(c, []);
  }

  /** The literals of all members as text: tells apart what one key says is equal. */
  literalsOf(members: readonly number[]): string {
    let text = '';
    for (const m of members) for (const x of this.of(m).literals) text += `${x} `;
    return text;
  }

  private print(c: Compute, loads: ValueId[], literals?: number[]): string {
    const printer = new Printer((v) => {
      const p = loads.indexOf(v);
      return p >= 0 ? p : loads.push(v) - 1;
    }, literals);
    let text = `${c.dtype} ${c.accumulator} ${monoidText(c)}`;
    for (const d of c.dims) text += ` ${d.extent.key}`;
    text += ' |';
    for (const d of c.reduce) text += ` ${d.extent.key}`;
    text += ` = ${printer.expr(c.body)}`;
    for (const v of loads) {
      const value = this.program.values.get(v);
      text += `; ${value?.dtype ?? '?'}`;
      for (const d of value?.shape ?? []) text += ` ${d.key}`;
    }
    return text;
  }

  private begin(): void {
    this.stamp++;
    if (this.valueStamp.length >= this.values.length) return;
    // Values that the program doesn't declare.
    const grow = (a: Int32Array): Int32Array => {
      const b = new Int32Array(this.values.length * 2);
      b.set(a);
      return b;
    };
    this.valueStamp = grow(this.valueStamp);
    this.valuePlace = grow(this.valuePlace);
  }

  /**
   * The key of a group: equal keys mean equal structure. `stored` tells of each member, by place in
   * `members`, whether its value must be stored.
   */
  key(members: readonly number[], stored: readonly boolean[], slices?: Slices): string {
    for (const m of members) this.of(m);
    this.begin();
    this.met.length = 0;
    const met: number[] | undefined = slices && slices.size > 0 ? [] : undefined;
    const { stamp, valueStamp, valuePlace, originStamp, originPlace } = this;
    this.length = 0;
    let values = 0;
    let origins = 0;
    for (let i = 0; i < members.length; i++) {
      const s = this.of(members[i] ?? 0);
      this.put(s.id);
      this.put(s.loads.length);
      this.put(s.origin.length);
      // By number: walking lists by iterators would be most of the work.
      const { loads, origin, literals } = s;
      for (let k = 0; k < loads.length; k++) {
        const v = loads[k] ?? 0;
        if (valueStamp[v] !== stamp) {
          valueStamp[v] = stamp;
          valuePlace[v] = values++;
          met?.push(v);
        }
        this.put(valuePlace[v] ?? 0);
      }
      if (valueStamp[s.value] !== stamp) {
        valueStamp[s.value] = stamp;
        valuePlace[s.value] = values++;
        met?.push(s.value);
      }
      this.put((valuePlace[s.value] ?? 0) * 2 + (stored[i] ? 1 : 0));
      for (let k = 0; k < origin.length; k++) {
        const o = origin[k] ?? 0;
        if (originStamp[o] !== stamp) {
          originStamp[o] = stamp;
          originPlace[o] = origins++;
        }
        this.put(originPlace[o] ?? 0);
      }
      for (let k = 0; k < literals.length; k++) {
        const x = literals[k] ?? 0;
        const place = this.met.indexOf(x);
        this.put(place < 0 ? this.met.push(x) - 1 : place);
      }
    }
    if (slices && met) this.putSlices(met, values, slices);
    return textOf(this.units.subarray(0, this.length));
  }

  private put(c: number): void {
    if (c >= 0xffff) {
      // A unit over the range marks two that follow.
      this.unit(0xffff);
      this.unit(c >>> 16);
    }
    this.unit(c & 0xffff);
  }

  private unit(c: number): void {
    if (this.length === this.units.length) {
      const more = new Uint16Array(2 * this.units.length);
      more.set(this.units);
      this.units = more;
    }
    this.units[this.length++] = c;
  }

  /** Where values of the group lie in others' buffers; those are met here at the latest, and may be slices in turn. */
  private putSlices(met: number[], count: number, slices: Slices): void {
    let values = count;
    for (let i = 0; i < met.length; i++) {
      const slice = slices.get(this.valueId(met[i] ?? 0));
      if (!slice) continue;
      // No number is written so.
      this.unit(0xffff);
      this.unit(0xffff);
      this.put(i);
      this.put(this.recall.numberOf(`slice ${sliceText(this.program, slice)}`));
      const into = this.numberOf(slice.into);
      if (this.valueStamp[into] !== this.stamp) {
        this.valueStamp[into] = this.stamp;
        this.valuePlace[into] = values++;
        met.push(into);
      }
      this.put(this.valuePlace[into] ?? 0);
    }
  }

  /** Values of a group in the order of its numbering. */
  valuesOf(members: readonly number[]): ValueId[] {
    for (const m of members) this.of(m);
    this.begin();
    const out: ValueId[] = [];
    const meet = (v: number): void => {
      if (this.valueStamp[v] === this.stamp) return;
      this.valueStamp[v] = this.stamp;
      out.push(this.valueId(v));
    };
    for (const m of members) {
      const s = this.of(m);
      s.loads.forEach(meet);
      meet(s.value);
    }
    return out;
  }

  /** L0 nodes of a group in the order of its numbering. */
  originsOf(members: readonly number[]): string[] {
    this.begin();
    const out: string[] = [];
    for (const m of members) {
      for (const o of this.of(m).origin) {
        if (this.originStamp[o] === this.stamp) continue;
        this.originStamp[o] = this.stamp;
        out.push(this.originId(o));
      }
    }
    return out;
  }
}

const NO_LITERALS: readonly number[] = [];

/** UTF-16 units as a string: a key that maps find quickly. */
function textOf(units: Uint16Array): string {
  let text = '';
  for (let i = 0; i < units.length; i += CHUNK) {
    const part: unknown = Reflect.apply(
      String.fromCharCode,
      undefined,
      units.subarray(i, i + CHUNK),
    );
    if (typeof part === 'string') text += part;
  }
  return text;
}

/** Arguments of one call, at most. */
const CHUNK = 4096;

function monoidText(c: Compute): string {
  const m = c.monoid;
  if (!m) return '-';
  return m.kind === 'argmax' || m.kind === 'argmin' ? `${m.kind}${m.last ? ' last' : ''}` : m.kind;
}

/**
 * Whether code is made the same way with any other such number in its place: not so with zero and one
 * and what isn't finite, nor with what isn't a float, since conversions of it are made when compiling.
 */
function isLiteral(value: number, dtype: DType): boolean {
  return isFloat(dtype) && Number.isFinite(value) && value !== 0 && Math.abs(value) !== 1;
}

/** Prints bodies with the values that they load replaced by numbers. */
class Printer {
  constructor(
    private readonly number: (v: ValueId) => number,
    /** Takes literals out; without it they are printed as they are. */
    private readonly literals: number[] | undefined,
  ) {}

  expr(e: Expr): string {
    switch (e.op) {
      case 'const':
        if (this.literals && isLiteral(e.value, e.dtype)) {
          this.literals.push(e.value);
          return `?:${e.dtype}`;
        }
        return `${Object.is(e.value, -0) ? '-0' : String(e.value)}:${e.dtype}`;
      case 'index':
        return `#${this.index(e.index)}:${e.dtype}`;
      case 'load': {
        let text = `%${this.number(e.value)}[`;
        for (const i of e.index) text += `${this.index(i)},`;
        return `${text}]`;
      }
      case 'unary':
        return `${e.fn}(${this.expr(e.a)})`;
      case 'binary':
        return `${e.fn}(${this.expr(e.a)},${this.expr(e.b)})`;
      case 'select':
        return `select(${this.expr(e.cond)},${this.expr(e.then)},${this.expr(e.else)})`;
      case 'when': {
        let text = 'when(';
        for (const c of e.conds)
          text += `${this.index(c.lo)}<=${this.index(c.index)}<${this.index(c.hi)}&`;
        return `${text}?${this.expr(e.then)}:${this.expr(e.else)})`;
      }
      case 'cast':
        // A literal is converted at once, and then counts as what it becomes.
        return `${e.dtype}(${e.a.op === 'const' ? this.whole.expr(e.a) : this.expr(e.a)})`;
    }
  }

  /** Prints literals as they are. */
  private get whole(): Printer {
    return this.literals ? new Printer(this.number, undefined) : this;
  }

  private index(e: IndexExpr): string {
    // Only run-time indices hold values.
    if (!e.key.includes('dyn(')) return e.key;
    let text = `(${e.c}`;
    for (const t of e.terms) {
      text += `+${t.coef}`;
      for (const f of t.factors) text += `*${this.atom(f)}`;
    }
    return `${text})`;
  }

  private atom(a: Atom): string {
    switch (a.kind) {
      case 'var':
      case 'sym':
        return a.key;
      case 'dyn':
        // Index expressions are ordered by their text, literals included.
        return `dyn(${this.whole.expr(a.expr)};${this.index(a.extent)})`;
      case 'floordiv':
      case 'mod':
      case 'min':
      case 'max':
        return `${a.kind}(${this.index(a.a)},${this.index(a.b)})`;
    }
  }
}
