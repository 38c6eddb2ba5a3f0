/**
 * Structural hash of a kernel: equal for kernels that compute the same in the same way, whatever
 * their tensors are called and wherever they stand.
 */
import { type Slices, sliceText } from '../schedule/slices';
import type { Signatures } from './signature';

/** `stored` tells of each member, by place, whether its value is stored; `schedule` is the parameters' text. */
export function structuralHash(
  signatures: Signatures,
  members: readonly number[],
  stored: readonly boolean[],
  schedule: string,
  slices: Slices,
): string {
  const numbers = new Map<number, number>();
  const number = (v: number): number => {
    let n = numbers.get(v);
    if (n === undefined) {
      n = numbers.size;
      numbers.set(v, n);
    }
    return n;
  };
  const parts: string[] = [schedule];
  members.forEach((m, i) => {
    const s = signatures.of(m);
    const loads = s.loads.map(number).join(' ');
    parts.push(`${number(s.value)}${stored[i] ? ' out' : ''} (${loads}) ${signatures.textOf(m)}`);
  });
  // What lies in another's buffer is read and written there; a Map's walk meets what is added on it.
  for (const v of numbers.keys()) {
    const slice = slices.get(signatures.valueId(v));
    if (slice)
      parts.push(
        `${number(v)} in ${number(signatures.numberOf(slice.into))}: ${sliceText(signatures.program, slice)}`,
      );
  }
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
