/** Numbers of a head that are followed through a training. */
export const MEASURES = ["copying", "centred", "previous", "positions", "induction", "composition"] as const;
export type Measure = (typeof MEASURES)[number];
