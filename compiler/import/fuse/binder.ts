/**
 * The binder: syntax tree to L0 graph. It gives names their meaning, finds each call's op, and makes
 * nodes and tensors with ids that stay the same under edits elsewhere.
 *
 * What could not be read is *faulty*: nodes that use it stay in the graph, marked unsupported, so
 * that the reader sees the whole graph, and one mistake makes one diagnostic.
 */
import { error, type Diagnostic, type SourceRange } from '../../diagnostics';
import type { TensorId, TensorType } from '../../graph/graph';
import { num, constOf, sym, type Dim } from '../../ir/indexExpr';
import { fuseFormsByName, fuseNames } from '../../ops/index';
import type { FuseForm } from '../../ops/op';
import {
  definedNames,
  OPERATOR_OPS,
  type BinaryOperator,
  type Expression,
  type Named,
  type OpSite,
  type Statement,
  type Subscript,
  type TypeSyntax,
} from './ast';
import { bindCall, chooseForm, type BoundArgument, type BoundCall, type CallHost } from './calls';
import { Constants } from './constants';
import { answerOf, ASKED, AskedShapes, asksForShape, isDevice, numberInText } from './shapes';
import { bindSubscripts } from './subscripts';
import { GraphBuilder, type Destination, type OpUse } from './graphBuilder';
import { guessDeclarations, type Guesses } from './declarations';
import { emptyRecord, type FuseMemory, movedRecord, type StatementRecord } from './memory';
import { nearest, replaceFix } from './suggest';
import {
  asDim,
  describeValue,
  dtypeOf,
  DTYPE_NAMES,
  FAULTY,
  fold,
  foldCall,
  negated,
  NUMBER_NAMES,
  type Value,
} from './values';

export type SymbolKind = 'dim' | 'input' | 'param' | 'const' | 'value';

export interface Definition {
  readonly kind: SymbolKind;
  readonly name: Named;
  readonly value: Value;
  used: boolean;
}

/** The profiling value of a dim that the file uses but doesn't define. */
export const DEFAULT_SIZE = 64;
/** More results than this no op is meant to have; a mistyped size of split may ask for millions. */
const MOST_RESULTS = 4096;

export class Binder implements CallHost {
  readonly graph = new GraphBuilder();
  readonly inputs: TensorId[] = [];
  readonly dims = new Map<string, number>();
  readonly definitions = new Map<string, Definition>();
  /** Values that nothing had used when their names were taken again. */
  readonly overwritten: Definition[] = [];
  /** Uses of names that nothing defines, first use first: candidates for declarations. */
  readonly undeclared = new Map<string, SourceRange>();
  private readonly times = new Map<string, number>();
  private base = '';
  /** Within a type: what isn't a size there is a fault. */
  private inSize = false;
  /** What binding the statement at hand does. */
  private trace: StatementRecord | undefined;
  private suggestions = 0;
  private readonly constants: Constants;

  constructor(
    private readonly diagnostics: Diagnostic[],
    private readonly statements: readonly Statement[],
    private readonly shapes: AskedShapes = new AskedShapes(),
    private readonly memory?: FuseMemory,
  ) {
    this.constants = new Constants(this.graph, (d) => this.report(d));
  }

  report(diagnostic: Diagnostic): void {
    this.diagnostics.push(diagnostic);
  }

  // What only faults ask for is found when the first one does.

  private places: ReadonlyMap<string, SourceRange> | undefined;
  /** Where each name is first defined in the file, wherever that is. */
  private get anywhere(): ReadonlyMap<string, SourceRange> {
    return (this.places ??= definitionPlaces(this.statements));
  }

  private guessed: Guesses | undefined;
  /** Types for names that nothing declares, as far as their uses tell. */
  get guesses(): Guesses {
    return (this.guessed ??= guessDeclarations(this.statements));
  }

  // -- Statements -------------------------------------------------------------------------------

