import { expect, test } from "vitest";
import { valueOf } from "../src/screens/admin/policy/value";
import { button, click, enter, until } from "./render";
import { confirmButton, labelled, open, opens, shows, text, written } from "./operator";
import { type Handler, problem, serve } from "./server";

const git = { owner: "git", source: "fleet", commit: "9f3c", path: "policies/gpus.cue", line: 7 };
const caps = {
  key: "allocation.max_gpus", meaning: "maximum number of GPUs", type: "int", default: 8, minimum: 1, maximum: 1_024, unit: "GPUs", scopes: ["platform", "tenant"], cap: "max", readers: ["product/allocation.LimitsFrom"],
  set: [
    { scope: "platform", value: 16, object: "gpus", version: 3, source: git },
    { scope: "tenant:t2", value: 4, object: "gpus-t2", version: 5, source: { owner: "api" } },
  ],
};
const idle = { key: "app.slurm_enabled", meaning: "Slurm", type: "bool", default: false, scopes: ["platform"], readers: [], set: [], not_in_force: "apps do not exist" };
const source = { name: "fleet", repository: "r", ref: "main", forge: { kind: "github", project: "acme/fleet", url: "https://git.example" }, conditions: [] };
const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "op@x", name: "Op", role } } }),
  "GET /api/v1/admin/policies": () => ({ body: { items: [caps, idle] } }),
  "GET /api/v1/admin/git-sources": () => ({ body: { items: [source] } }),
  ...more,
});

test("a policy shows value, scope, source, readers and effect", async () => {
  serve(routes("operator"));
  await open("/admin/policies");
  await shows("16 GPUs");
  for (const part of ["product/allocation.LimitsFrom", "maximum number of GPUs", "off (default)"]) expect(text()).toContain(part);
  await until(() => document.querySelector('a[href$="#L7"]') !== null);
  expect(document.querySelector<HTMLAnchorElement>('a[href$="#L7"]')?.href).toBe("https://git.example/acme/fleet/blob/9f3c/policies/gpus.cue#L7");
});

test("operators read policies, and are offered no change", async () => {
  serve(routes("operator"));
  await open("/admin/policies/allocation.max_gpus");
  await shows("A narrower scope can only have a smaller value.");
  expect(text()).toContain("tenant:t2");
  expect(text()).not.toContain("Set a value");
  expect(labelled("Remove tenant:t2")).toBeNull();
});

test("where Git has the value, the form is its file and line", async () => {
  serve(routes("admin"));
  await open("/admin/policies/allocation.max_gpus");
  await shows("Git has the value of this scope");
  expect(button("Set the value")).toBeUndefined();
  expect(labelled("Remove platform")).toBeNull();
});

test("a value of the API is changed in the version on the screen", async () => {
  const replies = [problem(412, "version_mismatch"), { body: caps }];
  const calls = serve(routes("admin", { "PUT /api/v1/admin/policies/allocation.max_gpus": () => replies.shift()! }));
  await open("/admin/policies/allocation.max_gpus");
  await shows("Set a value");
  await enter("Scope", "tenant");
  expect(button("Set the value")?.disabled).toBe(true);
  await enter("Name or id", " t2 ");
  for (const [value, disabled] of [["0", true], ["1025", true], ["1.5", true], ["x", true], ["2", false]] as const) {
    await enter("Value", value);
    expect(button("Set the value")?.disabled).toBe(disabled);
  }
  await click(button("Set the value"));
  await shows("allocation.max_gpus of tenant:t2 becomes 2 GPUs. It was 4 GPUs.");
  await click(confirmButton());
  await shows("message of version_mismatch");
  await click(confirmButton());
  await shows("allocation.max_gpus is set.");
  expect(await written(calls)[1]?.json()).toEqual({ scope: "tenant:t2", value: 2 });
  expect(written(calls)[1]?.headers.get("If-Match")).toBe('"5"');
});

test("a value that was absent does not overwrite one that was set meanwhile", async () => {
  let set = caps.set;
  const calls = serve(
    routes("admin", {
      "GET /api/v1/admin/policies": () => ({ body: { items: [{ ...caps, set }] } }),
      "PUT /api/v1/admin/policies/allocation.max_gpus": () => problem(412, "version_mismatch"),
    }),
  );
  await open("/admin/policies/allocation.max_gpus");
  await shows("Set a value");
  await enter("Scope", "tenant");
  await enter("Name or id", "t3");
  await enter("Value", "2");
  await click(button("Set the value"));
  await shows("It was without a value.");
  set = [...caps.set, { scope: "tenant:t3", value: 5, object: "gpus-t3", version: 1, source: { owner: "api" } }];
  await click(confirmButton());
  await shows("message of version_mismatch");
  expect(written(calls)[0]?.headers.get("If-None-Match")).toBe("*");
  expect(written(calls)[0]?.headers.get("If-Match")).toBeNull();
});

test("what is entered for a policy stays over a sign-in", async () => {
  serve(routes("admin"));
  await open("/admin/policies/allocation.max_gpus");
  await shows("Set a value");
  await enter("Scope", "tenant");
  await enter("Name or id", "t2");
  await enter("Value", "3");
  document.body.replaceChildren();
  await open("/admin/policies/allocation.max_gpus");
  await shows("Set a value");
  await click(button("Set the value"));
  await shows("allocation.max_gpus of tenant:t2 becomes 3 GPUs.");
});

test("a value of the API is removed", async () => {
  const calls = serve(routes("admin", { "DELETE /api/v1/admin/desired/Policy/gpus-t2": () => ({ status: 202, body: {} }) }));
  await open("/admin/policies/allocation.max_gpus");
  await opens("Remove tenant:t2");
  await click(confirmButton());
  await shows("The value of tenant:t2 is removed.");
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"5"');
});

test("a key that has no effect has the reason, and no form", async () => {
  serve(routes("admin"));
  await open("/admin/policies/app.slurm_enabled");
  await shows("apps do not exist");
  expect(text()).not.toContain("Set a value");
});

test("values of all types are read", () => {
  const of = (type: string, more: object = {}) => (entered: string) => valueOf({ ...caps, type, minimum: undefined, maximum: undefined, ...more } as never, entered);
  expect(["true", "false", "1"].map(of("bool"))).toEqual([true, false, undefined]);
  expect(["-5", "", "1e3"].map(of("minor"))).toEqual([-5, undefined, undefined]);
  expect(["a", "c"].map(of("enum", { values: ["a", "b"] }))).toEqual(["a", undefined]);
  expect(["a, b", "", "a,c"].map(of("list", { values: ["a", "b"] }))).toEqual([["a", "b"], [], undefined]);
  expect(["", "pwd otp"].map(of("text"))).toEqual(["", "pwd otp"]);
});
