import { act } from "react";
import { expect, test } from "vitest";
import { map } from "./map";
import { until } from "./render";
import { everything, failing, loaded, open, signedIn, succeeding } from "./screen";
import { serve } from "./server";

// Other tests send what the dialogs send. Here each change fails, so that a button opens no other page.
const dialog = () => document.querySelector('[role="dialog"]');
let dialogs = 0;

const escape = () => act(async () => void document.activeElement!.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true, cancelable: true })));

for (const { route, example } of map.screens) {
  test(`each dialog of ${route} has the focus, and returns it`, async () => {
    serve(signedIn(everything, (request) => (request.method === "GET" ? succeeding : failing(409))(request)));
    await open(example);
    await loaded();
    for (const button of document.querySelectorAll<HTMLButtonElement>('#main button:not([type="submit"])')) {
      if (!button.isConnected || button.disabled) continue;
      await act(async () => {
        button.focus();
        button.click();
      });
      if (dialog() === null) continue;
      dialogs++;
      await until(() => dialog()?.contains(document.activeElement) === true);
      await escape();
      await until(() => dialog() === null && document.activeElement === button);
    }
  }, 20_000);
}

test("the screens have dialogs", () => expect(dialogs).toBeGreaterThan(20));