  bind(s: Statement): void {
    const { memory, graph } = this;
    if (!memory) {
      this.bindAnew(s);
      return;
    }
    const before = memory.record(s);
    const known = before && movedRecord(before, s);
    if (known && this.bindAgain(known)) {
      memory.keep(s, known);
      return;
    }
    const reported = this.diagnostics.length;
    const [nodes, inputs] = [graph.nodes.length, this.inputs.length];
    const record = emptyRecord(s.range.start.line);
    this.trace = record;
    graph.traced = record.tensors;
    this.bindAnew(s);
    this.trace = undefined;
    graph.traced = undefined;
    if (this.diagnostics.length > reported || record.unusual) return;
    record.base = this.base;
    record.nodes.push(...graph.nodes.slice(nodes));
    record.inputs.push(...this.inputs.slice(inputs));
    memory.keep(s, record);
  }

  /** Does what binding the statement did before; false where it could do something else now. */
  private bindAgain(known: StatementRecord): boolean {
    for (const [name, n] of known.claimed) if ((this.times.get(name) ?? 0) !== n - 1) return false;
    for (const [name, value] of known.used)
      if (!sameMeaning(this.definitions.get(name)?.value, value)) return false;
    for (const [name, n] of known.claimed) this.times.set(name, n);
    for (const name of known.used.keys()) {
      const d = this.definitions.get(name);
      if (d) d.used = true;
    }
    for (const [name, size] of known.dims) this.dims.set(name, size);
    for (const t of known.tensors) if (!this.graph.tensors.has(t.id)) this.graph.addTensor(t);
    for (const n of known.nodes) this.graph.nodes.push(n);
    for (const i of known.inputs) this.inputs.push(i);
    for (const { kind, name, value } of known.defined) this.define(kind, name, value);
    this.base = known.base;
    return true;
  }

  private bindAnew(s: Statement): void {
    switch (s.kind) {
      case 'dim':
        this.bindDim(s.name, s.value);
        break;
      case 'input':
      case 'param': {
        const type = s.type && this.bindType(s.type, s.names[0]?.name ?? '');
        for (const name of s.names) this.declare(s.kind, name, type);
        break;
      }
      case 'const':
        this.bindConst(s.name, s.type, s.value);
        break;
      case 'assign':
        this.bindAssignment(s.targets, s.value);
        break;
      case 'output':
      case 'expect':
      case 'materialize':
      case 'recompute':
      case 'fuse':
      case 'nofuse':
      case 'schedule':
      case 'faulty':
        // These speak about names: they are bound when all names are known (directiveBinder.ts).
        break;
    }
  }

  /**
   * Claims the name and gives the id to build on. An assignment may take the name of a tensor: it stands
   * for the new one from there on.
   */
  private claim(name: Named, assigned = false): string {
    const n = (this.times.get(name.name) ?? 0) + 1;
    this.times.set(name.name, n);
    this.trace?.claimed.push([name.name, n]);
    if (n === 1) return name.name;
    const id = `${name.name}~${n}`;
    const before = this.definitions.get(name.name)?.kind;
    if (assigned && (before === 'value' || before === 'input' || before === 'param')) return id;
    if (this.trace) this.trace.unusual = true;
    if (name.name === '_') return id;
    const first = this.anywhere.get(name.name);
    this.report(
      error(
        'REDEFINED',
        `${name.name} is already defined${first ? ` in line ${first.start.line + 1}` : ''}: a declaration needs a name of its own.`,
        name.range,
      ),
    );
    return id;
  }

  private define(kind: SymbolKind, name: Named, value: Value): void {
    const before = this.definitions.get(name.name);
    if (before?.kind === 'value' && !before.used) this.overwritten.push(before);
    this.definitions.set(name.name, { kind, name, value, used: false });
    this.trace?.defined.push({ kind, name, value });
  }

