import { IntlMessageFormat } from "intl-messageformat";
import { expect, test } from "vitest";
import { ConfirmByName } from "../src/components/system/confirm";
import en from "../src/i18n/en";
// @ts-expect-error the script has no types
import { literals } from "../scripts/literals.mjs";
import { each, pseudo, unmarked } from "./pseudo";
import { button, render } from "./render";

test("every text of the catalogue is valid ICU", () => {
  each(en, (text) => (new IntlMessageFormat(text, "en"), text));
});

test("a dialog has no text from outside of the catalogue, and works from right to left", async () => {
  document.documentElement.dir = "rtl";
  await render(
    <ConfirmByName opened title="⟦t⟧" name="calm-otter" action="⟦a⟧" pending={false} error={null} onConfirm={() => {}} onClose={() => {}}>
      <p>⟦p⟧</p>
    </ConfirmByName>,
    pseudo,
  );
  const text = document.querySelector('[role="dialog"]')?.textContent ?? "";
  expect(unmarked(text).trim()).toBe("");
  expect(button("⟦a⟧")?.disabled).toBe(true);
  document.documentElement.dir = "";
});

test("a text in a component is rejected", () => {
  expect(literals("a.tsx", `const A = () => <p title="Some title">{"Hello"} World <b>{t("ok")}</b></p>;`)).toHaveLength(3);
  expect(literals("a.tsx", `const A = () => <p className="row">{t("ok")}, · </p>;`)).toEqual([]);
});

test("texts have no address of another site", () => {
  expect(JSON.stringify(en)).not.toMatch(/https?:/);
});
