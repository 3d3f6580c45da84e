import { afterEach, beforeEach, expect, test } from "vitest";
import { map } from "./map";
import { texts } from "./mutate";
import { pseudo, unmarked } from "./pseudo";
import { changed, everything, loaded, open, signedIn } from "./screen";
import { serve } from "./server";

beforeEach(() => void (document.documentElement.dir = "rtl"));
afterEach(() => void (document.documentElement.dir = ""));

// shown is the text of the screen, without what is copied: commands, requests and addresses are in no language.
function shown(): string {
  const main = document.querySelector("#main")!.cloneNode(true) as HTMLElement;
  main.querySelectorAll("code, pre, style").forEach((element) => element.remove());
  // A choice of values of the API shows them as they are.
  main.querySelectorAll("option").forEach((option) => option.textContent === option.value && option.remove());
  return [...main.querySelectorAll("*")].flatMap(({ childNodes }) => [...childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ textContent }) => textContent)).join("\n");
}

// formatted are words that Intl makes of times, amounts and bytes.
const formatted = /^(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|EUR|GiB|MiB|KiB|TiB|ago|in|hr|min|sec|day|days|hours?|minutes?|seconds?|months?|years?|weeks?|yesterday|tomorrow|now|last|next|today)$/;

// identifiers are the values of a response that are in no language: kinds, roles, types of conditions, keys of labels.
const identifiers = (value: unknown): string[] =>
  typeof value === "string" ? (value.match(/\p{L}+/gu) ?? []) : typeof value !== "object" || value === null ? [] : Object.entries(value).flatMap(([name, each]) => [...(name === "labels" ? Object.keys(each as object) : []), ...identifiers(each)]);

for (const { route, example } of map.screens) {
  test(`${route} has no text from outside of the catalogue, and works from right to left`, async () => {
    const known = new Set(["Dev", "admin", "operator", "owner"]);
    serve(
      signedIn(everything, async (request) => {
        const reply = await changed(texts(() => "⟦x⟧"))(request);
        identifiers(reply.body).forEach((word) => known.add(word));
        return reply;
      }),
    );
    await open(example, pseudo);
    await loaded();
    const words = unmarked(shown()).match(/(?<![\p{L}\p{N}_.:/@-])\p{L}{3,}(?![\p{L}\p{N}_.:/@-])/gu) ?? [];
    expect([...new Set(words)].filter((word) => !formatted.test(word) && !known.has(word))).toEqual([]);
  });
}
