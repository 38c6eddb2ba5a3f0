/**
 * Structural hash of a kernel: equal for kernels that compute the same in the same way, whatever
 * their tensors are called and wherever they stand.
 */
import { printExpr, rewriteExpr, type ValueId } from '../ir/expr';
import { printShape } from '../ir/indexExpr';
import type { GroupSpec } from '../schedule/group';

export function structuralHash(group: GroupSpec, schedule: string): string {
  const names = new Map<ValueId, string>();
  const name = (v: ValueId): string => {
    let n = names.get(v);
    if (n === undefined) {
      n = `v${names.size}`;
      names.set(v, n);
    }
    return n;
  };
  const parts: string[] = [schedule];
  for (const c of group.members) {
    const body = rewriteExpr(
      c.body,
      () => undefined,
      (l) => ({ ...l, value: name(l.value) }),
    );
    const dims = printShape([...c.dims, ...c.reduce].map((d) => d.extent));
    parts.push(
      `${name(c.value)} ${c.dtype} ${dims} ${c.dims.length} ${JSON.stringify(c.monoid ?? null)} ${printExpr(body)}`,
    );
  }
  for (const [v, n] of names) {
    const value = group.program.values.get(v);
    if (value && value.role !== 'computed')
      parts.push(`${n} ${value.dtype} ${printShape(value.shape)}`);
  }
  for (const o of group.outputs) parts.push(`out ${name(o)}`);
  return fnv(parts.join('\n'));
}

/** FNV-1a over UTF-16 units, twice with different offsets: 64 bits as 16 hex digits. */
export function fnv(text: string): string {
  let a = 0x811c9dc5;
  let b = 0x9747b28c;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    a = Math.imul(a ^ c, 0x01000193);
    b = Math.imul(b ^ c, 0x01000197);
  }
  return (a >>> 0).toString(16).padStart(8, '0') + (b >>> 0).toString(16).padStart(8, '0');
}