  private bindDim(name: Named, e: Expression | undefined): void {
    const id = this.claim(name);
    this.base = id;
    const v = e ? this.evaluate(e) : FAULTY;
    const n = v.kind === 'number' ? v.value : undefined;
    if (v.kind === 'size') {
      this.define('dim', name, v);
      return;
    }
    if (n !== undefined && Number.isSafeInteger(n) && n >= 1) {
      this.dims.set(id, n);
      this.trace?.dims.push([id, n]);
    } else {
      if (v.kind !== 'faulty') {
        const range = e?.range ?? name.range;
        this.report(
          error('INVALID_DIM', `A dim is a whole number from 1, not ${describeValue(v)}.`, range),
        );
      }
      this.dims.set(id, DEFAULT_SIZE);
      this.trace?.dims.push([id, DEFAULT_SIZE]);
    }
    this.define('dim', name, { kind: 'size', dim: sym(id) });
  }

  private declare(role: 'input' | 'param', name: Named, type: TensorType | undefined): void {
    const id = this.claim(name);
    if (!type) {
      this.define(role, name, FAULTY);
      return;
    }
    this.graph.addTensor({ id, name: name.name, type, role, range: name.range });
    this.inputs.push(id);
    this.define(role, name, { kind: 'tensor', id });
  }

  private bindType(t: TypeSyntax, owner: string): TensorType | undefined {
    const dtype = dtypeOf(t.dtype.name);
    if (!dtype) {
      const meant = nearest(t.dtype.name, DTYPE_NAMES);
      const rest =
        meant === undefined
          ? '; there are f32, f16, bf16, i32, i64, u8, bool and others.'
          : `. Did you mean ${meant}?`;
      const message = `${t.dtype.name} is no element type${rest}`;
      this.report(error('UNKNOWN_DTYPE', message, t.dtype.range, replaceFix(t.dtype.range, meant)));
    }
    this.base = owner;
    const shape: Dim[] = [];
    let ok = dtype !== undefined;
    for (const [axis, e] of (t.shape ?? []).entries()) {
      const d = this.bindSize(e, `${owner}_${axis}`);
      if (d) shape.push(d);
      else ok = false;
    }
    return ok && dtype ? { dtype, shape } : undefined;
  }

  private bindSize(e: Expression, fallbackName: string): Dim | undefined {
    if (e.kind === 'unknown') {
      this.report(
        error(
          'UNKNOWN_SIZE',
          `Write the size in place of ?: a number, or the name of a dim. Until then it is taken as ${DEFAULT_SIZE}.`,
          e.range,
          replaceFix(e.range, String(DEFAULT_SIZE)),
        ),
      );
      this.dims.set(fallbackName, DEFAULT_SIZE);
      return sym(fallbackName);
    }
    if (e.kind === 'name' && !this.definitions.has(e.name)) return this.unknownDim(e.name, e.range);
    this.inSize = true;
    const v = this.evaluate(e);
    this.inSize = false;
    const d = asDim(v);
    if (d) {
      const n = constOf(d);
      if (n === undefined || n >= 0) return d;
      this.report(error('INVALID_SIZE', `A size can’t be negative: this is ${n}.`, e.range));
    } else if (v.kind !== 'faulty') {
      this.report(
        error(
          'INVALID_SIZE',
          `A size is a whole number or made of dims, not ${describeValue(v)}.`,
          e.range,
        ),
      );
    }
    return undefined;
  }

