/**
 * The verifier of L1: what every pass may rely on. It returns the faults it finds as text, each with
 * the compute it stands in; an empty list means a sound program. A fault is a bug in the pass that
 * made the program, never a mistake of the user.
 *
 * Checked: topological order; that every name used is bound (values, loop variables, sizes); ranks
 * and dtypes; that a monoid goes with reduction dims; that loads stay in range, either provably or
 * under a `when`; that constants have as many elements as their shape.
 */
import { contentBytes, isFloat, isInteger, type DType } from '../graph/dtype';
import type { Compute, LoopDim, Program, Value } from './compute';
import { isComparison, unaryDtype, type Expr, type IndexCond, type ValueId } from './expr';
import {
  add,
  constOf,
  lowerBound,
  loopVar,
  num,
  printIndex,
  product,
  provablyLe,
  provablyNonNegative,
  rewrite,
  upperBound,
  type Atom,
  type IndexExpr,
  type LeafRewrite,
} from './indexExpr';

export function verifyProgram(program: Program): string[] {
  const faults: string[] = [];
  for (const v of program.values.values()) checkValue(program, v, faults);
  checkEnds(program, faults);
  const known = new Set<ValueId>();
  for (const v of program.values.values()) if (v.role !== 'computed') known.add(v.id);
  const ids = new Set<string>();
  for (const c of program.computes) {
    if (ids.has(c.id)) faults.push(`${c.id}: the id is used twice`);
    ids.add(c.id);
    new ComputeCheck(program, c, known, faults).run();
    if (known.has(c.value)) faults.push(`${c.id}: ${c.value} is defined twice or is no result`);
    known.add(c.value);
  }
  for (const v of program.values.values())
    if (!known.has(v.id)) faults.push(`${v.id}: no compute defines it`);
  return faults;
}

function checkEnds(program: Program, faults: string[]): void {
  for (const id of program.inputs) {
    const role = program.values.get(id)?.role;
    if (role !== 'input' && role !== 'param')
      faults.push(`input ${id}: its role is ${role ?? 'unknown'}`);
  }
  const size = (shape: readonly IndexExpr[]): string =>
    rewrite(product(shape), bindSizes(program)).key;
  for (const o of program.outputs) {
    const value = program.values.get(o.value);
    if (!value) faults.push(`output ${o.name}: there is no value ${o.value}`);
    else if (size(value.shape) !== size(o.shape))
      faults.push(
        `output ${o.name}: ${size(o.shape)} elements, its value has ${size(value.shape)}`,
      );
  }
}

function checkValue(program: Program, v: Value, faults: string[]): void {
  for (const d of v.shape) {
    for (const a of atomsOf(d)) {
      if (a.kind === 'sym' && !program.dims.has(a.name))
        faults.push(`${v.id}: the size ${a.name} has no value`);
      if (a.kind === 'var' || a.kind === 'dyn')
        faults.push(`${v.id}: the shape depends on ${a.kind === 'var' ? a.name : 'data'}`);
    }
  }
  const { data } = v;
  if (!data) {
    if (v.role === 'const') faults.push(`${v.id}: a constant without contents`);
    return;
  }
  if (v.role !== 'const' && v.role !== 'param') faults.push(`${v.id}: a ${v.role} has contents`);
  const elements = constOf(rewrite(product(v.shape), bindSizes(program)));
  if (elements === undefined) return;
  const bytes = contentBytes(v.dtype, elements);
  switch (data.kind) {
    case 'bytes':
      if (data.bytes.byteLength !== bytes)
        faults.push(`${v.id}: ${data.bytes.byteLength} bytes of contents instead of ${bytes}`);
      return;
    case 'numbers':
      if (data.values.length !== elements)
        faults.push(`${v.id}: ${data.values.length} elements of contents instead of ${elements}`);
      return;
    case 'external':
      if (data.length !== undefined && data.length !== bytes)
        faults.push(`${v.id}: ${data.length} bytes of external contents instead of ${bytes}`);
      return;
    case 'inModel':
      if (data.form === 'elements' && data.length !== bytes)
        faults.push(`${v.id}: ${data.length} bytes of contents in the model instead of ${bytes}`);
      return;
    case 'fill':
      return;
  }
}

