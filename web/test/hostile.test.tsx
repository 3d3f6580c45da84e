import { expect, test } from "vitest";
import { map } from "./map";
import { amounts, newer, repeated, sparse, texts } from "./mutate";
import { payloads } from "./payloads";
import { changed, everything, has, loaded, open, signedIn, text } from "./screen";
import { serve } from "./server";

// A control that turns the direction of the text, and more characters than a column has.
const long = `\u202eevil${"x".repeat(255)}`;
const extremes = [0, -1, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER];

// inert asserts that the page has nothing that a text of another user could have made.
function inert() {
  const attributes = [...document.querySelectorAll("*")].flatMap((element) => [...element.attributes].map(({ name, value }) => [name, value] as const));
  expect(attributes.filter(([name]) => name.startsWith("on") || name === "srcdoc")).toEqual([]);
  expect(attributes.filter(([name, value]) => ["href", "src", "action", "data"].includes(name) && /^\s*(javascript|data):/i.test(value.replaceAll(/[\t\n\r]/g, "")))).toEqual([]);
  for (const name of ["script", "img", "iframe", "object", "embed", "marquee", "base", "math", "video", "audio"]) expect(has(`#main ${name}`), name).toBe(false);
}

test("there are 40 payloads", () => expect(new Set(payloads).size).toBeGreaterThanOrEqual(40));

for (const { route, example } of map.screens) {
  test(`${route} shows hostile texts as text`, async () => {
    let executed = 0;
    Object.assign(window, { executed: () => executed++ });
    let next = 0;
    serve(signedIn(everything, changed(texts(() => payloads[next++ % payloads.length]!))));
    await open(example);
    await loaded();
    inert();
    expect(executed).toBe(0);
  });

  test(`${route} shows long texts with a control of direction`, async () => {
    serve(signedIn(everything, changed(texts(() => long))));
    await open(example);
    await loaded();
    if (text().includes("evil")) expect(text()).toContain(long);
  });

  test(`${route} shows values and fields of a newer server`, async () => {
    serve(signedIn(everything, changed(newer)));
    await open(example);
    await loaded();
  });

  test(`${route} shows lists that have an object twice`, async () => {
    serve(signedIn(everything, changed(repeated)));
    await open(example);
    await loaded();
  });

  test(`${route} shows amounts of any size as amounts`, async () => {
    let next = 0;
    serve(signedIn(everything, changed(amounts(() => extremes[next++ % extremes.length]!))));
    await open(example);
    await loaded();
    expect(text()).not.toMatch(/NaN|Infinity|∞|undefined/);
  });

  test(`${route} shows a response without optional fields`, async () => {
    serve(signedIn(everything, changed(sparse)));
    await open(example);
    await loaded();
  });
}
