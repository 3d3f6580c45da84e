import { expect, test } from "vitest";
import { operationOf } from "./contract";
import { map } from "./map";
import { changed, loaded, open, pathOf, pressAll, signedIn, viewer } from "./screen";
import { serve } from "./server";

// demoted has the role of a viewer in each project that a response contains.
const demoted = changed((_, value) => (typeof value === "object" && value !== null && "role" in value ? { ...value, role: "viewer" } : value));

// AT-107: web/offered_test.go compares the list of the map with policies/roles.cue.
const allowed = new Set(map.viewer);

for (const { route, example, roles } of map.screens) {
  if (!roles.some((role) => ["user", "tenant.viewer", "project.viewer"].includes(role))) continue;
  test(`${route} offers a viewer no change that returns 403`, async () => {
    const calls = serve(signedIn(viewer, demoted));
    await open(example);
    await loaded();
    await pressAll();
    const changes = calls.filter(({ method, url }) => method !== "GET" && !url.endsWith("/refresh")).map((request) => operationOf(request.method, pathOf(request)).id);
    expect(changes.filter((operation) => !allowed.has(operation))).toEqual([]);
  });
}
