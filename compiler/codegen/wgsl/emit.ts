/**
 * L3 → WGSL text.
 *
 * Nothing from a user's file reaches the text but numbers and, as hints for readers, up to 24 letters
 * and digits of a tensor's name in our own local names (the builder makes them); buffers and symbols
 * are called `b0…` and `sizes[…]`.
 *
 * The entry point folds the flat workgroup number from two grid dims. WGSL lets compilers contract
 * multiply-adds and assume that no NaN or infinity occurs: where the program asks for them, they are
 * made and tested by their bits (see helpers.ts).
 *
 * Logic is written with & and |, never && and ||: those are control flow, and every branch inside a
 * tiled loop costs shader compilers dearly, while all our operands are free of side effects.
 */
import { type Storage, storageBytes } from '../../graph/dtype';
import type { ValueId } from '../../ir/expr';
import {
  type KernelBuffer,
  type KernelIr,
  type KernelPart,
  type KExpr,
  type KType,
  type Stmt,
  SUBGROUP_SIZE,
  type SubgroupFn,
} from '../../schedule/kernelIr';
import { HELPERS, type HelperName } from './helpers';

const RESERVED = new Set(
  (
    'alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if let loop ' +
    'override requires return struct switch true var while array atomic bool f16 f32 i32 u32 mat2x2 ptr sampler texture vec2 vec3 vec4 ' +
    'abs acos acosh all any asin asinh atan atanh atan2 ceil clamp cos cosh cross degrees determinant distance dot exp exp2 floor fma ' +
    'fract inverse length log log2 max min mix modf normalize pow radians reflect round saturate select sign sin sinh smoothstep sqrt ' +
    'step tan tanh transpose trunc bitcast main wg lid grid sizes filter self super target get set as async await class common final ' +
    'from global handle image import in input interface layout macro match mod module move mut new nil null of out output package pass ' +
    'private pub ref resource static this throw trait try type typedef union unless unorm use using var virtual void where while with yield ' +
    'subgroupAdd subgroupMul subgroupMax subgroupMin subgroupShuffleXor ' +
    'active asm auto catch char def delete do double dynamic_cast explicit export extends extern extern friend goto inline instanceof ' +
    'namespace noexcept noinline nullptr operator precise premerge protected public readonly register sizeof snorm std subroutine ' +
    'template texture1D vec mat demote discard point partition instance mesh meta i8 u8 i16 u16 i64 u64 f64 quat half'
  ).split(' '),
);

/** No name of the builder ends in an underscore. */
const PART_WORKGROUP = 'wg_';

/** A buffer as a chunk of a kernel sees it. */
export interface EmittedWindow {
  /** The bindings it takes, and the bytes of each but the last. */
  readonly pieces: number;
  readonly pieceBytes: number;
}

/** For a kernel that is dispatched in chunks: which of its buffers are windows. */
export type EmittedWindows = ReadonlyMap<ValueId, EmittedWindow>;

/**
 * A chunk's uniforms follow the symbols: its first workgroup, the one after its last, and where each
 * window begins, in elements of the binding's array, in the order of the buffers.
 */
export function emitWgsl(kernel: KernelIr, windows?: EmittedWindows): string {
  return new Emitter(kernel, windows).run();
}

/** The elements of a binding's array have these bytes. */
export function boundElementBytes(b: KernelBuffer): number {
  return storageBytes(b.storage) * (b.vector ? 4 : 1);
}

const ELEMENT: Record<Storage, string> = { f32: 'f32', f16: 'f16', i32: 'i32', u32: 'u32' };

const COMBINED: Record<SubgroupFn, string> = {
  add: 'subgroupAdd',
  mul: 'subgroupMul',
  max: 'subgroupMax',
  min: 'subgroupMin',
};

interface Bound {
  readonly name: string;
  readonly storage: Storage;
  readonly vector: boolean;
  /** Where its window begins, if it is one. */
  readonly start?: string;
  readonly pieces: number;
  /** Of its array, where the type says it. */
  readonly length?: number;
}

class Emitter {
  private readonly buffers = new Map<string, Bound>();
  private readonly symbols = new Map<string, string>();
  private readonly helpers = new Set<HelperName>();
  private readonly vecTypes = new Map<string, KType>();
  private out: string[] = [];
  private subgroups = false;
  /** What the workgroup's number is called here: a part counts from its own first. */
  private workgroup = 'wg';

  constructor(
    private readonly kernel: KernelIr,
    private readonly windows: EmittedWindows | undefined,
  ) {}

