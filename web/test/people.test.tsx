import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { newRouter } from "../src/routes/router";
import { isPrivate, isPublic, secondsOf } from "../src/screens/keys/check";
import { button, click, enter, render, until } from "./render";
import { type Handler, problem, serve } from "./server";

const open = (path: string) => render(<RouterProvider router={newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] })) as never} />);
const ok = (data: object) => ({ status: "ok", operation: "o", data });
const times = { created_at: "2026-01-05T09:00:00Z", updated_at: "2026-01-05T09:00:00Z", urn: "u" };
const project = { id: "p", name: "speech", description: "", role: "admin", version: 7, ...times };
const kim = { user_id: "kim", name: "Kim", email: "kim@x", role: "member" };
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGqV kim@laptop";

const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "dev@x", name: "Dev" }, tenant: { id: "t", name: "t", role } } }),
  "GET /api/v1/projects": () => ({ body: { items: [project] } }),
  "GET /api/v3/access/me": () => ({
    body: {
      ssh_keys: ok({ items: [{ id: "k", name: "laptop", public_key: publicKey, fingerprint: "SHA256:f", ...times }] }),
      api_keys: ok({ items: [{ id: "a", name: "ci", scopes: [], ...times }] }),
    },
  }),
  "GET /api/v3/access/projects/p": () => ({ body: { project: ok(project), members: ok({ items: [kim] }), service_accounts: ok({ items: [] }) } }),
  "GET /api/v3/access/sessions": () => ({
    body: { sessions: ok({ items: [{ id: "s", kind: "browser", user_agent: "Old", address: "192.0.2.1", current: false, expires_at: "x", ...times }, { id: "c", kind: "browser", user_agent: "This", address: "192.0.2.2", current: true, expires_at: "x", ...times }] }) },
  }),
  "GET /api/v1/tenant/members": () => ({ body: { items: [kim, { user_id: "me", name: "Dev", email: "dev@x", role: "owner" }] } }),
  "GET /api/v1/tenant/invitations": () => ({ body: { items: [] } }),
  ...more,
});

const shows = (text: string) => until(() => document.body.textContent?.includes(text) === true);
const labelled = (label: string) => document.querySelector(`[aria-label="${label}"]`);
const written = (calls: Request[]) => calls.filter(({ method }) => method !== "GET");

test("a public key differs from a private one and from other texts", () => {
  const types = ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "sk-ssh-ed25519@openssh.com"];
  expect(types.every((type) => isPublic(`${type} AAAAC3NzaC1lZDI1NTE5AAAA kim`))).toBe(true);
  expect(["", "ssh-ed25519", "hello AAAAC3NzaC1lZDI1NTE5AAAA", 'command="x" ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAA'].some(isPublic)).toBe(false);
  expect(isPrivate("-----BEGIN OPENSSH PRIVATE KEY-----")).toBe(true);
  expect(["", "1", "365"].map(secondsOf)).toEqual([undefined, 86_400, 31_536_000]);
  expect(["0", "366", "-1", "1.5", "x"].every((days) => Number.isNaN(secondsOf(days)))).toBe(true);
});

test("an SSH key is checked before it is sent, and a private key stays nowhere", async () => {
  const calls = serve(routes("member", { "POST /api/v1/ssh-keys": () => ({ status: 201, body: { id: "n", name: "new", ...times } }) }));
  await open("/keys");
  await shows("SHA256:f");
  await enter("Name", "new");
  await enter("Public key", "-----BEGIN OPENSSH PRIVATE KEY----- c2VjcmV0");
  await shows("This is a private key");
  expect(JSON.stringify({ ...sessionStorage })).not.toContain("c2VjcmV0");
  for (const text of ["PuTTY-User-Key-File-3: ssh-ed25519 c2VjcmV0", "c2VjcmV0c2VjcmV0c2VjcmV0"]) {
    await enter("Public key", text);
    expect(JSON.stringify({ ...sessionStorage })).not.toContain("c2VjcmV0");
  }
  await enter("Public key", "hello");
  await shows("This is no public key");
  expect(button("Add the SSH key")?.disabled).toBe(true);
  await enter("Public key", publicKey);
  await click(button("Add the SSH key"));
  await shows("The SSH key new is added.");
  expect(await written(calls)[0]?.json()).toEqual({ name: "new", public_key: publicKey });
});