  /** A dim that isn't defined: reported, then taken as one with a usual size. */
  private unknownDim(name: string, range: SourceRange): Dim {
    if (this.trace) this.trace.unusual = true;
    if (!this.dims.has(name)) {
      const meant = this.suggest(name, (d) => d.kind === 'dim');
      const start = { line: 0, column: 0 };
      const later = this.anywhere.has(name);
      this.report(
        error(
          later ? 'USED_BEFORE_DEFINITION' : 'UNKNOWN_DIM',
          later
            ? `${name} is only defined further down.`
            : `There is no dim ${name}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`,
          range,
          {
            fixes: [
              ...(replaceFix(range, meant).fixes ?? []),
              ...(later
                ? []
                : [
                    {
                      title: `Declare dim ${name}`,
                      edits: [
                        {
                          range: { start, end: start },
                          newText: `dim ${name} = ${DEFAULT_SIZE}\n`,
                        },
                      ],
                    },
                  ]),
            ],
          },
        ),
      );
      this.dims.set(name, DEFAULT_SIZE);
    }
    return sym(name);
  }

  private bindConst(name: Named, t: TypeSyntax | undefined, e: Expression | undefined): void {
    const id = this.claim(name);
    const type = t && this.bindType(t, name.name);
    this.base = id;
    const v = e ? this.evaluate(e) : FAULTY;
    const where = e?.range ?? name.range;
    const constant = { id, name: name.name, range: name.range };
    if (v.kind === 'tensor' || v.kind === 'results') {
      this.report(
        error(
          'NOT_CONSTANT',
          `A const is known at compile time, but this is computed: write ${name.name} = ….`,
          where,
        ),
      );
    }
    if ((t && !type) || v.kind === 'faulty') this.define('const', name, FAULTY);
    else if (t && type) {
      const tensor = this.constants.typed(constant, v, type, where);
      this.define('const', name, tensor === undefined ? FAULTY : { kind: 'tensor', id: tensor });
    } else this.define('const', name, v.kind === 'number' ? { ...v, constant } : v);
  }

  private bindAssignment(targets: readonly Named[], e: Expression): void {
    const ids = targets.map((t) => (t.name === '_' ? '_' : this.claim(t, true)));
    const at = targets.findIndex((t) => t.name !== '_');
    const first = targets[Math.max(0, at)];
    if (!first) return;
    this.base = ids[at] ?? this.claim(first, true);
    const destination = {
      targets: targets.map((t, i) => {
        const name = ids[i] ?? '_';
        return name === t.name ? t : { name, range: t.range };
      }),
    };
    const v = this.evaluate(e, destination);
    const values: readonly Value[] =
      v.kind === 'results'
        ? v.ids.map((id): Value => ({ kind: 'tensor', id }))
        : targets.length > 1 && v.kind === 'list'
          ? v.items
          : [v];
    if (v.kind !== 'faulty' && values.length !== targets.length) {
      const what =
        v.kind === 'results'
          ? `${v.op} gives ${count(values.length, 'result')}`
          : 'This is one value';
      this.report(
        error(
          'WRONG_RESULT_COUNT',
          `${what}, but ${count(targets.length, 'name')} ${targets.length === 1 ? 'stands' : 'stand'} before the =.`,
          first.range,
        ),
      );
    }
    targets.forEach((t, i) => {
      if (t.name !== '_') this.define('value', t, values[i] ?? FAULTY);
    });
  }

  // -- Names ------------------------------------------------------------------------------------

  private lookup(name: string, range: SourceRange): Value {
    const d = this.definitions.get(name);
    this.trace?.used.set(name, d?.value);
    if (d) {
      d.used = true;
      return d.value;
    }
    const number = NUMBER_NAMES.get(name);
    if (number !== undefined) return { kind: 'number', value: number, whole: false };
    const dtype = dtypeOf(name);
    if (dtype) return { kind: 'dtype', dtype };
    return this.unknownName(name, range);
  }

