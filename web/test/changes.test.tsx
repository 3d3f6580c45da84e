import { expect, test } from "vitest";
import { map } from "./map";
import { pause, until } from "./render";
import { everything, failing, has, loaded, open, pressAll, signedIn, succeeding, text } from "./screen";
import { serve } from "./server";

const statuses = [401, 403, 404, 409, 412, 429, 503];

const shown = '[data-state="error"], [data-state="restricted"], [data-state="rate_limited"], [role="alert"]';

// A change that fails is shown where it was made, and breaks no screen. Its error is one of the contract.
for (const { route, example } of map.screens) {
  test(`${route} shows the errors of its changes`, async () => {
    for (const status of statuses) {
      document.body.replaceChildren();
      const calls = serve(signedIn(everything, (request) => (request.method === "GET" ? succeeding : failing(status))(request)));
      await open(example);
      await loaded();
      await pressAll();
      await pause(20);
      expect(text(), String(status)).not.toContain("This screen failed");
      if (calls.some(({ method, url }) => method !== "GET" && !url.endsWith("/refresh"))) await until(() => has(shown));
    }
  });
}