  run(): string {
    const k = this.kernel;
    const uniform = (i: number): string => `sizes[${i >> 2}][${i & 3}]`;
    k.symbols.forEach((s, i) => this.symbols.set(s, uniform(i)));
    const { windows } = this;
    let uniforms = k.symbols.length;
    const chunk = windows && { first: uniform(uniforms++), end: uniform(uniforms++) };
    let binding = 0;
    const bindings: string[] = [];
    const pieces: string[] = [];
    k.buffers.forEach((b, i) => {
      const w = windows?.get(b.value);
      const element = b.vector ? `vec4<${ELEMENT[b.storage]}>` : ELEMENT[b.storage];
      // A window is as long as its chunk needs it.
      const length = w ? undefined : lengthOf(b);
      const array = length === undefined ? element : `${element}, ${length}`;
      const names = Array.from({ length: w?.pieces ?? 1 }, (_, n) =>
        n === 0 ? `b${i}` : `fl_b${i}_${n}`,
      );
      for (const name of names)
        bindings.push(
          `@group(0) @binding(${binding++}) var<storage, ${b.access}> ${name}: array<${array}>;`,
        );
      this.buffers.set(b.value, {
        name: `b${i}`,
        storage: b.storage,
        vector: b.vector,
        ...(w ? { start: uniform(uniforms++) } : {}),
        pieces: names.length,
        ...(length === undefined ? {} : { length }),
      });
      if (w && names.length > 1)
        pieces.push(...inPieces(names, element, w.pieceBytes / boundElementBytes(b), b.access));
    });
    this.stmts(k.body, '  ');
    const body = this.out;
    const head: string[] = [];
    const enabled = [
      ...(k.buffers.some((b) => b.storage === 'f16') ? ['f16'] : []),
      ...(this.subgroups ? ['subgroups'] : []),
    ];
    if (enabled.length > 0) head.push(`enable ${enabled.join(', ')};`, '');
    head.push(...bindings);
    if (uniforms > 0) {
      head.push(
        `@group(0) @binding(${binding}) var<uniform> sizes: array<vec4<i32>, ${Math.ceil(uniforms / 4)}>;`,
      );
    }
    for (const s of k.shared)
      head.push(
        `var<workgroup> ${s.name}: array<${s.type === 'bool' ? 'u32' : s.type}, ${s.length}>;`,
      );
    head.push('');
    for (const h of HELPERS) if (this.helpers.has(h.name)) head.push(h.code, '');
    head.push(...pieces);
    const [x, y, z] = k.workgroup;
    head.push(
      `@compute @workgroup_size(${x}, ${y}, ${z})`,
      `fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>, @builtin(local_invocation_index) local: u32${this.subgroups ? ', @builtin(subgroup_size) subgroup_width_: u32' : ''}) {`,
      ...(chunk
        ? [
            `  let wg = ${chunk.first} + i32(group.x + group.y * grid.x);`,
            // The grid may be larger than the chunk, and what follows isn't in its windows.
            `  if (wg >= ${chunk.end}) { return; }`,
          ]
        : ['  let wg = i32(group.x + group.y * grid.x);']),
      '  let lid = i32(local);',
      ...(this.subgroups ? [`  let ${SUBGROUP_SIZE} = i32(subgroup_width_);`] : []),
    );
    return [...head, ...body, '}', ''].join('\n');
  }

  private id(name: string): string {
    if (name === 'wg') return this.workgroup;
    if (name === 'lid') return name;
    if (name === SUBGROUP_SIZE) {
      this.subgroups = true;
      return name;
    }
    // The builder's names never end in an underscore, so this can't meet another of them.
    return RESERVED.has(name) || /^(b\d+$|fl_|partial_)/.test(name) ? `${name}_` : name;
  }

  private buffer(value: string): Bound {
    const b = this.buffers.get(value);
    if (!b) throw new Error(`no buffer for ${value}`);
    return b;
  }

  private at(b: Bound, index: KExpr): string {
    // What a condition keeps from being used may lie beyond the end, and WGSL refuses to compile it.
    if (b.length !== undefined && index.k === 'lit')
      return String(Math.max(0, Math.min(b.length - 1, index.value)));
    const i = this.expr(index);
    return b.start === undefined ? i : `${i} - ${b.start}`;
  }

  private loaded(b: Bound, index: KExpr): string {
    const at = this.at(b, index);
    return b.pieces > 1 ? `fl_load_${b.name}(${at})` : `${b.name}[${at}]`;
  }

