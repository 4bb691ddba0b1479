/** A training as the page knows it: asked once, then followed for as long as it trains and somebody looks. */
import { untrack } from "svelte";
import { ask, Failure, follow, type Schema } from "../../lib/ask";
import { asks, type Asked } from "../../lib/asked.svelte";

type Told = Schema["TrainingTold"];
type Curve = Schema["Curve"];

/** One piece of news, as the server sends it. */
export interface News {
  state: Schema["StateTold"];
  curve: Curve | null;
  snapshots: number[] | null;
  rewound: boolean;
  ended: boolean;
}

const AGAIN = 2_000;
/** Points that news may add before the curve is asked for anew, thinned. */
const MOST = 6_000;

/** Points put behind a curve; what it has of them already is not put there twice. */
export function joined(curve: Curve, more: Curve): Curve {
  const last = curve.step.at(-1) ?? -1;
  const from = more.step.findIndex((step) => step > last);
  if (from < 0) return curve;
  const names = Object.keys(curve) as (keyof Curve)[];
  return Object.fromEntries(names.map((name) => [name, [...curve[name], ...more[name].slice(from)]])) as unknown as Curve;
}

/** Whether news changes what only a whole answer tells: its baselines, its gap, a curve that is thin enough to be drawn. */
export function outdates(news: News, now: Told, points: number): boolean {
  // The gap is the server's: it is asked for again where a held-out loss has come.
  const measured = news.curve?.held_out.some((value) => value !== null) ?? false;
  if (news.rewound || news.ended || measured || points > MOST) return true;
  const hasText = now.baselines.some((each) => each.kind === "bigram");
  const hasMore = news.snapshots !== null && news.snapshots.length !== now.snapshots.length;
  // A text is there when training begins, not with every line of the log.
  return !hasText && (hasMore || news.state.phase !== now.state.phase);
}

export class Course {
  asked: Asked<Told>;
  /** What has come since the answer that it follows. */
  #news = $state.raw<{ of: Told; told: Told } | null>(null);
  #looking = $state(true);
  lost = $state(false);

  /** To be made while a component is. */
  constructor(id: () => string | null) {
    this.asked = asks(() => {
      const training = id();
      return training ? (signal) => ask("/api/training", { training }, signal) : null;
    });
    $effect(() => {
      const look = () => (this.#looking = document.visibilityState !== "hidden");
      look();
      document.addEventListener("visibilitychange", look);
      return () => document.removeEventListener("visibilitychange", look);
    });
    const followed = $derived(this.#toFollow(id()));
    $effect(() => {
      if (!followed) return;
      const control = new AbortController();
      const { training } = followed;
      void untrack(() => this.#follow(training, control.signal));
      return () => control.abort();
    });
  }

  /** The training as it is known now. */
  get told(): Told | null {
    const answer = this.asked.value;
    return this.#news && this.#news.of === answer ? this.#news.told : answer;
  }

  /** The answer that news is to follow. With each new one following begins anew, so that what came while it was on its way comes again. */
  #toFollow(id: string | null): Told | null {
    const answer = this.asked.value;
    // A browser keeps few connections to one server: a tab that nobody sees does not take one.
    return id && this.#looking && answer?.training === id && answer.state.phase !== "finished" ? answer : null;
  }

  async #follow(training: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const after = this.told?.curve.step.at(-1) ?? -1;
        for await (const news of follow<News>("/api/training/live", { training, after }, signal)) {
          this.lost = false;
          this.#hear(news);
          if (news.ended) return;
        }
      } catch (reason) {
        if (signal.aborted) return;
        this.lost = true;
        if (reason instanceof Failure && (reason.status === 404 || reason.status === 422)) return;
      }
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  #hear(news: News): void {
    const [answer, now] = [this.asked.value, this.told];
    if (!answer || !now) return;
    const curve = news.curve ? joined(now.curve, news.curve) : now.curve;
    const added = curve.step.length - now.curve.step.length;
    const told = { ...now, state: news.state, snapshots: news.snapshots ?? now.snapshots, curve, points: now.points + added };
    this.#news = { of: answer, told };
    // A question that is on its way is not called off by the next news: then a slow answer would never arrive.
    if (!this.asked.waiting && outdates(news, now, curve.step.length)) this.asked.again();
  }
}