function bindSizes(program: Program): LeafRewrite {
  const bind: LeafRewrite = (a) => {
    switch (a.kind) {
      case 'sym': {
        const n = program.dims.get(a.name);
        return n === undefined ? undefined : num(n);
      }
      case 'var':
        return loopVar(a.name, rewrite(a.extent, bind));
      default:
        return undefined;
    }
  };
  return bind;
}

/** All atoms, those inside divisions too (not those inside dynamic indices). */
function atomsOf(e: IndexExpr): Atom[] {
  const out: Atom[] = [];
  const go = (x: IndexExpr): void => {
    for (const t of x.terms)
      for (const f of t.factors) {
        out.push(f);
        if (f.kind !== 'var' && f.kind !== 'sym' && f.kind !== 'dyn') {
          go(f.a);
          go(f.b);
        }
      }
  };
  go(e);
  return out;
}

class ComputeCheck {
  private readonly vars = new Map<string, LoopDim>();
  private readonly bind: LeafRewrite;

  constructor(
    private readonly program: Program,
    private readonly c: Compute,
    private readonly known: ReadonlySet<ValueId>,
    private readonly faults: string[],
  ) {
    this.bind = bindSizes(program);
  }

  run(): void {
    const { c } = this;
    const value = this.program.values.get(c.value);
    if (!value) this.fault(`there is no value ${c.value}`);
    else this.checkDefinition(value);
    if (c.origin.length === 0 && !this.program.outputs.some((o) => o.value === c.value))
      this.fault('it has no origin');
    for (const d of [...c.dims, ...c.reduce]) {
      if (this.vars.has(d.name)) this.fault(`the dim ${d.name} occurs twice`);
      for (const a of atomsOf(d.extent)) {
        if (a.kind === 'var' || a.kind === 'dyn') this.fault(`the extent of ${d.name} varies`);
        if (a.kind === 'sym' && !this.program.dims.has(a.name))
          this.fault(`the size ${a.name} has no value`);
      }
    }
    for (const d of [...c.dims, ...c.reduce]) this.vars.set(d.name, d);
    this.checkMonoid();
    // With an empty dim the body is never evaluated: its ranges mean nothing.
    const empty = [...c.dims, ...c.reduce].some((d) => constOf(rewrite(d.extent, this.bind)) === 0);
    this.expr(c.body, empty);
  }

  private fault(text: string): void {
    this.faults.push(`${this.c.id}: ${text}`);
  }

  private checkDefinition(value: Value): void {
    const { c } = this;
    if (value.role !== 'computed') this.fault(`${value.id} is a ${value.role}`);
    if (value.dtype !== c.dtype)
      this.fault(`${value.id} is ${value.dtype}, the compute ${c.dtype}`);
    const sameShape =
      value.shape.length === c.dims.length &&
      value.shape.every((s, i) => s.key === c.dims[i]?.extent.key);
    if (!sameShape) {
      const dims = c.dims.map((d) => printIndex(d.extent)).join(', ');
      this.fault(
        `${value.id} has shape [${value.shape.map(printIndex).join(', ')}], not [${dims}]`,
      );
    }
  }

  private checkMonoid(): void {
    const { c } = this;
    if (!c.monoid) {
      if (c.reduce.length > 0) this.fault('it has reduction dims but no monoid');
      if (c.body.dtype !== c.dtype) this.fault(`its body is ${c.body.dtype}, not ${c.dtype}`);
      return;
    }
    if (c.reduce.length === 0) this.fault('it has a monoid but no reduction dims');
    switch (c.monoid.kind) {
      case 'argmax':
      case 'argmin':
        if (!isInteger(c.dtype)) this.fault(`a position can't be ${c.dtype}`);
        return;
      case 'and':
      case 'or':
        if (c.body.dtype !== 'bool') this.fault(`${c.monoid.kind} of ${c.body.dtype}`);
        return;
      default:
        if (kindOf(c.body.dtype) !== kindOf(c.accumulator))
          this.fault(`its body is ${c.body.dtype}, its accumulator ${c.accumulator}`);
    }
  }