test("the error of the server about a key is shown, and the input stays", async () => {
  serve(routes("member", { "POST /api/v1/ssh-keys": () => problem(400, "ssh_key_invalid", { field: "public_key" }) }));
  await open("/keys");
  await shows("SHA256:f");
  await enter("Name", "new");
  await enter("Public key", publicKey);
  await click(button("Add the SSH key"));
  await shows("message of ssh_key_invalid");
  expect([...document.querySelectorAll("input")].some(({ value }) => value === publicKey)).toBe(true);
});

test("the secret of an API key is shown once", async () => {
  serve(routes("member", { "POST /api/v1/api-keys": () => ({ status: 201, body: { id: "n", name: "bot", scopes: [], secret: "gpk_secret", ...times } }) }));
  const page = await open("/keys");
  await shows("Create the API key");
  const form = button("Create the API key")!.closest("form")!;
  form.querySelector("label")!.textContent = "Key name";
  await enter("Key name", "bot");
  await click(button("Create the API key"));
  await shows("gpk_secret");
  // A second creation would replace the secret.
  expect(button("Create the API key")).toBeUndefined();
  expect(document.activeElement?.textContent).toContain("The secret of bot");
  await click(button("I have copied it"));
  expect(document.activeElement?.tagName).toBe("H1");
  expect(page.textContent).not.toContain("gpk_secret");
  expect(JSON.stringify({ ...sessionStorage, ...localStorage })).not.toContain("gpk_secret");
});

test("a key is revoked after its name was typed", async () => {
  let items = [{ id: "a", name: "ci", scopes: [], ...times }];
  const calls = serve(
    routes("member", {
      "DELETE /api/v1/api-keys/a": () => ((items = []), { status: 204 }),
      "GET /api/v1/api-keys": () => ({ body: { items } }),
      "GET /api/v3/access/me": () => ({ body: { ssh_keys: ok({ items: [] }), api_keys: ok({ items }) } }),
    }),
  );
  await open("/keys");
  await until(() => labelled("Revoke ci") !== null);
  await click(labelled("Revoke ci"));
  const confirm = () => document.querySelector<HTMLButtonElement>('[role="dialog"] button[type="submit"]');
  await until(() => confirm() !== null);
  expect(confirm()?.disabled).toBe(true);
  await enter("Type ci to confirm", "ci");
  await click(confirm());
  await shows("The API key ci is revoked.");
  expect(written(calls)[0]?.headers.get("X-Idempotency-Key")).toMatch(/^[0-9a-f]{32}$/);
  await until(() => labelled("Revoke ci") === null);
  expect(document.activeElement?.tagName).toBe("H1");
});

test("an owner changes a role and can undo it, and not the own one", async () => {
  const calls = serve(routes("owner", { "PUT /api/v1/tenant/members/kim": () => ({ body: kim }) }));
  await open("/members");
  await shows("kim@x");
  expect(labelled("Role of Dev (dev@x)")).toBeNull();
  const select = labelled("Role of Kim (kim@x)") as HTMLSelectElement;
  select.id = "role";
  document.body.insertAdjacentHTML("beforeend", '<label for="role">role of kim</label>');
  await enter("role of kim", "viewer");
  expect(written(calls)).toHaveLength(0);
  await click(labelled("Change the role of Kim (kim@x) to viewer"));
  await shows("Kim now has the role viewer.");
  // The list still has the old role.
  expect(select.value).toBe("viewer");
  await click(button("Undo"));
  await until(() => written(calls).length === 2);
  expect(await Promise.all(written(calls).map((call) => call.json()))).toEqual([{ role: "viewer" }, { role: "member" }]);
});