  private unknownName(name: string, range: SourceRange): Value {
    if (this.trace) this.trace.unusual = true;
    if (this.anywhere.has(name)) {
      this.report(
        error(
          'USED_BEFORE_DEFINITION',
          `${name} is only defined further down: a value is used after it is defined.`,
          range,
        ),
      );
      return FAULTY;
    }
    if (fuseFormsByName(name).length > 0) {
      this.report(error('OP_AS_VALUE', `${name} is an op: call it, as in ${name}(x).`, range));
      return FAULTY;
    }
    const first = !this.undeclared.has(name);
    if (!first) return this.placeholder(name);
    this.undeclared.set(name, range);
    const meant = this.suggest(name, (d) => d.kind !== 'dim');
    if (meant !== undefined) {
      this.report(
        error(
          'UNDECLARED_NAME',
          `${name} isn’t defined. Did you mean ${meant}?`,
          range,
          replaceFix(range, meant),
        ),
      );
    } else {
      this.report(
        error(
          'UNDECLARED_NAME',
          `${name} isn’t defined: declare it as an input or a param.`,
          range,
          { subject: name },
        ),
      );
      const guess = this.guesses.names.get(name);
      if (guess) {
        const type = { dtype: 'f32' as const, shape: guess.sizes.map((s) => this.guessedDim(s)) };
        this.graph.addTensor({ id: name, name, type, role: guess.role, range });
        this.inputs.push(name);
      }
    }
    return this.placeholder(name);
  }

  private guessedDim(size: string): Dim {
    const n = Number(size);
    if (Number.isSafeInteger(n)) return num(n);
    const defined = this.definitions.get(size);
    const dim = defined && asDim(defined.value);
    if (dim) return dim;
    if (!this.dims.has(size)) this.dims.set(size, DEFAULT_SIZE);
    return sym(size);
  }

  private placeholder(name: string): Value {
    return this.graph.tensors.has(name) ? { kind: 'tensor', id: name } : FAULTY;
  }

  /** The defined name nearest to a wrong one; only for the first few faults, since it looks at all names. */
  suggest(name: string, among: (d: Definition) => boolean = () => true): string | undefined {
    if (++this.suggestions > 50) return undefined;
    const names: string[] = [];
    for (const [n, d] of this.definitions) if (among(d)) names.push(n);
    if (/^(f|bf|i|u|float|bfloat|int|uint)\d+$/.test(name)) names.push(...DTYPE_NAMES);
    return nearest(name, names);
  }

  // -- Expressions ------------------------------------------------------------------------------

  /** The expression's value; the outermost op's results go to `to`, inner ones to made-up tensors. */
  private evaluate(e: Expression, to?: Destination): Value {
    switch (e.kind) {
      case 'number':
        return { kind: 'number', value: e.value, whole: e.whole };
      case 'string':
        return { kind: 'string', value: e.value };
      case 'bool':
        return { kind: 'bool', value: e.value };
      case 'none':
        return { kind: 'none' };
      case 'name':
        return this.lookup(e.name, e.range);
      case 'list':
        return { kind: 'list', items: e.items.map((i) => this.evaluate(i)) };
      case 'negate':
        return this.evaluateNegate(e, to);
      case 'chain':
        return this.evaluateChain(e, to);
      case 'call':
        return this.evaluateCall(e, to);
      case 'index':
        return this.evaluateIndex(e, to);
      case 'unknown':
        this.report(error('EXPECTED_EXPRESSION', '? only stands for a size in a type.', e.range));
        return FAULTY;
      case 'faulty':
        return FAULTY;
    }
  }

  private evaluateNegate(e: Expression & { kind: 'negate' }, to?: Destination): Value {
    const v = this.evaluate(e.operand);
    const args = [{ value: v, range: e.operand.range }];
    const { spelling } = e.site;
    if (spelling !== 'neg') return this.makeOp(spelling, '~', e.site, args, to);
    const n = negated(v);
    if (n) return n;
    return this.makeOp('neg', '-', e.site, args, to);
  }

