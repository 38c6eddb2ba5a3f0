/**
 * What the two-level layout gets and gives: plain data that goes to a worker and back.
 *
 * The *outer* graph is made of boxes: kernels, and what stands outside of them (graph inputs,
 * weights, outputs, free views). A box with an `inner` graph is unfolded: its ops are laid out first,
 * and its size follows. A tensor that enters such a box comes through an *in port* at its top and fans
 * out inside; one that leaves goes through an *out port* at its bottom.
 */
import type { Route } from './graph';

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface InnerGraph {
  readonly nodes: readonly (Size & { readonly id: string })[];
  /** Indices of inner nodes; `net` names the tensor. */
  readonly edges: readonly { readonly from: number; readonly to: number; readonly net: string }[];
  readonly ins: readonly {
    readonly net: string;
    readonly to: readonly number[];
    readonly minor?: boolean;
  }[];
  readonly outs: readonly { readonly net: string; readonly from: number }[];
  /** Room for the box's title. */
  readonly header: number;
}

export interface LayoutBox extends Size {
  readonly id: string;
  readonly inner?: InnerGraph;
}

export interface OuterEdge {
  readonly id: string;
  readonly from: number;
  readonly to: number;
  readonly net: string;
  /** Index of the out port of `from` and of the in port of `to`, where those are unfolded. */
  readonly out?: number;
  readonly in?: number;
  /** Carries a weight or the like: stands aside. */
  readonly minor?: boolean;
}

export interface LayoutInput {
  readonly boxes: readonly LayoutBox[];
  readonly edges: readonly OuterEdge[];
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Everything in the coordinates of the whole drawing. */
export interface PlacedInner {
  readonly nodes: readonly Point[];
  readonly edges: readonly Route[];
  /** Per in port: one course per reader. */
  readonly ins: readonly (readonly Route[])[];
  readonly outs: readonly Route[];
}

export interface LayoutResult extends Size {
  readonly boxes: readonly (Point & Size & { readonly inner?: PlacedInner })[];
  readonly edges: readonly Route[];
}

/** Centres of boxes and inner nodes by id, from the layout before: keeps the order stable. */
export type Seeds = Readonly<Record<string, number>>;

export interface LayoutRequest {
  readonly id: number;
  /** Names the cache: one per view. */
  readonly view: string;
  readonly input: LayoutInput;
  readonly seeds: Seeds;
}

export type LayoutReply =
  | { readonly id: number; readonly ok: true; readonly result: LayoutResult; readonly ms: number }
  | { readonly id: number; readonly ok: false; readonly message: string };
