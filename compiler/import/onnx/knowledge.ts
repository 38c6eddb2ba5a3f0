/**
 * What the importer learns of a graph by having it lowered.
 *
 * A branch can be inlined when its condition is known, a loop when its number of iterations is. Where
 * shapes decide on these, only lowering knows. So the importer writes down what it would like to know
 * and goes on without; its driver lowers that graph, answers, and imports again. Ids are positions,
 * so they are the same in each round. What is known stays known; "not known" is final only where
 * nothing else has come to be known, since one branch can decide on the next.
 */
import type { NodeId, TensorId } from '../../graph/graph';
import type { Dim } from '../../ir/indexExpr';

/** An answer to come: this round's graph is a draft. */
export const ASKED = Symbol('asked');

export interface Answers {
  /** The contents when they are plain numbers known at compile time. */
  contents(tensor: TensorId): readonly number[] | undefined;
  shape(tensor: TensorId): readonly Dim[] | undefined;
  /** Whether both ways of a branch may be computed and one be selected; undefined: not known yet. */
  selectable(branch: NodeId): boolean | undefined;
}

export class Knowledge {
  private readonly contents = new Map<TensorId, readonly number[] | undefined>();
  private readonly shapes = new Map<TensorId, readonly Dim[] | undefined>();
  private readonly wanted = new Set<TensorId>();
  private readonly wantedShapes = new Set<TensorId>();
  /** Control flow that stays a region, with the reason. */
  private readonly staying = new Map<NodeId, string>();
  private readonly selections = new Map<NodeId, boolean>();
  private readonly wantedSelects = new Set<NodeId>();
  private readonly trials = new Map<NodeId, number>();
  private changed = false;

  contentsOf(tensor: TensorId): readonly number[] | undefined | typeof ASKED {
    if (this.contents.has(tensor)) return this.contents.get(tensor);
    this.wanted.add(tensor);
    return ASKED;
  }

  shapeOf(tensor: TensorId): readonly Dim[] | undefined | typeof ASKED {
    if (this.shapes.has(tensor)) return this.shapes.get(tensor);
    this.wantedShapes.add(tensor);
    return ASKED;
  }

  /** Whether a branch that only the data decides on becomes a selection among the results of both ways. */
  selects(branch: NodeId): boolean | typeof ASKED {
    const known = this.selections.get(branch);
    if (known !== undefined) return known;
    this.wantedSelects.add(branch);
    return ASKED;
  }

  stays(node: NodeId): boolean {
    return this.staying.has(node);
  }

  /** How many iterations of a loop to take on trial: few at first, more where all could be known. */
  trial(node: NodeId): number {
    const next = 4 * (this.trials.get(node) ?? 2);
    this.trials.set(node, next);
    return next;
  }

  /** Decides that a node isn't inlined, when that turned out after parts of it were. */
  leave(node: NodeId, reason: string): void {
    if (this.staying.has(node)) return;
    this.staying.set(node, reason);
    this.changed = true;
  }

  /** Whether the graph at hand is a draft. */
  get open(): boolean {
    return (
      this.changed ||
      this.wanted.size > 0 ||
      this.wantedShapes.size > 0 ||
      this.wantedSelects.size > 0
    );
  }

  /** `last`: what isn't known now won't be. */
  answer(answers: Answers, last: boolean): void {
    let news = this.changed;
    const open: TensorId[] = [];
    const openShapes: TensorId[] = [];
    for (const t of this.wanted) {
      const c = answers.contents(t);
      if (c) this.contents.set(t, c);
      else open.push(t);
      news ||= c !== undefined;
    }
    for (const t of this.wantedShapes) {
      const s = answers.shape(t);
      if (s) this.shapes.set(t, s);
      else openShapes.push(t);
      news ||= s !== undefined;
    }
    const openSelects: NodeId[] = [];
    for (const b of this.wantedSelects) {
      const yes = answers.selectable(b);
      if (yes === true) this.selections.set(b, true);
      else openSelects.push(b);
      news ||= yes === true;
    }
    if (!news || last) {
      for (const b of openSelects) this.selections.set(b, false);
      for (const t of open) this.contents.set(t, undefined);
      for (const t of openShapes) this.shapes.set(t, undefined);
    }
    this.wanted.clear();
    this.wantedShapes.clear();
    this.wantedSelects.clear();
    this.changed = false;
  }
}