  private evaluateChain(e: Expression & { kind: 'chain' }, to?: Destination): Value {
    let left = this.evaluate(e.first);
    let range = e.first.range;
    const last = e.rest[e.rest.length - 1];
    for (const link of e.rest) {
      const right = this.evaluate(link.right);
      if (isKnown(left) && isKnown(right) && !this.isCalculation(link.operator, left, right)) {
        const folded = fold(link.operator, left, right);
        if ('fault' in folded) {
          this.report(error('INVALID_ARITHMETIC', folded.fault, link.site.range));
          left = FAULTY;
        } else left = folded.value;
      } else {
        const args = [
          { value: left, range },
          { value: right, range: link.right.range },
        ];
        left = this.makeOp(
          operatorOp(link.operator),
          link.operator,
          link.site,
          args,
          link === last ? to : undefined,
        );
      }
      range = { start: range.start, end: link.right.range.end };
    }
    return left;
  }

  /** Whether sizes are calculated with as numbers: `1 / B` is no size, but can scale a tensor. */
  private isCalculation(operator: BinaryOperator, a: Value, b: Value): boolean {
    if (this.inSize || (a.kind !== 'size' && b.kind !== 'size')) return false;
    const whole = asDim(a) !== undefined && asDim(b) !== undefined;
    if (!whole) return true;
    return operator === '/' ? 'fault' in fold(operator, a, b) : false;
  }

  private evaluateCall(e: Expression & { kind: 'call' }, to?: Destination): Value {
    const args: BoundArgument[] = [];
    if (e.receiver) {
      args.push({ value: this.lookup(e.receiver.name, e.receiver.range), range: e.receiver.range });
    }
    if (e.on) args.push({ value: this.evaluate(e.on), range: e.on.range });
    for (const a of e.args) {
      const value = this.evaluate(a.value);
      args.push({ ...(a.name ? { name: a.name } : {}), value, range: a.value.range });
    }
    if (args.every((a) => !a.name)) {
      const folded = foldCall(
        e.site.spelling,
        args.map((a) => a.value),
      );
      if (folded) return folded;
    }
    const name = e.site.spelling;
    const [first, second, ...more] = args;
    if (first && asksForShape(name) && more.length === 0) {
      const answer = this.askShape(name, first, second?.value, e.range);
      if (answer) return answer;
    }
    if ((name === 'values' || name === 'indices') && first && !second) {
      const { value } = first;
      const id = value.kind === 'results' ? value.ids[name === 'values' ? 0 : 1] : undefined;
      if (id !== undefined) return { kind: 'tensor', id };
      // max and min along an axis give the values alone.
      if (name === 'values' && e.on && this.isExtremeAlongAxis(e.on)) return value;
      const message = `Only what gives values and places has ${name}, as topk and sort do; the places of a maximum are those of argmax.`;
      if (value.kind !== 'faulty') this.report(error('NO_ATTRIBUTES', message, e.range));
      return FAULTY;
    }
    if (name === 'float' && !second) {
      const number = numberInText(first?.value);
      if (number) return number;
    }
    if (first?.value.kind === 'tensor') {
      if (name === 'cpu' || name === 'cuda') return first.value;
      const rest = args.filter((a) => !isDevice(a.value));
      if (name === 'to' && rest.length < args.length)
        return rest.length === 1 ? first.value : this.makeOp(name, e.callee, e.site, rest, to);
    }
    return this.makeOp(name, e.callee, e.site, args, to);
  }

  /** `x.size(0)` and its like; undefined where they aren't asked of a tensor. */
  private askShape(
    name: string,
    of: BoundArgument,
    axis: Value | undefined,
    range: SourceRange,
  ): Value | undefined {
    if (of.value.kind === 'faulty') return FAULTY;
    if (of.value.kind !== 'tensor') return undefined;
    const shape = this.shapeOf(of.value.id);
    // Bound again when it is known.
    if (shape === ASKED) return FAULTY;
    const answer = shape
      ? answerOf(name, shape, axis)
      : { fault: 'The shape of this isn’t known: something before it can’t be analysed.' };
    if (!('fault' in answer)) return answer;
    this.report(error(shape ? 'AXIS_RANGE' : 'UNKNOWN_SHAPE', answer.fault, range));
    return FAULTY;
  }

