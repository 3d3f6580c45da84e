import { expect, test, vi } from "vitest";
import { mayDo } from "../src/session/may";
import { asked, open, shows, text } from "./operator";
import { button, click, enter, until } from "./render";
import { type Handler, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const predicate = { parts: [{ name: "requested", records: [{}] }, { name: "approved", records: [] }, { name: "audited", records: [{}, {}] }, "wrong"] };
const file = `${JSON.stringify({ payloadType: "application/vnd.in-toto+json", payload: btoa(JSON.stringify({ predicate })), signatures: [] })}\n`;
const signed = {
  id: "e1", urn: "u", kind: "revision", about: "core42:revision:7", requested_by: "<img src=x>", status: "signed", number: 41, sha256: "ab12", size_bytes: 2048, key_id: "k1", public_key: "AAAA",
  created_at: at, updated_at: at, signed_at: at,
};
const failed = { ...signed, id: "e2", status: "failed", number: undefined, failure_code: "unavailable", failure_message: "the object store is away" };
const list = "/api/v1/evidence";
const routes = (more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "ada@x", name: "Ada", role: "user" }, tenant: { id: "t1", name: "acme", role: "billing" } } }),
  "GET /api/v1/projects": () => ({ body: { items: [] } }),
  [`GET ${list}`]: () => ({ body: { items: [signed, failed] } }),
  [`GET ${list}/e1`]: () => ({ body: { ...signed, file } }),
  [`GET ${list}/e2`]: () => ({ body: failed }),
  ...more,
});

// saved replaces what stores a download, and returns the files that were stored.
function saved() {
  const blobs: Blob[] = [];
  const names: string[] = [];
  vi.spyOn(URL, "createObjectURL").mockImplementation((blob) => `blob:${blobs.push(blob as Blob)}`);
  vi.spyOn(URL, "revokeObjectURL").mockImplementation(() => undefined);
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) {
    names.push(this.download);
  });
  return { blobs, names };
}

test("the server filters, and a failure has its reason", async () => {
  const calls = serve(routes());
  await open("/evidence?kind=revision&status=failed");
  await shows("Failed: the object store is away");
  expect(document.querySelector("table img")).toBeNull();
  const sent = asked(calls, list)[0];
  expect([sent?.get("kind"), sent?.get("status"), sent?.get("about")]).toEqual(["revision", "failed", null]);
  expect(text()).toContain("gpuaas evidence list --kind 'revision' --status 'failed'");
  await enter("URN, id, revision or keys", "7");
  await click(button("Filter"));
  await until(() => asked(calls, list).some((query) => query.get("about") === "7"));
});

test("a bundle is stored as it is, with its key", async () => {
  serve(routes());
  const { blobs, names } = saved();
  await open("/evidence/e1");
  await shows("Requested");
  await until(() => text().includes("2 records") && text().includes("no records"));
  await click(button("Download the bundle"));
  await until(() => blobs.length === 1);
  await click(button("Download the public key"));
  await until(() => blobs.length === 2);
  expect(names).toEqual(["bundle.json", "evidence.keys"]);
  expect(await Promise.all(blobs.map((blob) => blob.text()))).toEqual([file, "k1 AAAA\n"]);
});

test("a file that is no bundle is offered, and its parts are not", async () => {
  serve(routes({ [`GET ${list}/e1`]: () => ({ body: { ...signed, file: "{}" } }) }));
  await open("/evidence/e1");
  await until(() => button("Download the bundle") !== undefined);
  expect(document.querySelectorAll("dl.facts")).toHaveLength(1);
});

test("a failed bundle has no file", async () => {
  serve(routes());
  await open("/evidence/e2");
  await shows("The records cannot be collected.");
  await shows("the object store is away");
  expect(text()).not.toContain("Download the bundle");
});

test("tenants and operators open the screen, and members do not", () => {
  const roles = { tenant: "", projects: [] };
  expect(["owner", "billing", "member", "viewer"].map((tenant) => mayDo("listEvidence", { ...roles, tenant }))).toEqual([true, true, false, false]);
  expect(["admin", "operator", "billing_operator", "user"].map((platform) => mayDo("listEvidence", { ...roles, platform }))).toEqual([true, true, true, false]);
});