test("an invitation keeps its input where a new sign-in is required", async () => {
  serve(routes("owner", { "POST /api/v1/tenant/invitations": () => problem(403, "step_up_required") }));
  await open("/members");
  await shows("There is no open invitation.");
  await enter("E-mail", "no address");
  await shows("Enter an e-mail address");
  await enter("E-mail", "new@x");
  await click(button("Invite"));
  await until(() => document.querySelector("a[href*='step_up=true']") !== null);
  expect(sessionStorage.getItem("gpuaas.draft.me.invitation")).toContain("new@x");
});

test("members of a tenant are restricted to its owners", async () => {
  const calls = serve(routes("member"));
  await open("/members");
  await until(() => document.querySelector('[data-state="restricted"]') !== null);
  expect(calls.some(({ url }) => url.includes("/tenant/"))).toBe(false);
});

test("a project is deleted in the version on the screen", async () => {
  const calls = serve(routes("member", { "DELETE /api/v1/projects/p": () => ({ status: 204 }) }));
  await open("/projects/p");
  await shows("kim@x");
  await click(labelled("Delete the project speech"));
  await until(() => document.querySelector('[role="dialog"] input') !== null);
  await enter("Type speech to confirm", "speech");
  await click(document.querySelector('[role="dialog"] button[type="submit"]'));
  await shows("The project speech is deleted.");
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"7"');
});

test("the role in a project decides what its screen offers", async () => {
  serve(routes("viewer", { "GET /api/v3/access/projects/p": () => ({ body: { project: ok({ ...project, role: "viewer" }), members: ok({ items: [kim] }), service_accounts: { status: "restricted", operation: "o" } } }) }));
  await open("/projects/p");
  await shows("kim@x");
  expect(labelled("Remove kim@x")).toBeNull();
  expect(labelled("Delete the project speech")).toBeNull();
  expect(button("Add the member")).toBeUndefined();
});

const account = { id: "s", project_id: "p", name: "trainer", description: "", scopes: ["allocations:read"], disabled: false, version: 3, ...times };
const accountRoutes = (more: Record<string, Handler>) =>
  routes("member", {
    "GET /api/v1/service-accounts/s": () => ({ body: account, headers: { ETag: '"3"' } }),
    "GET /api/v1/service-accounts/s/credentials": () => ({ body: { items: [{ id: "old", ...times }, { id: "gone", revoked_at: "2026-01-06T09:00:00Z", ...times }] } }),
    ...more,
  });

test("a service account needs a name and a scope", async () => {
  const model = { project: ok(project), members: ok({ items: [] }), service_accounts: ok({ items: [] }) };
  const calls = serve(
    accountRoutes({ "GET /api/v3/access/projects/p": () => ({ body: model }), "POST /api/v1/projects/p/service-accounts": () => ({ status: 201, body: account }) }),
  );
  await open("/projects/p");
  await shows("There is no service account.");
  await enter("Name", "trainer");
  expect(button("Create the service account")?.disabled).toBe(true);
  await click([...document.querySelectorAll<HTMLInputElement>("fieldset input")].find(({ labels }) => labels?.[0]?.textContent === "allocations:read"));
  await click(button("Create the service account"));
  await shows("The service account trainer is created.");
  expect(await written(calls)[0]?.json()).toEqual({ name: "trainer", scopes: ["allocations:read"] });
});

test("a service account is disabled in the version on the screen, and the secret of a credential is shown once", async () => {
  const calls = serve(
    accountRoutes({
      "PATCH /api/v1/service-accounts/s": () => ({ body: { ...account, disabled: true } }),
      "POST /api/v1/service-accounts/s/credentials": () => ({ status: 201, body: { id: "new", secret: "gps_secret", ...times } }),
    }),
  );
  const page = await open("/service-accounts/s");
  await until(() => labelled("Revoke old") !== null);
  expect(labelled("Revoke gone")).toBeNull();
  await click(button("Disable"));
  await shows("The service account trainer is disabled.");
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"3"');
  await enter("Days until it expires", "30");
  await click(button("Create the credential"));
  await shows("gps_secret");
  expect(button("Create the credential")).toBeUndefined();
  expect(await written(calls)[1]?.json()).toEqual({ ttl_seconds: 2_592_000 });
  await click(button("I have copied it"));
  expect(page.textContent).not.toContain("gps_secret");
});