  private shapeOf(id: TensorId): ReturnType<AskedShapes['of']> {
    // More is known of the tensor then than which one it is.
    if (this.trace) this.trace.unusual = true;
    return this.graph.tensors.get(id)?.type?.shape ?? this.shapes.of(id);
  }

  private evaluateIndex(e: Expression & { kind: 'index' }, to?: Destination): Value {
    const base = this.evaluate(e.base);
    const part = base.kind === 'list' ? this.partOf(base, e.items) : undefined;
    if (part) return part;
    const bound = bindSubscripts(this, e.items, (x) => this.evaluate(x));
    // One of an op's results: `split(x, 64, axis=-1)[0]`.
    if (base.kind === 'results' || base.kind === 'list') {
      const all: readonly Value[] =
        base.kind === 'list' ? base.items : base.ids.map((id): Value => ({ kind: 'tensor', id }));
      const n = bound?.only;
      const one = n === undefined ? undefined : all[n < 0 ? n + all.length : n];
      if (one) return one;
      if (bound)
        this.report(
          error(
            'BAD_INDEX',
            `Of ${describeValue(base)} one is taken by its number, from 0 to ${all.length - 1}.`,
            e.site.range,
          ),
        );
      return FAULTY;
    }
    if (bound?.only !== undefined && this.isExtremeAlongAxis(e.base)) {
      // PyTorch gives values and places there; taking a row in silence would be another meaning.
      const name = e.base.kind === 'call' ? e.base.callee : '';
      const message = `${name} along an axis gives the values alone: leave out [${bound.only}]. The places are those of arg${name}; a row of the values is a${name}(…)[${bound.only}].`;
      this.report(error('BAD_INDEX', message, e.site.range));
    }
    const use: OpUse = { base: this.base, site: e.site, callee: 'index', ...(to ? { to } : {}) };
    if (base.kind === 'tensor' && bound)
      return this.graph.add(use, 'index', bound.attrs, [base.id, ...bound.operands], 1);
    if (base.kind !== 'tensor' && base.kind !== 'faulty')
      this.report(
        error('WRONG_KIND', `Only tensors are indexed, not ${describeValue(base)}.`, e.range),
      );
    const operands = base.kind === 'tensor' ? [base.id] : [];
    return this.graph.unsupported(use, 'index', operands, 'what is indexed can’t be read');
  }

  /** `x.shape[1:]`: some of a list. */
  private partOf(list: Value & { kind: 'list' }, items: readonly Subscript[]): Value | undefined {
    const [only, second] = items;
    if (only?.kind !== 'range' || second || only.step) return undefined;
    const bound = (x: Expression | undefined): number | undefined => {
      const v = x && this.evaluate(x);
      return v?.kind === 'number' ? v.value : undefined;
    };
    return { kind: 'list', items: list.items.slice(bound(only.start), bound(only.stop)) };
  }

  private isExtremeAlongAxis(e: Expression): boolean {
    if (e.kind !== 'call' || (e.site.spelling !== 'max' && e.site.spelling !== 'min')) return false;
    const node = this.graph.nodes.at(-1);
    return (node?.op === 'amax' || node?.op === 'amin') && node.attrs['axes'] !== undefined;
  }

  // -- Nodes ------------------------------------------------------------------------------------

