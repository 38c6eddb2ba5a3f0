/**
 * L3: a kernel as structured, scalar code, before it is any language's text.
 *
 * Vocabulary
 *  - *expression*: pure, scalar; every node knows its type and the *depth* of the innermost scope it
 *    depends on, which is what code motion out of loops goes by.
 *  - *vector load/store*: four consecutive elements moved by one access; arithmetic stays scalar,
 *    which is what both GPUs and CPU adapters want.
 *  - *shared*: workgroup memory.
 *  - *symbol*: a symbolic size; it reaches the kernel as a uniform.
 *  - *part*: one of several independent bodies of a kernel, run by a range of its workgroups.
 */
import type { Storage } from '../graph/dtype';
import type { Value } from '../ir/compute';
import type { BinaryFn, UnaryFn, ValueId } from '../ir/expr';
import { type IndexExpr, printIndex } from '../ir/indexExpr';

export type KType = 'f32' | 'i32' | 'u32' | 'bool';

/** Integer operations of index arithmetic: floor semantics are the builder's business, these truncate. */
export type IntFn = 'iadd' | 'isub' | 'imul' | 'idiv' | 'imod' | 'imin' | 'imax';

export type KExpr = { readonly type: KType; readonly depth: number } & (
  | { readonly k: 'lit'; readonly value: number }
  /** A let, a variable, a loop counter or a builtin id. */
  | { readonly k: 'ref'; readonly name: string }
  | { readonly k: 'sym'; readonly name: string }
  | { readonly k: 'unary'; readonly fn: UnaryFn; readonly a: KExpr }
  | { readonly k: 'binary'; readonly fn: BinaryFn; readonly a: KExpr; readonly b: KExpr }
  | { readonly k: 'int'; readonly fn: IntFn; readonly a: KExpr; readonly b: KExpr }
  | {
      readonly k: 'floor';
      readonly fn: 'floordiv' | 'floormod';
      readonly a: KExpr;
      readonly b: KExpr;
    }
  | { readonly k: 'select'; readonly cond: KExpr; readonly then: KExpr; readonly else: KExpr }
  /** Conversion between the four types. */
  | { readonly k: 'convert'; readonly a: KExpr }
  /** Wraps an integer to `bits` bits, or rounds an f32 to f16 or bf16. */
  | {
      readonly k: 'narrow';
      readonly to: 'i4' | 'u4' | 'i8' | 'u8' | 'i16' | 'u16' | 'f16' | 'bf16';
      readonly a: KExpr;
    }
  /** lo <= a < hi */
  | { readonly k: 'within'; readonly a: KExpr; readonly lo: KExpr; readonly hi: KExpr }
  | { readonly k: 'all'; readonly terms: readonly KExpr[] }
  | { readonly k: 'lane'; readonly vec: string; readonly lane: KExpr }
  | { readonly k: 'shared'; readonly name: string; readonly index: KExpr }
);

export type Stmt =
  | { readonly s: 'let'; readonly name: string; readonly expr: KExpr; readonly note?: string }
  | {
      readonly s: 'load';
      readonly name: string;
      readonly type: KType;
      readonly buffer: ValueId;
      readonly index: KExpr;
      readonly linear: IndexExpr;
    }
  | {
      readonly s: 'loadVec';
      readonly name: string;
      readonly type: KType;
      readonly buffer: ValueId;
      readonly index: KExpr;
      readonly linear: IndexExpr;
    }
  | { readonly s: 'var'; readonly name: string; readonly type: KType; readonly init: KExpr }
  | { readonly s: 'set'; readonly name: string; readonly expr: KExpr }
  | {
      readonly s: 'for';
      readonly name: string;
      readonly from: KExpr;
      readonly to: KExpr;
      readonly step: number | KExpr;
      readonly trips: IndexExpr;
      readonly body: Stmt[];
    }
  | { readonly s: 'if'; readonly cond: KExpr; readonly then: Stmt[]; readonly else: Stmt[] }
  | {
      readonly s: 'store';
      readonly buffer: ValueId;
      readonly index: KExpr;
      readonly value: KExpr;
      readonly linear: IndexExpr;
    }
  | {
      readonly s: 'storeVec';
      readonly buffer: ValueId;
      readonly index: KExpr;
      readonly values: readonly KExpr[];
      readonly linear: IndexExpr;
    }
  | { readonly s: 'setShared'; readonly name: string; readonly index: KExpr; readonly value: KExpr }
  | { readonly s: 'barrier' }
  /**
   * What the invocations of a subgroup have, put together: combined for all of them, or exchanged with
   * the one whose number differs by a power of two (anything, where the subgroup has none). All
   * invocations reach it.
   */
  | {
      readonly s: 'subgroup';
      readonly name: string;
      readonly value: KExpr;
      readonly how: SubgroupFn | { readonly distance: number };
    }
  /** Returns when index >= end; never before a barrier. */
  | { readonly s: 'exitUnless'; readonly index: KExpr; readonly end: KExpr }
  /** Bodies of their own, each run by its workgroups: at the kernel's top level only. */
  | { readonly s: 'parts'; readonly parts: readonly KernelPart[] }
  | { readonly s: 'comment'; readonly text: string };

export type SubgroupFn = 'add' | 'mul' | 'max' | 'min';

/** Invocations in a subgroup: known at run time only, a power of two. No name of a builder ends so. */
export const SUBGROUP_SIZE = 'width_';
/** WGSL has no adapter with smaller or larger ones. */
export const SUBGROUP_SIZES = { least: 4, most: 128 } as const;

export interface KernelPart {
  /** The flat number of its first workgroup; inside, `wg` counts from there. */
  readonly from: KExpr;
  readonly body: readonly Stmt[];
}

