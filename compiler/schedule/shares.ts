/** Where the elements of a {@link Share} are in its buffer, in numbers. */
import type { Share } from '../result';

/** Calls `f` with the place in the buffer of each element of the share, in the order of the elements. */
export function placesOf(share: Share, f: (place: number, element: number) => void): void {
  for (let i = 0; i < share.elements; i++) {
    let place = i;
    for (const { counts, strides, offset } of share.steps) {
      let rest = place;
      place = offset;
      for (let d = counts.length - 1; d >= 0; d--) {
        const n = counts[d] ?? 1;
        const outer = Math.floor(rest / n);
        place += (rest - outer * n) * (strides[d] ?? 0);
        rest = outer;
      }
    }
    f(place, i);
  }
}