  private storing(b: Bound, index: KExpr, value: string): string {
    const at = this.at(b, index);
    return b.pieces > 1 ? `fl_store_${b.name}(${at}, ${value});` : `${b.name}[${at}] = ${value};`;
  }

  private stmts(stmts: readonly Stmt[], pad: string): void {
    for (const s of stmts) this.stmt(s, pad);
  }

  private stmt(s: Stmt, pad: string): void {
    switch (s.s) {
      case 'let':
        this.out.push(`${pad}let ${this.id(s.name)} = ${this.expr(s.expr)};`);
        return;
      case 'load': {
        const b = this.buffer(s.buffer);
        const e = this.loaded(b, s.index);
        this.out.push(`${pad}let ${this.id(s.name)} = ${b.storage === 'f16' ? `f32(${e})` : e};`);
        return;
      }
      case 'loadVec': {
        const b = this.buffer(s.buffer);
        this.vecTypes.set(s.name, s.type);
        const e = this.loaded(b, s.index);
        this.out.push(
          `${pad}let ${this.id(s.name)} = ${b.storage === 'f16' ? `vec4<f32>(${e})` : e};`,
        );
        return;
      }
      case 'var':
        this.out.push(`${pad}var ${this.id(s.name)}: ${s.type} = ${this.expr(s.init)};`);
        return;
      case 'set':
        this.out.push(`${pad}${this.id(s.name)} = ${this.expr(s.expr)};`);
        return;
      case 'for': {
        const n = this.id(s.name);
        const step = typeof s.step === 'number' ? String(s.step) : this.expr(s.step);
        this.out.push(
          `${pad}for (var ${n} = ${this.expr(s.from)}; ${n} < ${this.expr(s.to)}; ${n} += ${step}) {`,
        );
        this.stmts(s.body, pad + '  ');
        this.out.push(`${pad}}`);
        return;
      }
      case 'if':
        this.out.push(`${pad}if (${this.expr(s.cond)}) {`);
        this.stmts(s.then, pad + '  ');
        if (s.else.length > 0) {
          this.out.push(`${pad}} else {`);
          this.stmts(s.else, pad + '  ');
        }
        this.out.push(`${pad}}`);
        return;
      case 'store': {
        const b = this.buffer(s.buffer);
        this.out.push(`${pad}${this.storing(b, s.index, this.stored(s.value, b.storage))}`);
        return;
      }
      case 'storeVec': {
        const b = this.buffer(s.buffer);
        const values = s.values.map((v) => this.stored(v, b.storage)).join(', ');
        this.out.push(
          `${pad}${this.storing(b, s.index, `vec4<${ELEMENT[b.storage]}>(${values})`)}`,
        );
        return;
      }
      case 'setShared':
        this.out.push(
          `${pad}${s.name}[${this.expr(s.index)}] = ${s.value.type === 'bool' ? `select(0u, 1u, ${this.expr(s.value)})` : this.expr(s.value)};`,
        );
        return;
      case 'barrier':
        this.out.push(`${pad}workgroupBarrier();`);
        return;
      case 'subgroup': {
        this.subgroups = true;
        const { how } = s;
        const bool = s.value.type === 'bool';
        const x = bool ? `select(0u, 1u, ${this.expr(s.value)})` : this.expr(s.value);
        const e =
          typeof how === 'string'
            ? `${COMBINED[how]}(${x})`
            : `subgroupShuffleXor(${x}, ${how.distance}u)`;
        this.out.push(`${pad}let ${this.id(s.name)} = ${bool ? `(${e} != 0u)` : e};`);
        return;
      }
      case 'exitUnless':
        this.out.push(`${pad}if (${this.expr(s.index)} >= ${this.expr(s.end)}) { return; }`);
        return;
      case 'parts':
        this.parts(s.parts, pad);
        return;
      case 'comment':
        this.out.push(`${pad}// ${s.text.replace(/[^\x20-\x7e]/g, '?')}`);
        return;
    }
  }

  /**
   * Which part a workgroup runs is found by halving. The number is the same for a whole workgroup, so
   * that barriers inside a part are reached by all or by none.
   */
  private parts(parts: readonly KernelPart[], pad: string): void {
    const [only] = parts;
    if (!only) return;
    if (parts.length === 1) {
      this.out.push(`${pad}let ${PART_WORKGROUP} = wg - ${this.expr(only.from)};`);
      this.workgroup = PART_WORKGROUP;
      this.stmts(only.body, pad);
      this.workgroup = 'wg';
      return;
    }
    const half = parts.length >> 1;
    const middle = parts[half];
    if (!middle) return;
    this.out.push(`${pad}if (wg < ${this.expr(middle.from)}) {`);
    this.parts(parts.slice(0, half), pad + '  ');
    this.out.push(`${pad}} else {`);
    this.parts(parts.slice(half), pad + '  ');
    this.out.push(`${pad}}`);
  }