export interface KernelBuffer {
  readonly value: ValueId;
  /** How many it has, where that is known when compiling. */
  readonly elements?: number;
  /** The values in it that the kernel reads and stores, where they aren't the buffer's own value. */
  readonly slices?: { readonly reads: readonly ValueId[]; readonly writes: readonly ValueId[] };
  readonly storage: Storage;
  readonly access: 'read' | 'read_write';
  /** Bound as array<vec4<…>>. */
  readonly vector: boolean;
}

/** How a variable depends on the number of the workgroup: its range in each, or what it stands for. */
export type GridVar = { readonly perWorkgroup: number } | { readonly as: IndexExpr };

export interface SharedArray {
  readonly name: string;
  readonly type: KType;
  readonly length: number;
}

/** One dispatch. */
export interface KernelIr {
  readonly name: string;
  readonly buffers: readonly KernelBuffer[];
  /** Symbolic sizes in the order of the uniform block. */
  readonly symbols: readonly string[];
  readonly shared: readonly SharedArray[];
  readonly workgroup: readonly [number, number, number];
  /** Workgroups in all: folded over x and y by the host; the kernel sees one flat number. */
  readonly workgroups: IndexExpr;
  readonly body: readonly Stmt[];
  /** The variables that count along the grid; of others, nothing is known but their extent. */
  readonly grid?: ReadonlyMap<string, GridVar>;
  /** Buffers that only this kernel's dispatches use: no values of the program. */
  readonly scratch?: readonly Value[];
}

// ---------------------------------------------------------------------------------------------
// Printing

export function printKernel(k: KernelIr): string {
  const lines: string[] = [
    `kernel ${k.name} workgroup ${k.workgroup.join('x')} grid ${printIndex(k.workgroups)}`,
  ];
  for (const b of k.buffers)
    lines.push(`  buffer ${b.value}: ${b.vector ? `vec4<${b.storage}>` : b.storage} ${b.access}`);
  for (const s of k.shared) lines.push(`  shared ${s.name}: ${s.type}[${s.length}]`);
  printStmts(k.body, '  ', lines);
  return lines.join('\n');
}

function printStmts(stmts: readonly Stmt[], pad: string, out: string[]): void {
  for (const s of stmts) {
    switch (s.s) {
      case 'let':
        out.push(`${pad}let ${s.name} = ${printK(s.expr)}`);
        break;
      case 'load':
        out.push(`${pad}let ${s.name} = ${s.buffer}[${printK(s.index)}]`);
        break;
      case 'loadVec':
        out.push(`${pad}let4 ${s.name} = ${s.buffer}[4 * ${printK(s.index)} ..]`);
        break;
      case 'var':
        out.push(`${pad}var ${s.name} = ${printK(s.init)}`);
        break;
      case 'set':
        out.push(`${pad}${s.name} = ${printK(s.expr)}`);
        break;
      case 'for':
        out.push(
          `${pad}for ${s.name} in ${printK(s.from)} .. ${printK(s.to)} step ${typeof s.step === 'number' ? s.step : printK(s.step)}`,
        );
        printStmts(s.body, pad + '  ', out);
        break;
      case 'if':
        out.push(`${pad}if ${printK(s.cond)}`);
        printStmts(s.then, pad + '  ', out);
        if (s.else.length > 0) {
          out.push(`${pad}else`);
          printStmts(s.else, pad + '  ', out);
        }
        break;
      case 'store':
        out.push(`${pad}${s.buffer}[${printK(s.index)}] = ${printK(s.value)}`);
        break;
      case 'storeVec':
        out.push(
          `${pad}${s.buffer}[4 * ${printK(s.index)} ..] = (${s.values.map(printK).join(', ')})`,
        );
        break;
      case 'setShared':
        out.push(`${pad}${s.name}[${printK(s.index)}] = ${printK(s.value)}`);
        break;
      case 'barrier':
        out.push(`${pad}barrier`);
        break;
      case 'subgroup':
        out.push(
          `${pad}let ${s.name} = ${typeof s.how === 'string' ? s.how : `exchange ${s.how.distance}`} in subgroup ${printK(s.value)}`,
        );
        break;
      case 'exitUnless':
        out.push(`${pad}exit unless ${printK(s.index)} < ${printK(s.end)}`);
        break;
      case 'parts':
        for (const part of s.parts) {
          out.push(`${pad}part from workgroup ${printK(part.from)}`);
          printStmts(part.body, pad + '  ', out);
        }
        break;
      case 'comment':
        out.push(`${pad}# ${s.text}`);
        break;
    }
  }
}

export function printK(e: KExpr): string {
  switch (e.k) {
    case 'lit':
      return String(e.value);
    case 'ref':
      return e.name;
    case 'sym':
      return `$${e.name}`;
    case 'unary':
      return `${e.fn}(${printK(e.a)})`;
    case 'binary':
    case 'int':
    case 'floor':
      return `${e.fn}(${printK(e.a)}, ${printK(e.b)})`;
    case 'select':
      return `select(${printK(e.cond)}, ${printK(e.then)}, ${printK(e.else)})`;
    case 'convert':
      return `${e.type}(${printK(e.a)})`;
    case 'narrow':
      return `${e.to}(${printK(e.a)})`;
    case 'within':
      return `within(${printK(e.a)}, ${printK(e.lo)}, ${printK(e.hi)})`;
    case 'all':
      return `all(${e.terms.map(printK).join(', ')})`;
    case 'lane':
      return `${e.vec}.${printK(e.lane)}`;
    case 'shared':
      return `${e.name}[${printK(e.index)}]`;
  }
}
