import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { newRouter } from "../src/routes/router";
import { forecast } from "../src/screens/files/forecast";
import { requestOf } from "../src/screens/storage-keys/create";
import { commandsOf, variablesOf } from "../src/screens/storage-keys/tools";
import { button, click, enter, render, until } from "./render";
import { type Handler, problem, serve } from "./server";

const open = (path: string) => render(<RouterProvider router={newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] })) as never} />);
const text = () => document.body.textContent ?? "";
const shows = (part: string) => until(() => text().includes(part));
const labelled = (label: string) => document.querySelector(`[aria-label="${label}"]`);
const written = (calls: Request[]) => calls.filter(({ method }) => method !== "GET");

const at = "2026-01-05T09:00:00Z";
const key = { id: "k1", urn: "u", name: "training", access_key_id: "GPUAOLD", read_only: false, prefix: "data", created_by: "user:u", created_at: at, updated_at: at };
const usage = { bytes: 7 * 2 ** 30, reserved_bytes: 0, objects: 3, quota_bytes: 2 ** 40, quota_objects: 10, tenant: { bytes: 0, objects: 0, quota_bytes: 1, quota_objects: 1 } };
const offer = { id: "c", urn: "u", name: "standard", display_name: "Standard", price: { amount_minor: 3, currency: "EUR" }, free_gib: 5, retention_days: 14, default: true, created_at: at, updated_at: at };

const routes = (more: Record<string, Handler> = {}, role = "member"): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "ada@x", name: "Ada", role: "user" }, tenant: { id: "t1", name: "acme", role: "member" } } }),
  "GET /api/v1/projects": () => ({ body: { items: [{ id: "p1", name: "vision", role }, { id: "p2", name: "text", role }] } }),
  "GET /api/v1/storage/keys": () => ({ body: { items: [key] } }),
  "GET /api/v1/storage/list": () => ({ body: { items: [] } }),
  "GET /api/v1/storage/usage": () => ({ body: usage }),
  "GET /api/v1/storage-classes": () => ({ body: { items: [{ ...offer, name: "cold", display_name: "Cold", default: false }, offer] } }),
  ...more,
});

test("a key is created in its project, and its variables are shown once", async () => {
  const calls = serve(routes({ "POST /api/v1/storage/keys": () => ({ status: 201, body: { ...key, name: "new", access_key_id: "GPUANEW", secret_access_key: "gpo_secret" } }) }));
  await open("/files/keys?project=p2");
  await shows("GPUAOLD");
  await enter("Name of the key", "new");
  await enter("Folder of the key", "/data/");
  await click(button("Create the access key"));
  await shows("export AWS_SECRET_ACCESS_KEY=gpo_secret");
  expect(text()).toContain("rclone lsf :s3:text/data");
  expect(text()).toContain("Replace S3-ENDPOINT by the domain name");
  const [creation] = written(calls);
  expect(creation?.headers.get("X-Project-ID")).toBe("p2");
  expect(await creation?.json()).toEqual({ name: "new", read_only: true, prefix: "data", ttl_seconds: 90 * 86_400 });
  // A second creation would replace the secret.
  expect(button("Create the access key")).toBeUndefined();
  await click(button("I have copied it"));
  expect(text()).not.toContain("gpo_secret");
  expect(JSON.stringify({ ...sessionStorage, ...localStorage })).not.toContain("gpo_secret");
});

test("the variables have the endpoint of the platform, and no placeholder", async () => {
  serve(routes({ "POST /api/v1/storage/keys": () => ({ status: 201, body: { ...key, name: "new", secret_access_key: "gpo_secret", endpoint: "https://s3.example:8480" } }) }));
  await open("/files/keys?project=p1");
  await shows("GPUAOLD");
  await enter("Name of the key", "new");
  await click(button("Create the access key"));
  await shows("export AWS_ENDPOINT_URL=https://s3.example:8480");
  expect(text()).toContain("These commands list the files.");
  expect(text()).not.toContain("S3-ENDPOINT");
});

test("a creation that needs a recent sign-in offers it and keeps the input", async () => {
  serve(routes({ "POST /api/v1/storage/keys": () => problem(403, "step_up_required") }));
  await open("/files/keys?project=p1");
  await shows("GPUAOLD");
  await enter("Name of the key", "new");
  await click(button("Create the access key"));
  await until(() => [...document.querySelectorAll("a")].some(({ textContent, href }) => textContent === "Sign in" && href.includes("sign-in")));
  expect(JSON.stringify({ ...sessionStorage })).toContain('\\"name\\":\\"new\\"');
});

test("a key is revoked after its name was typed", async () => {
  const calls = serve(routes({ "DELETE /api/v1/storage/keys/k1": () => ({ status: 204 }) }));
  await open("/files/keys?project=p1");
  await until(() => labelled("Revoke training") !== null);
  await click(labelled("Revoke training"));
  const confirm = () => document.querySelector<HTMLButtonElement>('[role="dialog"] button[type="submit"]');
  await until(() => confirm() !== null);
  expect(confirm()?.disabled).toBe(true);
  await enter("training", "training");
  await click(confirm());
  await shows("The access key training is revoked.");
  expect(written(calls)[0]?.headers.get("X-Project-ID")).toBe("p1");
});

test("a viewer sees the keys and changes none", async () => {
  serve(routes({}, "viewer"));
  await open("/files/keys?project=p1");
  await shows("GPUAOLD");
  expect(labelled("Revoke training")).toBeNull();
  expect(button("Create the access key")).toBeUndefined();
});

test("the files have the price of the default class and a forecast", async () => {
  serve(routes());
  await open("/files?project=p1");
  await shows("Standard");
  expect(text()).toContain("€0.06");
  expect(text()).not.toContain("Cold");
});

test("a forecast is exact and charges no free bytes", () => {
  expect(forecast(5 * 2 ** 30, offer)).toBe(0);
  expect(forecast(6 * 2 ** 30 - 1, offer)).toBe(2);
  expect(forecast(6 * 2 ** 30, offer)).toBe(3);
  expect(forecast(2 ** 52, { free_gib: 0, price: { amount_minor: 1_000_001, currency: "EUR" } })).toBe(4_194_308_194_304);
});

test("the variables and commands are lines of a shell", () => {
  expect(variablesOf({ access_key_id: "A", secret_access_key: "S" }).split("\n").every((line) => line.startsWith("export "))).toBe(true);
  expect(variablesOf({ access_key_id: "A", secret_access_key: "S", endpoint: "https://s3.x/$(y)" })).toContain("AWS_ENDPOINT_URL='https://s3.x/$(y)'");
  expect(commandsOf({ id: "0199", name: "ml" }).aws).toBe("aws s3 ls s3://0199/");
  expect(commandsOf({ id: "0199", name: "text" }, "it's $(x)").rclone).toBe("rclone lsf ':s3:text/it'\\''s $(x)'");
});

test("a request has the folder without slashes at its ends, and no folder for all files", () => {
  expect(requestOf({ name: " n ", folder: "//a/b/", scope: "write", days: "" })).toEqual({ name: "n", read_only: false, prefix: "a/b" });
  expect(requestOf({ name: "n", folder: "/", scope: "read", days: "1" })).toEqual({ name: "n", read_only: true, ttl_seconds: 86_400 });
});
