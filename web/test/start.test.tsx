import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { newRouter } from "../src/routes/router";
import { cueOf, emptyDraft } from "../src/screens/launch/request";
import { button, click, enter, render, until } from "./render";
import { type Handler, problem, serve } from "./server";

const open = (path: string) => render(<RouterProvider router={newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] })) as never} />);
const ok = (data: object) => ({ status: "ok", operation: "o", data });
const money = { amount_minor: 100, currency: "EUR" };
const times = { created_at: "2026-01-05T09:00:00Z", updated_at: "2026-01-05T09:00:00Z", urn: "urn:x" };
const allocation = { id: "a", name: "calm-otter", status: "active", sku: "t4", gpus: 1, region: "eu-1", price: money, cost: money, labels: {}, status_at: times.created_at, ...times };
const project = { id: "p", name: "speech", description: "old", role: "admin", version: 7, ...times };
const account = { id: "s", project_id: "p", name: "ci", description: "", scopes: ["allocations:read"], disabled: false, version: 1, ...times };
const sku = { id: "s", name: "t4", display_name: "NVIDIA T4", gpu_model: "T4", memory_gib: 16, isolation: "slice_vm", max_gpus: 4, price: money, free: 3, regions: [{ region: "eu-1", total: 8, free: 3 }], ...times };
const limits = { currency: "EUR", hourly_spend_minor: 0, monthly_budget_minor: 0, effective_hourly_spend_minor: 0, effective_monthly_budget_minor: 0, committed_per_hour_minor: 0, spent_this_month_minor: 0, version: "5" };

const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "dev@x", name: "Dev" }, tenant: { id: "t", name: "t", role } } }),
  "GET /api/v1/projects": () => ({ body: { items: [project] } }),
  "GET /api/v3/access/projects/p": () => ({ body: { project: ok(project), members: ok({ items: [] }), service_accounts: ok({ items: [] }) } }),
  "GET /api/v1/billing/limits": () => ({ body: limits }),
  "GET /api/v1/service-accounts/s": () => ({ body: account }),
  "GET /api/v3/compute/launch": () => ({ body: { skus: ok({ items: [sku] }), capacity: ok({ items: [{ sku: "t4", region: "eu-1", nodes: 2, total: 8, free: 3 }] }), ssh_keys: ok({ items: [] }) } }),
  "*": () => ({ body: { items: [] } }),
  ...more,
});

const overview = (items: object[], keys: object[], amount_minor: number, next_cursor?: string) => ({
  allocations: ok({ items, next_cursor }),
  balance: ok({ amount_minor, currency: "EUR", burn_per_hour_minor: 0 }),
  ssh_keys: ok({ items: keys }),
  projects: ok({ items: [project] }),
});

const shows = (text: string) => until(() => document.body.textContent?.includes(text) === true);
const written = (calls: Request[]) => calls.filter(({ method }) => method !== "GET");
const link = (text: string) => [...document.querySelectorAll("main a")].find(({ textContent }) => textContent === text)?.getAttribute("href");

test("an empty account has a next step", async () => {
  serve(routes("owner", { "GET /api/v3/compute/overview": () => ({ body: overview([], [], 0) }) }));
  await open("/");
  await shows("Next steps");
  expect(document.querySelector('[aria-current="step"]')?.textContent).toBe("Add an SSH key, with which you sign in");
  expect([link("Top up the balance"), link("Launch an allocation")]).toEqual(["/portal/billing", "/portal/launch"]);
  expect(document.body.textContent).toContain("You have a project.");
});

test("a viewer without rights has no next step but a key", async () => {
  serve(routes("viewer", { "GET /api/v1/projects": () => ({ body: { items: [] } }), "GET /api/v3/compute/overview": () => ({ body: overview([], [{ id: "k" }], 0) }) }));
  await open("/");
  await shows("No allocation is active.");
  expect(document.body.textContent).not.toContain("Next steps");
});

test("home adds up the GPUs and the price of what is active", async () => {
  const items = [{ ...allocation, gpus: 2 }, { ...allocation, id: "b", gpus: 3, price: { ...money, amount_minor: 250 } }, { ...allocation, id: "c", status: "requested", gpus: 8 }];
  serve(routes("owner", { "GET /api/v3/compute/overview": () => ({ body: overview(items, [{ id: "k" }], 1) }) }));
  await open("/");
  await shows("2 allocations are active: 5 GPUs, €9.50 per hour.");
});

test("home says that there are more allocations than it lists", async () => {
  serve(routes("owner", { "GET /api/v3/compute/overview": () => ({ body: overview([allocation], [{ id: "k" }], 1, "c") }) }));
  await open("/");
  await shows("The newest one is listed. There are more.");
  expect(document.body.textContent).not.toContain("1 allocation is active");
  expect(link("All active allocations")).toBe("/portal/allocations?status=active");
  expect(document.body.textContent).not.toContain("Next steps");
});

