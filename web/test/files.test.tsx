import { createHash } from "node:crypto";
import { act } from "react";
import { expect, test, vi } from "vitest";
import { asked, confirmButton, labelled, open, opens, shows, text, written } from "./operator";
import { button, click, enter, until } from "./render";
import { type Handler, problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const object = (name: string, more: object = {}) => ({ id: name, urn: "u", path: `data/${name}`, name, type: "file", size_bytes: 2048, etag: `"${name}"`, created_by: "user:u", created_at: at, updated_at: at, ...more });
const usage = { bytes: 2048, reserved_bytes: 1024, objects: 3, quota_bytes: 1 << 20, quota_objects: 10, tenant: { bytes: 4096, objects: 4, quota_bytes: 1 << 20, quota_objects: 10 } };
const routes = (more: Record<string, Handler> = {}, role = "member"): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "ada@x", name: "Ada", role: "user" }, tenant: { id: "t1", name: "acme", role: "member" } } }),
  "GET /api/v1/projects": () => ({ body: { items: [{ id: "p1", name: "vision", role }, { id: "p2", name: "text", role }] } }),
  "GET /api/v1/storage/list": () => ({ body: { items: [object("train", { type: "folder", size_bytes: 0 }), object("<b>a</b>.bin")] } }),
  "GET /api/v1/storage/usage": () => ({ body: usage }),
  ...more,
});

// choose selects files as the dialog of a browser does.
async function choose(...files: File[]) {
  const input = document.querySelector<HTMLInputElement>('input[type="file"]')!;
  Object.defineProperty(input, "files", { value: files, configurable: true });
  await act(async () => void input.dispatchEvent(new Event("change", { bubbles: true })));
}

test("a folder is listed in its project, with the folders above it and the quota", async () => {
  const calls = serve(routes());
  await open("/files?path=data&project=p2");
  await shows("<b>a</b>.bin");
  expect(document.querySelector("table b")).toBeNull();
  expect(text()).toContain("3 KiB of 1 MiB");
  expect(asked(calls, "/api/v1/storage/list")[0]?.get("prefix")).toBe("data");
  expect(calls.find(({ url }) => url.includes("/storage/list"))?.headers.get("X-Project-ID")).toBe("p2");
  const link = [...document.querySelectorAll("a")].find((each) => each.textContent === "train/");
  expect(link?.getAttribute("href")).toContain("path=data%2Ftrain");
});

// The API rejects an empty parameter.
test("the outermost folder is listed without a path", async () => {
  const calls = serve(routes());
  await open("/files?project=p1");
  await shows("<b>a</b>.bin");
  expect(asked(calls, "/api/v1/storage/list")[0]?.has("prefix")).toBe(false);
});

test("a file is downloaded by a signed URL", async () => {
  const assign = vi.fn();
  vi.stubGlobal("location", { ...location, origin: location.origin, pathname: "/portal/files", assign });
  const calls = serve(routes({ "POST /api/v1/storage/sign": () => ({ body: { url: "https://x/signed?grant=g", method: "GET", expires_at: at } }) }));
  await open("/files?path=data&project=p1");
  await until(() => labelled("Download <b>a</b>.bin") !== null);
  await click(labelled("Download <b>a</b>.bin"));
  await until(() => assign.mock.calls.length === 1);
  expect(assign).toHaveBeenCalledWith("https://x/signed?grant=g");
  expect(await written(calls)[0]?.json()).toEqual({ path: "data/<b>a</b>.bin" });
});

test("files are uploaded to the folder, and do not replace others unless the user chooses it", async () => {
  const calls = serve(routes({ "PUT /api/v1/storage/upload": (request) => (request.url.includes("two") ? problem(412, "version_mismatch") : { status: 201, body: object("one") }) }));
  await open("/files?path=data&project=p1");
  await shows("Choose files");
  await choose(new File(["one"], "one.txt", { type: "text/plain" }), new File(["two"], "two"));
  await shows("data/one.txt: 3 B are stored.");
  await shows("message of version_mismatch");
  const [first] = written(calls);
  expect(new URL(first!.url).searchParams.get("path")).toBe("data/one.txt");
  expect(first?.headers.get("If-None-Match")).toBe("*");
  expect(first?.headers.get("Content-Type")).toBe("text/plain");
  expect(await first?.text()).toBe("one");
});

test("a file is renamed in its version, and a folder is deleted by its name", async () => {
  const calls = serve(routes({ "POST /api/v1/storage/rename": () => ({ body: object("b.bin") }), "DELETE /api/v1/storage/delete": () => ({ body: object("train", { deleted_at: at }) }) }));
  await open("/files?path=data&project=p1");
  await opens("Rename <b>a</b>.bin");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("New path", "data/b.bin");
  await click(confirmButton());
  await shows("is renamed");
  expect(await written(calls)[0]?.json()).toEqual({ from: "data/<b>a</b>.bin", to: "data/b.bin" });
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"<b>a</b>.bin"');
  await opens("Delete train");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("train", "train");
  await click(confirmButton());
  await shows("train is deleted.");
  expect(new URL(written(calls)[1]!.url).searchParams.get("recursive")).toBe("true");
});