  private makeOp(
    fuseName: string,
    callee: string,
    site: OpSite,
    args: readonly BoundArgument[],
    to?: Destination,
  ): Value {
    const choice = chooseForm(fuseFormsByName(fuseName), args);
    const use: OpUse = { base: this.base, site, callee, ...(to ? { to } : {}) };
    if (!choice) {
      const reason = this.unknownOp(fuseName, callee, site.range);
      return this.graph.unsupported(use, fuseName, tensorsAmong(args), reason);
    }
    const { name } = choice.op;
    // One mistake, one diagnostic: an argument that can't be read was reported where it stands.
    const before = this.diagnostics.length;
    const call = bindCall(this, { callee, range: site.range }, choice, args);
    if (!call) {
      const fault = this.diagnostics[before]?.message;
      const reason = fault ?? 'one of its arguments can’t be read';
      return this.graph.unsupported(use, name, tensorsAmong(args), reason);
    }
    const counted = call.results ?? to?.targets.length ?? this.resultsOf(choice.form, call);
    if (counted === ASKED) return FAULTY;
    const results = counted ?? 1;
    if (!Number.isSafeInteger(results) || results < 1 || results > MOST_RESULTS) {
      const reason = `${callee} would give ${results} results; an op has 1 to ${MOST_RESULTS}.`;
      this.report(error('WRONG_RESULT_COUNT', reason, site.range));
      return this.graph.unsupported(use, name, call.operands, reason);
    }
    return this.graph.add(use, name, call.attrs, call.operands, results);
  }

  /** How many results a call gives, by the shape of its operand, where neither it nor its use says. */
  private resultsOf(form: FuseForm, call: BoundCall): number | undefined | typeof ASKED {
    const [first] = call.operands;
    if (!form.resultsOf || first === undefined) return undefined;
    const shape = this.shapeOf(first);
    return shape === ASKED || !shape ? shape : form.resultsOf(call.attrs, shape);
  }

  private unknownOp(fuseName: string, callee: string, range: SourceRange): string {
    if (callee !== fuseName && !/^[\p{L}_]/u.test(callee)) {
      const message = `The operator ${callee} doesn’t work on tensors.`;
      this.report(error('UNKNOWN_OP', message, range));
      return message;
    }
    // PyTorch's ops that change their operand.
    const pure = fuseName.endsWith('_') ? fuseName.slice(0, -1) : '';
    if (fuseFormsByName(pure).length > 0) {
      const message = `Values don’t change here: write ${pure}, and give its result a name.`;
      this.report(error('IN_PLACE', message, range, replaceFix(range, pure)));
      return message;
    }
    const meant = ++this.suggestions > 50 ? undefined : nearest(fuseName, fuseNames());
    const message = `There is no op ${fuseName}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`;
    this.report(error('UNKNOWN_OP', message, range, replaceFix(range, meant)));
    return message;
  }

  // -- Constants --------------------------------------------------------------------------------

  tensor(v: Value, range: SourceRange): TensorId | undefined {
    if (v.kind === 'size') return this.graph.size(v.dim, this.base, range);
    return this.constants.tensor(v, this.base, range);
  }
}

/** A tensor is meant by its id, whatever else it is computed by now. */
function sameMeaning(a: Value | undefined, b: Value | undefined): boolean {
  if (a?.kind === 'tensor') return b?.kind === 'tensor' && a.id === b.id;
  if (a?.kind === 'size') return b?.kind === 'size' && a.dim.key === b.dim.key;
  return a === b;
}

/** Where each name is defined first. */
function definitionPlaces(statements: readonly Statement[]): Map<string, SourceRange> {
  const places = new Map<string, SourceRange>();
  for (const s of statements) {
    for (const n of definedNames(s)) if (!places.has(n.name)) places.set(n.name, n.range);
  }
  return places;
}

/** Numbers, sizes and what else has no tensor in it: arithmetic happens at compile time. */
function isKnown(v: Value): boolean {
  return v.kind === 'number' || v.kind === 'size';
}

function tensorsAmong(args: readonly BoundArgument[]): TensorId[] {
  return args.flatMap((a) => (a.value.kind === 'tensor' ? [a.value.id] : []));
}

/** The op an operator stands for, by the name its table gives it. */
export function operatorOp(operator: BinaryOperator): string {
  const names = OPERATOR_OPS[operator];
  return names.find((n) => fuseFormsByName(n).length > 0) ?? names[0] ?? operator;
}

function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? '' : 's'}`;
}
