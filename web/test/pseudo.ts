import en from "../src/i18n/en";

export type Texts = { [name: string]: string | Texts };

export const each = (texts: Texts, change: (text: string) => string): Texts =>
  Object.fromEntries(Object.entries(texts).map(([name, value]) => [name, typeof value === "string" ? change(value) : each(value, change)]));

// pseudo marks every text of the catalogue, so that a text from elsewhere is visible.
export const pseudo = each(en, (text) => `⟦${text}⟧`) as unknown as typeof en;

// unmarked returns what is outside of all marks.
export function unmarked(text: string): string {
  const without = text.replaceAll(/⟦[^⟦⟧]*⟧/g, " ");
  return without === text ? text : unmarked(without);
}
