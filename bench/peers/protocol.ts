/**
 * What the bench and the process of a contestant say to each other: one request at a time, each
 * answered once. A contestant works only between a request and its answer.
 */
import type { Workload } from './workloads';

export const CONTESTANTS = ['fused', 'unfused', 'onnxruntime', 'tfjs', 'jax', 'floor'] as const;
export type ContestantName = (typeof CONTESTANTS)[number];

/** Where the reference's outputs lie, and how far from them is right. */
export interface Expected {
  readonly outputs: readonly {
    /** Float64 in the machine's byte order. */
    readonly file: string;
    readonly elements: number;
    /** Errors are relative to the element or this, whichever is larger: the root mean square. */
    readonly scale: number;
    readonly tolerance: number;
  }[];
}

export type Request =
  | { readonly kind: 'open' }
  | { readonly kind: 'prepare'; readonly workload: Workload; readonly expected: Expected }
  | { readonly kind: 'time'; readonly repeats: number }
  | { readonly kind: 'release' }
  | { readonly kind: 'rates' };

export interface Opened {
  readonly adapter: string;
  readonly software: boolean;
  /** The program's name, version and build. */
  readonly version: string;
}

export interface PreparedReport {
  /** Compiling, uploading and the first run, ms. */
  readonly setupMs: number;
  /** Dispatches of one run. */
  readonly dispatches: number;
  /** Storage bytes bound to them, summed: what they can have moved. */
  readonly boundBytes: number;
  readonly maxRelErr: number;
  readonly tolerance: number;
  readonly note?: string;
}

export interface Timed {
  /** Of all repeats, with the wait for the GPU at the end. */
  readonly ms: number;
  /** Until the last repeat was submitted. */
  readonly submitMs: number;
}

/** What the adapter reaches, by the floor's kernels. */
export interface Rates {
  /** Read and written together. */
  readonly copyBytesPerMs: number;
  readonly flopsPerMs: number;
}

export interface Answers {
  readonly open: Opened;
  readonly prepare: PreparedReport;
  readonly time: Timed;
  readonly release: null;
  readonly rates: Rates;
}

export interface ToContestant {
  readonly id: number;
  readonly request: Request;
}

export type FromContestant =
  | { readonly id: number; readonly ok: true; readonly value: Answers[Request['kind']] }
  | { readonly id: number; readonly ok: false; readonly message: string };