  private stored(e: KExpr, storage: Storage): string {
    const text = this.expr(e);
    if (storage !== 'f16') return text;
    // What WGSL can evaluate when compiling it refuses beyond the range of f16; at run time it rounds.
    return isConstant(e) ? this.helper('fl_half', text) : `f16(${text})`;
  }

  private helper(name: HelperName, ...args: string[]): string {
    const add = (n: HelperName): void => {
      this.helpers.add(n);
      for (const d of HELPERS.find((h) => h.name === n)?.needs ?? []) add(d);
    };
    add(name);
    return `${name}(${args.join(', ')})`;
  }

  private literal(value: number, type: KType): string {
    switch (type) {
      case 'bool':
        return value ? 'true' : 'false';
      case 'i32':
        return value <= -2147483648
          ? 'i32(-2147483647 - 1)'
          : value < 0
            ? `(${Math.trunc(value)})`
            : String(Math.min(2147483647, Math.trunc(value)));
      case 'u32':
        return `${Math.max(0, Math.trunc(value)) >>> 0}u`;
      case 'f32': {
        if (Number.isNaN(value)) return this.helper('fl_nan');
        const f = Math.fround(value);
        if (!Number.isFinite(f))
          return f > 0 ? this.helper('fl_inf') : `(-${this.helper('fl_inf')})`;
        if (Object.is(f, -0)) return '(-0.0)';
        const t = shortest(f);
        const text = /[.e]/.test(t) ? `${t}f` : `${t}.0`;
        return f < 0 ? `(${text})` : text;
      }
    }
  }

  private expr(e: KExpr): string {
    switch (e.k) {
      case 'lit':
        return this.literal(e.value, e.type);
      case 'ref':
        return this.id(e.name);
      case 'sym': {
        const s = this.symbols.get(e.name);
        if (s === undefined) throw new Error(`no symbol ${e.name}`);
        return s;
      }
      case 'unary':
        return this.unary(e);
      case 'binary':
        return this.binary(e);
      case 'int': {
        const a = this.expr(e.a);
        const b = this.expr(e.b);
        const fn = e.fn;
        switch (fn) {
          case 'iadd':
            return `(${a} + ${b})`;
          case 'isub':
            return `(${a} - ${b})`;
          case 'imul':
            return `(${a} * ${b})`;
          case 'idiv':
            return `(${a} / ${b})`;
          case 'imod':
            return `(${a} % ${b})`;
          case 'imin':
            return `min(${a}, ${b})`;
          case 'imax':
            return `max(${a}, ${b})`;
        }
        return fault(fn);
      }
      case 'floor':
        return this.helper(
          e.fn === 'floordiv' ? 'fl_floordiv' : 'fl_floormod',
          this.expr(e.a),
          this.expr(e.b),
        );
      case 'select':
        return `select(${this.expr(e.else)}, ${this.expr(e.then)}, ${this.expr(e.cond)})`;
      case 'convert': {
        const a = this.expr(e.a);
        if (e.type === 'bool') return `(${a} != ${this.literal(0, e.a.type)})`;
        if (e.a.type === 'bool')
          return `select(${this.literal(0, e.type)}, ${this.literal(1, e.type)}, ${a})`;
        return `${e.type}(${a})`;
      }
      case 'narrow': {
        const a = this.expr(e.a);
        const to = e.to;
        switch (to) {
          case 'i4':
            return `extractBits(i32(${a}), 0u, 4u)`;
          case 'u4':
            return `(u32(${a}) & 15u)`;
          case 'i8':
            return `extractBits(i32(${a}), 0u, 8u)`;
          case 'i16':
            return `extractBits(i32(${a}), 0u, 16u)`;
          case 'u8':
            return `(u32(${a}) & 255u)`;
          case 'u16':
            return `(u32(${a}) & 65535u)`;
          case 'f16':
            return this.helper('fl_f16', a);
          case 'bf16':
            return this.helper('fl_bf16', a);
        }
        return fault(to);
      }
      case 'within': {
        const a = this.expr(e.a);
        return `((${a} >= ${this.expr(e.lo)}) & (${a} < ${this.expr(e.hi)}))`;
      }
      case 'all':
        return e.terms.length === 1
          ? e.terms.map((t) => this.expr(t)).join('')
          : `(${e.terms.map((t) => this.expr(t)).join(' & ')})`;
      case 'lane': {
        const v = this.id(e.vec);
        return e.lane.k === 'lit'
          ? `${v}.${'xyzw'[e.lane.value] ?? 'x'}`
          : `${v}[${this.expr(e.lane)}]`;
      }
      case 'shared': {
        const s = `${e.name}[${this.expr(e.index)}]`;
        return e.type === 'bool' ? `(${s} != 0u)` : s;
      }
    }
  }