test("the request in CUE is that of the API", () => {
  expect(cueOf({ ...emptyDraft, sku: "t4", gpus: "2", queue: true })).toBe('sku:         "t4"\ngpus:        2\nttl_seconds: 7200\nqueue:       true');
  expect(cueOf({ ...emptyDraft, sku: 't"4', hours: "" })).toBe('sku:  "t\\"4"\ngpus: 1');
});

test("an offer shows its isolation and its nodes, and the request is copied as CUE", async () => {
  const calls = serve(routes("owner"));
  await open("/launch");
  await shows("eu-1: 3 of 8 GPUs free in 2 nodes");
  await shows("A virtual machine of its own");
  await shows("Without an SSH key you cannot sign in");
  expect(calls.some(({ url }) => url.endsWith("/api/v1/skus"))).toBe(false);
  await click(document.querySelector('input[type="radio"]'));
  await shows("cue export request.cue");
});

test("an error of a mount names its line or its field, the cause and the next step", async () => {
  serve(routes("owner", { "POST /api/v1/allocations/preview": () => problem(403, "forbidden", { field: "mounts[0]", suggestion: "mount the folder read-only" }) }));
  await open("/launch");
  await shows("eu-1: 3 of 8 GPUs free in 2 nodes");
  await click(document.querySelector('input[type="radio"]'));
  await enter("Files in its home", "dataset:data\nnotes");
  await shows("The line notes is not FOLDER:NAME or FOLDER:NAME:ro. Write, for example, dataset:data:ro.");
  await shows("Correct the fields above first.");
  await enter("Files in its home", "dataset:data");
  await shows("message of forbidden");
  await shows("Field: mounts[0]");
  await shows("mount the folder read-only");
});

test("a project gets another name in the version of the opened form", async () => {
  const calls = serve(routes("owner", { "PATCH /api/v1/projects/p": () => ({ body: { ...project, name: "vision", version: 8 } }) }));
  await open("/projects/p");
  await until(() => button("Change name and description") !== undefined);
  await click(button("Change name and description"));
  expect(button("Save the project")?.disabled).toBe(true);
  await enter("New name", "vision");
  await click(button("Save the project"));
  await shows("The project vision is changed.");
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"7"');
  expect(await written(calls)[0]?.json()).toEqual({ name: "vision" });
  await click(button("Undo"));
  await until(() => written(calls).length === 2);
  expect(await written(calls)[1]?.json()).toEqual({ name: "speech", description: "old" });
});

test("a stale form of a project changes nothing, and keeps its input", async () => {
  serve(routes("owner", { "PATCH /api/v1/projects/p": () => problem(412, "version_mismatch") }));
  await open("/projects/p");
  await until(() => button("Change name and description") !== undefined);
  await click(button("Change name and description"));
  await enter("New name", "vision");
  await click(button("Save the project"));
  await shows("message of version_mismatch");
  expect([...document.querySelectorAll("input")].some(({ value }) => value === "vision")).toBe(true);
});

test("limits of a project are those of the project", async () => {
  const calls = serve(routes("owner", { "PUT /api/v1/billing/limits": () => ({ body: limits }) }));
  await open("/projects/p");
  await shows("Set the limits of the project");
  await enter("Per hour in EUR", "10");
  await click(button("Set the limits"));
  await shows("The limits are set.");
  const [put] = written(calls);
  expect(new URL(put!.url).searchParams.get("project_id")).toBe("p");
  expect(put?.headers.get("If-Match")).toBe('"5"');
  expect(await put?.json()).toEqual({ currency: "EUR", hourly_spend_minor: 1_000, monthly_budget_minor: 0 });
});

test("an admin of a project without a role in billing reads no limits", async () => {
  const calls = serve(routes("member"));
  await open("/projects/p");
  await shows("Change name and description");
  expect(calls.some(({ url }) => url.includes("/billing/limits"))).toBe(false);
});

test("a credential for the jobs of a forge has no secret", async () => {
  const calls = serve(routes("owner", { "POST /api/v1/service-accounts/s/credentials": () => ({ status: 201, body: { id: "c", ...times } }) }));
  await open("/service-accounts/s");
  await shows("Create the credential");
  await enter("Kind of the credential", "jobs");
  await shows("GPUAAS_SERVICE_ACCOUNT=s");
  await enter("Issuer of the tokens", "javascript:alert(1)");
  await enter("Subject of the tokens", "repo:acme/fleet:*");
  expect(button("Create the credential")?.disabled).toBe(true);
  await enter("Issuer of the tokens", "https://token.example");
  await click(button("Create the credential"));
  await shows("The credential is created.");
  expect(await written(calls)[0]?.json()).toEqual({ ttl_seconds: 7_776_000, federation: { issuer: "https://token.example", subject: "repo:acme/fleet:*" } });
  expect(button("I have copied it")).toBeUndefined();
});
