/** The parts of a scene: what one view shows, before it has places. See scene.ts. */
import type { Decision, KernelView } from '../../compiler/result';
import type { Pattern } from '../../compiler/fusion/verdicts';
import type { LayoutInput } from '../layout/types';
import type { View } from './graphIndex';

export type LeafKind =
  | 'compute'
  | 'view'
  | 'constant'
  | 'region'
  | 'opaque'
  | 'dead'
  | 'input'
  | 'param'
  | 'const'
  | 'output';

export interface Leaf {
  readonly id: string;
  readonly kind: LeafKind;
  readonly node?: string;
  readonly tensor?: string;
  /** The kernel of this view that it is in. */
  readonly kernel?: string;
  /** The kernel after fusion, where this view is before: shows who will come together. */
  readonly future?: string;
  readonly pattern?: Pattern;
  readonly title: string;
  readonly subtitle: string;
  readonly tooltip: string;
  readonly width: number;
  readonly height: number;
}

export interface KernelBox {
  readonly id: string;
  readonly kernel: KernelView;
  readonly folded: boolean;
  /** Holds one op: there is nothing to unfold. */
  readonly solo: boolean;
  readonly title: string;
  readonly label: string;
  readonly counts: string;
  readonly tooltip: string;
  readonly width: number;
  readonly height: number;
  readonly leaves: readonly Leaf[];
}

export type Box =
  | { readonly kind: 'kernel'; readonly box: KernelBox }
  | { readonly kind: 'leaf'; readonly leaf: Leaf };

export interface SceneEdge {
  readonly id: string;
  /** memory: written and read again. free: stays in registers. leg: the way inside to who reads it. */
  readonly kind: 'memory' | 'free' | 'leg';
  readonly tensor: string;
  /** Ids of leaves or kernel boxes. */
  readonly from: string;
  readonly to: string;
  readonly label: string;
  readonly bytes: number;
  /** Operands that read it: 2 for a + a. */
  readonly count: number;
  readonly decisions: readonly Decision[];
  /** The first code against fusing, where fusing was refused. */
  readonly rejected?: string;
  /** Who reads it by name, for stubs. */
  readonly fromName: string;
  readonly toName: string;
}

/** What belongs to one body of a branch or a loop: drawn as a frame around it. */
export interface SceneFrame {
  readonly id: string;
  readonly title: string;
  /** Positions in the scene's boxes, those of bodies inside included. */
  readonly boxes: readonly number[];
  /** How many levels of frames are inside it. */
  readonly levels: number;
}

export interface Scene {
  readonly view: View;
  readonly boxes: readonly Box[];
  /** Outer ones first; none where the graph has no control flow. */
  readonly frames: readonly SceneFrame[];
  /** In the order of the layout's outer edges. */
  readonly outer: readonly SceneEdge[];
  readonly inner: ReadonlyMap<string, InnerEdges>;
  readonly layout: LayoutInput;
}

/** Edges of one unfolded kernel, in the order of its layout's. */
export interface InnerEdges {
  readonly edges: readonly SceneEdge[];
  readonly ins: readonly (readonly SceneEdge[])[];
  readonly outs: readonly SceneEdge[];
}
