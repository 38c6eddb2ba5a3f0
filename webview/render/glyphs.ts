/** A small sign per pattern, in a box from -6 to 6: what tells patterns apart without colour. */
import type { Pattern } from '../../compiler/fusion/verdicts';

export const GLYPHS: Readonly<Record<Pattern, string>> = {
  // a dot
  pointwise: 'M-4.5,0 a4.5,4.5 0 1,0 9,0 a4.5,4.5 0 1,0 -9,0 Z',
  // many into one: a triangle that points down
  'into-reduction': 'M-5.5,-4.5 L5.5,-4.5 L0,5.5 Z',
  // one to many: a triangle that points up
  'after-reduction': 'M-5.5,4.5 L5.5,4.5 L0,-5.5 Z',
  // both: an hourglass
  composite: 'M-5,-5.5 L5,-5.5 L-5,5.5 L5,5.5 Z',
  // side by side
  horizontal: 'M-6,-4 h5 v8 h-5 Z M1,-4 h5 v8 h-5 Z',
  // a block with a tail
  epilogue: 'M-5.5,-5.5 h11 v7 h-11 Z M-5.5,3.5 h11 v2 h-11 Z',
  // a block with a head
  prologue: 'M-5.5,-1.5 h11 v7 h-11 Z M-5.5,-5.5 h11 v2 h-11 Z',
  // a fork
  'multi-output': 'M-1.2,-5.5 h2.4 v4.5 L6,4 L4,5.8 L0,1.8 L-4,5.8 L-6,4 L-1.2,-1 Z',
  // a star
  attention: 'M0,-6 L1.8,-1.8 L6,0 L1.8,1.8 L0,6 L-1.8,1.8 L-6,0 L-1.8,-1.8 Z',
  // an outline
  view: 'M-5,-5 h10 v10 h-10 Z M-3,-3 v6 h6 v-6 Z',
  // a square
  single: 'M-4.5,-4.5 h9 v9 h-9 Z',
  // a cross
  opaque:
    'M-5.5,-3.5 L-3.5,-5.5 L0,-2 L3.5,-5.5 L5.5,-3.5 L2,0 L5.5,3.5 L3.5,5.5 L0,2 L-3.5,5.5 L-5.5,3.5 L-2,0 Z',
};