test("a session of another computer is ended after a confirmation", async () => {
  const calls = serve(routes("member", { "DELETE /api/v1/auth/sessions/s": () => ({ status: 204 }) }));
  await open("/profile");
  await shows("this one");
  await click(labelled("End 192.0.2.1"));
  await until(() => document.querySelector('[role="dialog"]') !== null);
  expect(written(calls)).toHaveLength(0);
  await click(document.querySelector('[role="dialog"] button[type="submit"]'));
  await shows("The session is ended.");
  expect(labelled("End 192.0.2.2")).toBeNull();
});

test("the secret of an API key stays where its section is degraded by the refetch", async () => {
  let broken = false;
  const api_keys = () => (broken ? { status: "degraded", operation: "o", message: "no database" } : ok({ items: [{ id: "a", name: "ci", scopes: [], ...times }] }));
  serve(
    routes("member", {
      "GET /api/v3/access/me": () => ({ body: { ssh_keys: ok({ items: [] }), api_keys: api_keys() } }),
      "GET /api/v1/api-keys": () => ({ body: { items: [] } }),
      "POST /api/v1/api-keys": () => ((broken = true), { status: 201, body: { id: "n", name: "bot", scopes: [], secret: "gpk_secret", ...times } }),
    }),
  );
  await open("/keys");
  await shows("Create the API key");
  button("Create the API key")!.closest("form")!.querySelector("label")!.textContent = "Key name";
  await enter("Key name", "bot");
  await click(button("Create the API key"));
  await shows("This part cannot be shown now.");
  expect(document.body.textContent).toContain("gpk_secret");
  await click(button("I have copied it"));
  expect(button("Create the API key")).toBeDefined();
});

test("a user keeps the own role in a project", async () => {
  const own = { user_id: "me", name: "Dev", email: "dev@x", role: "admin" };
  serve(routes("member", { "GET /api/v3/access/projects/p": () => ({ body: { project: ok(project), members: ok({ items: [kim, own] }), service_accounts: ok({ items: [] }) } }) }));
  await open("/projects/p");
  await shows("dev@x");
  expect(labelled("Role of Kim (kim@x)")).not.toBeNull();
  expect(labelled("Role of Dev (dev@x)")).toBeNull();
});

test("adding a member of the second page does not change the role", async () => {
  const ann = { user_id: "ann", name: "Ann", email: "ann@x", role: "admin" };
  const calls = serve(
    routes("owner", {
      "GET /api/v1/tenant/members": () => ({ body: { items: [kim], next_cursor: "2" } }),
      "GET /api/v1/projects/p/members": ({ url }) => ({ body: url.includes("cursor=2") ? { items: [ann] } : { items: [kim], next_cursor: "2" } }),
    }),
  );
  await open("/projects/p");
  await shows("Or the id of another member");
  await enter("Or the id of another member", "ann");
  await click(button("Add the member"));
  await shows("This user is a member of the project already.");
  expect(written(calls)).toHaveLength(0);
});

test("a service account in another version is read again", async () => {
  let tag = '"3"';
  const calls = serve(
    accountRoutes({
      "GET /api/v1/service-accounts/s": () => ({ body: account, headers: { ETag: tag } }),
      "PATCH /api/v1/service-accounts/s": ({ headers }) => (headers.get("If-Match") === '"4"' ? { body: { ...account, disabled: true } } : ((tag = '"4"'), problem(412, "version_conflict"))),
    }),
  );
  await open("/service-accounts/s");
  await until(() => button("Disable") !== undefined);
  const reads = () => calls.filter(({ method, url }) => method === "GET" && url.endsWith("/service-accounts/s")).length;
  await click(button("Disable"));
  await shows("message of version_conflict");
  await until(() => reads() === 2);
  await click(button("Disable"));
  await shows("The service account trainer is disabled.");
});
