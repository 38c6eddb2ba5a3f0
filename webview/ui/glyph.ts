/** A pattern's sign as a small picture beside text. */
import type { Pattern } from '../../compiler/fusion/verdicts';
import { GLYPHS } from '../render/glyphs';

const SVG = 'http://www.w3.org/2000/svg';

export function glyph(pattern: Pattern): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('class', `glyph p-${pattern}`);
  svg.setAttribute('viewBox', '-7 -7 14 14');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', GLYPHS[pattern]);
  path.setAttribute('class', 'kernel-glyph');
  svg.append(path);
  return svg;
}