  private unary(e: KExpr & { k: 'unary' }): string {
    const a = this.expr(e.a);
    const int = e.a.type === 'i32' || e.a.type === 'u32';
    switch (e.fn) {
      case 'neg':
        return e.a.type === 'u32' ? `(0u - ${a})` : `(-${a})`;
      case 'abs':
        return e.a.type === 'u32' ? a : `abs(${a})`;
      case 'sign':
        return e.a.type === 'u32' ? `min(${a}, 1u)` : `sign(${a})`;
      case 'exp':
      case 'sqrt':
      case 'asin':
      case 'atan':
      case 'sinh':
      case 'cosh':
        return `${e.fn}(${a})`;
      case 'rsqrt':
        return `inverseSqrt(${a})`;
      case 'recip':
        return int ? `(${this.literal(1, e.a.type)} / ${a})` : `(1.0 / ${a})`;
      case 'sin':
      case 'cos':
      case 'tan':
      case 'acos':
        return this.helper(`fl_${e.fn}`, a);
      case 'log':
        return this.helper('fl_log', a);
      case 'expm1':
        return this.helper('fl_expm1', a);
      case 'log1p':
        return this.helper('fl_log1p', a);
      case 'tanh':
        return this.helper('fl_tanh', a);
      case 'asinh':
        return this.helper('fl_asinh', a);
      case 'acosh':
        return this.helper('fl_acosh', a);
      case 'atanh':
        return this.helper('fl_atanh', a);
      case 'erf':
        return this.helper('fl_erf', a);
      case 'floor':
      case 'ceil':
      case 'round':
      case 'trunc':
        return int ? a : `${e.fn}(${a})`;
      case 'not':
        return e.a.type === 'bool' ? `(!${a})` : `(${a} == ${this.literal(0, e.a.type)})`;
      case 'bitnot':
        return `(~${a})`;
      case 'isnan':
        return int ? 'false' : this.helper('fl_isnan', a);
      case 'isinf':
        return int ? 'false' : this.helper('fl_isinf', a);
      case 'bitsof':
        return `bitcast<u32>(${a})`;
      case 'floatof':
        return `bitcast<f32>(${a})`;
    }
  }

  private binary(e: KExpr & { k: 'binary' }): string {
    const a = this.expr(e.a);
    const b = this.expr(e.b);
    const t = e.a.type;
    if (t === 'bool') {
      switch (e.fn) {
        case 'add':
        case 'or':
        case 'max':
        case 'bitor':
          return `(${a} | ${b})`;
        case 'mul':
        case 'and':
        case 'min':
        case 'bitand':
          return `(${a} & ${b})`;
        case 'xor':
        case 'ne':
        case 'bitxor':
        case 'sub':
          return `(${a} != ${b})`;
        case 'eq':
          return `(${a} == ${b})`;
        case 'lt':
          return `(!${a} & ${b})`;
        case 'le':
          return `(!${a} | ${b})`;
        case 'gt':
          return `(${a} & !${b})`;
        case 'ge':
          return `(${a} | !${b})`;
        default:
          throw new Error(`no ${e.fn} of booleans`);
      }
    }
    switch (e.fn) {
      case 'add':
        return `(${a} + ${b})`;
      case 'sub':
        return `(${a} - ${b})`;
      case 'mul':
        return `(${a} * ${b})`;
      case 'div':
        return `(${a} / ${b})`;
      case 'mod':
        return t === 'f32'
          ? this.helper('fl_fmodf', a, b)
          : t === 'u32'
            ? `(${a} % ${b})`
            : this.helper('fl_floormod', a, b);
      case 'fmod':
        return `(${a} % ${b})`;
      case 'pow':
        return this.power(e, a, b);
      case 'min':
      case 'max':
        return `${e.fn}(${a}, ${b})`;
      case 'atan2':
        return `atan2(${a}, ${b})`;
      case 'eq':
        return `(${a} == ${b})`;
      case 'ne':
        return `(${a} != ${b})`;
      case 'lt':
        return `(${a} < ${b})`;
      case 'le':
        return `(${a} <= ${b})`;
      case 'gt':
        return `(${a} > ${b})`;
      case 'ge':
        return `(${a} >= ${b})`;
      case 'and':
        return `(${this.truth(e.a, a)} & ${this.truth(e.b, b)})`;
      case 'or':
        return `(${this.truth(e.a, a)} | ${this.truth(e.b, b)})`;
      case 'xor':
        return `(${this.truth(e.a, a)} != ${this.truth(e.b, b)})`;
      case 'bitand':
        return `(${a} & ${b})`;
      case 'bitor':
        return `(${a} | ${b})`;
      case 'bitxor':
        return `(${a} ^ ${b})`;
      case 'shl':
        return `(${a} << (${t === 'u32' ? b : `u32(${b})`} & 31u))`;
      case 'shr':
        return `(${a} >> (${t === 'u32' ? b : `u32(${b})`} & 31u))`;
    }
  }