test("a folder is created below the one that is shown", async () => {
  const calls = serve(routes({ "POST /api/v1/storage/mkdir": () => ({ status: 201, body: object("new", { type: "folder" }) }) }));
  await open("/files?path=data&project=p1");
  await shows("Name of the folder");
  await enter("Name of the folder", "new");
  await click(button("Create the folder"));
  await shows("The folder new is created.");
  expect(await written(calls)[0]?.json()).toEqual({ path: "data/new" });
});

test("a viewer changes nothing", async () => {
  serve(routes({}, "viewer"));
  await open("/files?path=data&project=p1");
  await shows("<b>a</b>.bin");
  expect(labelled("Delete train")).toBeNull();
  expect(button("Choose files")).toBeUndefined();
});

test("a deleted file is restored", async () => {
  const calls = serve(routes({ "GET /api/v1/storage/list": () => ({ body: { items: [object("old", { deleted_at: at, purge_at: at })] } }), "POST /api/v1/storage/restore": () => ({ body: object("old") }) }));
  await open("/files/deleted?project=p1");
  await until(() => labelled("Restore old") !== null);
  await click(labelled("Restore old"));
  await shows("old is restored.");
  expect(asked(calls, "/api/v1/storage/list")[0]?.get("deleted")).toBe("true");
  expect(await written(calls)[0]?.json()).toEqual({ object_id: "old" });
});

test("a large file is sent in parts, and a lost one is sent again", async () => {
  const lost = new Set(["2"]);
  const one = "/api/v1/storage/uploads/u1";
  const part = (number: string): Handler => () => (lost.delete(number) ? problem(503, "unavailable") : { body: { number } });
  const calls = serve(routes({
    "POST /api/v1/storage/uploads": () => ({ status: 201, body: { id: "u1", part_size_bytes: 16 << 20 } }),
    [`PUT ${one}/parts/1`]: part("1"), [`PUT ${one}/parts/2`]: part("2"), [`PUT ${one}/parts/3`]: part("3"),
    [`POST ${one}/complete`]: () => ({ body: object("large") }),
  }));
  await open("/files?project=p1");
  await shows("Choose files");
  await choose(new File([new Uint8Array(33 << 20)], "large"));
  await shows("large: 33 MiB are stored.");
  expect(await written(calls)[0]?.json()).toEqual({ path: "large", size_bytes: 33 << 20, media_type: "application/octet-stream" });
  expect(written(calls).map(({ url }) => new URL(url).pathname.split("/").at(-1)).sort()).toEqual(["1", "2", "2", "3", "complete", "uploads"]);
});

// large has three parts, and its upload was interrupted.
const large = () => new File([new Uint8Array(33 << 20)], "large", { lastModified: 7 });
const place = `gpuaas.upload.me.p1.${33 << 20}.7.false.large`;
const stored = (number: number, bytes: number) => ({ number, size_bytes: 16 << 20, sha256: createHash("sha256").update(new Uint8Array(bytes)).digest("hex"), etag: "e", stored_at: at });

test("an upload that was interrupted sends the parts that the server does not have", async () => {
  localStorage.setItem(place, "u1");
  const one = "/api/v1/storage/uploads/u1";
  const part: Handler = () => ({ body: {} });
  const calls = serve(routes({
    [`GET ${one}`]: () => ({ body: { id: "u1", state: "open", part_size_bytes: 16 << 20 } }),
    [`GET ${one}/parts`]: (request) => (request.url.includes("cursor=c") ? { body: { items: [stored(2, 1)] } } : { body: { items: [stored(1, 16 << 20)], next_cursor: "c" } }),
    [`PUT ${one}/parts/2`]: part, [`PUT ${one}/parts/3`]: part, [`POST ${one}/complete`]: () => ({ body: object("large") }),
  }));
  await open("/files?project=p1");
  await shows("Choose files");
  await choose(large());
  await shows("large: 33 MiB are stored.");
  // Part 2 has other bytes than the file.
  expect(written(calls).map(({ url }) => new URL(url).pathname.split("/").at(-1)).sort()).toEqual(["2", "3", "complete"]);
  expect(localStorage.getItem(place)).toBeNull();
});

test("an interrupted upload that has expired begins again, and one that fails can be sent again", async () => {
  localStorage.setItem(place, "u1");
  let rejected = 1;
  const one = "/api/v1/storage/uploads/u2";
  const part: Handler = () => (rejected-- > 0 ? problem(402, "insufficient_balance") : { body: {} });
  const calls = serve(routes({
    "GET /api/v1/storage/uploads/u1": () => problem(404, "not_found"), "POST /api/v1/storage/uploads": () => ({ status: 201, body: { id: "u2", part_size_bytes: 33 << 20 } }),
    [`PUT ${one}/parts/1`]: part, [`POST ${one}/complete`]: () => ({ body: object("large") }), [`DELETE ${one}`]: () => ({ status: 204 }),
  }));
  await open("/files?project=p1");
  await shows("Choose files");
  await choose(large());
  await shows("message of insufficient_balance");
  expect(localStorage.getItem(place)).toBeNull();
  await click([...document.querySelectorAll("li button")].find(({ textContent }) => textContent === "Try again"));
  await shows("large: 33 MiB are stored.");
  expect(written(calls).map(({ method, url }) => `${method} ${new URL(url).pathname.split("/").at(-1)}`)).toEqual(["POST uploads", "PUT 1", "DELETE u2", "POST uploads", "PUT 1", "POST complete"]);
});
