/** Kernels and plans that a tuning record changed, in words. */
import { settingsText } from '../../compiler/schedule/parameters';
import type { Measured, TunedKernel } from '../../compiler/tuning';
import { plain } from './table';
import { factorText } from './units';

/** `tuned: workgroup = 128 (1.3× on SwiftShader)` */
export function tunedText(t: TunedKernel): string {
  return `tuned: ${settingsText(t.params)} (${gainText(t)})`;
}

export function gainText({ medianUs, defaultUs, adapter }: Measured): string {
  return `${factorText(defaultUs / medianUs)} on ${plain(adapter)}`;
}
