/**
 * The Constant op: a tensor given by one of several attributes.
 */
import type { Attrs, AttrValue, ConstTensor } from '../../graph/graph';
import { num } from '../../ir/indexExpr';

export function tensorOf(v: AttrValue | undefined): ConstTensor | undefined {
  return typeof v === 'object' && 'tensor' in v ? v.tensor : undefined;
}

export function constantNode(
  attrs: Attrs,
):
  | { readonly ok: true; readonly tensor: ConstTensor }
  | { readonly ok: false; readonly message: string } {
  const value = tensorOf(attrs['value']);
  if (value) return { ok: true, tensor: value };
  for (const [name, dtype] of [
    ['value_float', 'f32'],
    ['value_int', 'i64'],
    ['value_floats', 'f32'],
    ['value_ints', 'i64'],
  ] as const) {
    const v = attrs[name];
    if (typeof v === 'number')
      return {
        ok: true,
        tensor: { type: { dtype, shape: [] }, data: { kind: 'numbers', values: [v] } },
      };
    if (Array.isArray(v)) {
      const values = (v as readonly unknown[]).filter((x): x is number => typeof x === 'number');
      return {
        ok: true,
        tensor: { type: { dtype, shape: [num(values.length)] }, data: { kind: 'numbers', values } },
      };
    }
  }
  if (attrs['value_string'] !== undefined || attrs['value_strings'] !== undefined)
    return { ok: false, message: "strings aren't supported" };
  return { ok: false, message: 'it has no value' };
}