  private truth(e: KExpr, text: string): string {
    return e.type === 'bool' ? text : `(${text} != ${this.literal(0, e.type)})`;
  }

  private power(e: KExpr & { k: 'binary' }, a: string, b: string): string {
    if (e.a.type === 'i32') return this.helper('fl_powi', a, b);
    if (e.a.type === 'u32') return this.helper('fl_powu', a, b);
    if (e.b.k === 'lit') {
      if (e.b.value === 2) return this.helper('fl_square', a);
      if (e.b.value === 3) return this.helper('fl_cube', a);
      if (e.b.value === 1) return a;
      if (e.b.value === 0.5) return `sqrt(${a})`;
    }
    return this.helper('fl_pow', a, b);
  }
}

/**
 * The length of a binding's array, where it is known. WebGPU keeps every access inside its array, and
 * asks the binding for its length each time that the type doesn't say it: on adapters that compute all
 * of it on the CPU that is up to half the time of a kernel.
 */
function lengthOf(b: KernelBuffer): number | undefined {
  if (b.elements === undefined) return undefined;
  return Math.max(1, Math.floor(b.elements / (b.vector ? 4 : 1)));
}

/** Functions that find an element among several bindings, each of `length` elements. */
function inPieces(
  names: readonly string[],
  element: string,
  length: number,
  access: KernelBuffer['access'],
): string[] {
  const [first = ''] = names;
  const lines = (at: (name: string, index: string) => string): string[] =>
    names.map((name, n) => {
      const index = n === 0 ? 'i' : `i - ${n * length}`;
      const what = at(name, index);
      return n === names.length - 1 ? `  ${what}` : `  if (i < ${(n + 1) * length}) { ${what} }`;
    });
  const load = [
    `fn fl_load_${first}(i: i32) -> ${element} {`,
    ...lines((name, index) => `return ${name}[${index}];`),
    '}',
    '',
  ];
  if (access === 'read') return load;
  return [
    ...load,
    `fn fl_store_${first}(i: i32, x: ${element}) {`,
    ...lines((name, index) => `${name}[${index}] = x; return;`),
    '}',
    '',
  ];
}

/** Whether WGSL knows its value when compiling. */
function isConstant(e: KExpr): boolean {
  switch (e.k) {
    case 'lit':
      return true;
    case 'ref':
    case 'sym':
    case 'lane':
    case 'shared':
      return false;
    case 'unary':
    case 'convert':
    case 'narrow':
      return isConstant(e.a);
    case 'binary':
    case 'int':
    case 'floor':
      return isConstant(e.a) && isConstant(e.b);
    case 'select':
      return isConstant(e.cond) && isConstant(e.then) && isConstant(e.else);
    case 'within':
      return isConstant(e.a) && isConstant(e.lo) && isConstant(e.hi);
    case 'all':
      return e.terms.every(isConstant);
  }
}

/** Unreachable: the switch above it is exhaustive. */
function fault(x: never): never {
  throw new Error(`no WGSL for ${String(x)}`);
}

/** The shortest decimal that reads back as the same f32. */
function shortest(f: number): string {
  for (let p = 1; p <= 9; p++) {
    const t = f.toPrecision(p);
    if (Math.fround(Number(t)) === f) return String(Number(t));
  }
  return String(f);
}