  /** `guarded`: under a `when`, whose conditions keep its loads in range. */
  private expr(e: Expr, guarded: boolean): void {
    switch (e.op) {
      case 'const':
        if (!isFloat(e.dtype) && !Number.isInteger(e.value))
          this.fault(`the ${e.dtype} constant ${e.value} is no integer`);
        return;
      case 'index':
        this.index(e.index, guarded);
        return;
      case 'load':
        this.load(e, guarded);
        return;
      case 'unary':
        if (e.fn === 'not' && e.a.dtype !== 'bool') this.fault(`not(${e.a.dtype})`);
        if (e.fn === 'bitnot' && isFloat(e.a.dtype)) this.fault(`bitnot(${e.a.dtype})`);
        if (e.fn === 'bitsof') this.expect('the operand of bitsof', e.a.dtype, 'f32');
        if (e.fn === 'floatof') this.expect('the operand of floatof', e.a.dtype, 'u32');
        this.expect(e.fn, e.dtype, unaryDtype(e.fn, e.a.dtype));
        this.expr(e.a, guarded);
        return;
      case 'binary':
        if (e.a.dtype !== e.b.dtype) this.fault(`${e.fn}(${e.a.dtype}, ${e.b.dtype})`);
        this.expect(e.fn, e.dtype, isComparison(e.fn) ? 'bool' : e.a.dtype);
        this.expr(e.a, guarded);
        this.expr(e.b, guarded);
        return;
      case 'select':
        this.expect('the condition of select', e.cond.dtype, 'bool');
        this.expect('then of select', e.then.dtype, e.dtype);
        this.expect('else of select', e.else.dtype, e.dtype);
        this.expr(e.cond, guarded);
        this.expr(e.then, guarded);
        this.expr(e.else, guarded);
        return;
      case 'when':
        this.expect('then of when', e.then.dtype, e.dtype);
        this.expect('else of when', e.else.dtype, e.dtype);
        for (const c of e.conds) this.cond(c, guarded);
        this.expr(e.then, true);
        this.expr(e.else, true);
        return;
      case 'cast':
        this.expr(e.a, guarded);
        return;
    }
  }

  private expect(what: string, got: DType, wanted: DType): void {
    if (got !== wanted) this.fault(`${what} is ${got}, not ${wanted}`);
  }

  private cond(c: IndexCond, guarded: boolean): void {
    this.index(c.index, guarded);
    this.index(c.lo, guarded);
    this.index(c.hi, guarded);
  }

  private load(e: Expr & { op: 'load' }, guarded: boolean): void {
    const value = this.program.values.get(e.value);
    if (!value) {
      this.fault(`there is no value ${e.value}`);
      return;
    }
    if (!this.known.has(e.value)) this.fault(`it loads ${e.value} before that is computed`);
    this.expect(`the load of ${e.value}`, e.dtype, value.dtype);
    if (e.index.length !== value.shape.length) {
      this.fault(`it loads ${e.value} with ${e.index.length} indices, not ${value.shape.length}`);
      return;
    }
    e.index.forEach((i, axis) => {
      this.index(i, guarded);
      const extent = value.shape[axis] ?? num(1);
      if (!guarded && !this.inRange(i, extent))
        this.fault(
          `${e.value}: the index ${printIndex(i)} may leave [0, ${printIndex(extent)}) in dim ${axis}`,
        );
    });
  }

  /** For all sizes, or at least for the sizes to profile with. */
  private inRange(i: IndexExpr, extent: IndexExpr): boolean {
    if (provablyNonNegative(i) && provablyLe(add(i, 1), extent)) return true;
    const bound = rewrite(i, this.bind);
    const end = rewrite(extent, this.bind);
    if (!provablyNonNegative(bound)) return false;
    return provablyLe(add(bound, 1), end) || upperBound(bound) < lowerBound(end);
  }

  private index(i: IndexExpr, guarded: boolean): void {
    for (const a of atomsOf(i)) {
      if (a.kind === 'sym' && !this.program.dims.has(a.name))
        this.fault(`the size ${a.name} has no value`);
      if (a.kind === 'var') {
        const d = this.vars.get(a.name);
        if (!d) this.fault(`the variable ${a.name} is not one of its dims`);
        else if (d.extent.key !== a.extent.key)
          this.fault(
            `${a.name} ranges to ${printIndex(a.extent)} here, but its dim to ${printIndex(d.extent)}`,
          );
      }
      if (a.kind === 'dyn') {
        if (!isInteger(a.expr.dtype)) this.fault(`an index of type ${a.expr.dtype}`);
        this.index(a.extent, guarded);
        this.expr(a.expr, guarded);
      }
    }
  }
}

function kindOf(t: DType): 'float' | 'integer' | 'bool' {
  return isFloat(t) ? 'float' : t === 'bool' ? 'bool' : 'integer';
}
