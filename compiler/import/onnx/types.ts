/**
 * Declared types of values, and the symbolic sizes in them.
 *
 * ONNX names sizes by free text (`dim_param`), leaves them out, or gives a number. Symbols of the
 * compiler are identifiers, so text that isn't one is turned into one; a size without a name gets
 * one made from its tensor. All have 1 as value to profile with, until the user gives another.
 */
import { type Diagnostic, info } from '../../diagnostics';
import type { TensorType } from '../../graph/graph';
import { type Dim, num, sym } from '../../ir/indexExpr';
import type { OnnxDim, OnnxValueInfo } from './proto';
import { countElements, elementType, elementTypeName } from './tensors';

export type TypeResult =
  | { readonly ok: true; readonly type: TensorType }
  | { readonly ok: false; readonly code: string; readonly message: string };

export class DimNames {
  /** Symbol to the value to profile with. */
  readonly dims = new Map<string, number>();
  private readonly symbolOf = new Map<string, string>();

  constructor(private readonly diagnostics: Diagnostic[]) {}

  /** The type that the file declares. Symbols that are new are added, for use by `tensor`. */
  declare(v: OnnxValueInfo, tensor: string): TypeResult {
    const refuse = (code: string, message: string): TypeResult => ({ ok: false, code, message });
    if (v.otherKind !== undefined)
      return refuse('UNSUPPORTED_TYPE', `its type, ${v.otherKind}, isn't supported`);
    if (v.elemType === undefined) return refuse('MISSING_TYPE', 'the file gives no type for it');
    const dtype = elementType(v.elemType);
    if (!dtype)
      return refuse(
        'UNSUPPORTED_DTYPE',
        `its element type, ${elementTypeName(v.elemType)}, isn't supported`,
      );
    if (!v.dims) return refuse('MISSING_SHAPE', 'the file gives no shape for it, not even a rank');
    const problem = sizeProblem(v.dims);
    if (problem !== undefined) return refuse('BAD_SHAPE', problem);
    const shape = v.dims.map((d, i) => this.dim(d, tensor, i));
    return { ok: true, type: { dtype, shape } };
  }

  /** The declared type when it is complete and needs no symbol that isn't there yet. */
  known(v: OnnxValueInfo): TensorType | undefined {
    const dtype = v.elemType === undefined ? undefined : elementType(v.elemType);
    if (!dtype || !v.dims || v.otherKind !== undefined) return undefined;
    if (sizeProblem(v.dims) !== undefined) return undefined;
    const shape: Dim[] = [];
    for (const d of v.dims) {
      const symbol = this.symbolOf.get(d.param ?? '');
      if (d.value !== undefined && d.value >= 0) shape.push(num(d.value));
      else if (symbol !== undefined) shape.push(sym(symbol));
      else return undefined;
    }
    return { dtype, shape };
  }

  private dim(d: OnnxDim, tensor: string, position: number): Dim {
    if (d.value !== undefined && d.value >= 0) return num(d.value);
    const param = d.param ?? '';
    const old = this.symbolOf.get(param);
    if (old !== undefined) return sym(old);
    const symbol = this.fresh(param === '' ? `${tensor}_d${position}` : param);
    this.dims.set(symbol, 1);
    if (param === '') {
      this.diagnostics.push(
        info(
          'UNNAMED_DIM',
          `dimension ${position} of ${tensor} has neither a size nor a name; it is called ${symbol}`,
        ),
      );
      return sym(symbol);
    }
    this.symbolOf.set(param, symbol);
    if (symbol !== param)
      this.diagnostics.push(info('DIM_RENAMED', `the size '${param}' is called ${symbol}`));
    return sym(symbol);
  }

  private fresh(text: string): string {
    let base = text.slice(0, 60).replace(/\W/g, '_');
    if (!/^[A-Za-z_]/.test(base)) base = `d_${base}`;
    let name = base;
    for (let i = 2; this.dims.has(name); i++) name = `${base}_${i}`;
    return name;
  }
}

/** Sizes that no tensor can have. Symbolic ones count as 1. */
function sizeProblem(dims: readonly OnnxDim[]): string | undefined {
  if (dims.length > MAX_RANK)
    return `it has ${dims.length} dimensions; at most ${MAX_RANK} make sense`;
  const n = countElements(dims.map((d) => (d.value !== undefined && d.value >= 0 ? d.value : 1)));
  return typeof n === 'string' ? n : undefined;
}

const MAX_RANK = 64;
