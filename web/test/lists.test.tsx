import { expect, test } from "vitest";
import { recentOf } from "../src/session/recent";
import { click, until } from "./render";
import { everything, loaded, open, signedIn, succeeding, text } from "./screen";
import { serve } from "./server";

const lists = ["/allocations", "/projects", "/fleet", "/changes", "/drift", ...["allocations", "users", "tenants", "sessions", "policies", "payments", "audit"].map((name) => `/admin/${name}`)];
const headers = () => [...(document.querySelector("table")?.querySelectorAll("th") ?? [])].map(({ textContent }) => textContent);
const choices = () => [...document.querySelectorAll<HTMLInputElement>('fieldset input[type="checkbox"]')];

test.each(lists)("%s has views and a choice of columns, which reaches no request", async (path) => {
  const calls = serve(signedIn(everything, succeeding));
  await open(path);
  await loaded();
  await until(() => headers().length > 2);
  expect(text()).toContain("Save this view");
  const all = headers();
  await click(choices()[0]);
  await until(() => headers().length === all.length - 1);
  expect(headers()[0]).toBe(all[0]);
  expect(calls.filter(({ url }) => new URL(url).searchParams.has("columns"))).toEqual([]);
});

test.each(["/admin/users/u2", "/admin/tenants/t2", "/admin/allocations/a2", "/fleet/gpu-07", "/changes/c1", "/admin/policies/billing.window_seconds"])("%s becomes a recent object", async (path) => {
  serve(signedIn(everything, succeeding));
  await open(path);
  await loaded();
  await until(() => recentOf("u").length === 1);
  expect(recentOf("u")[0]?.name).not.toBe("");
});

test.each([
  ["status=active&status=failed", '["active","failed"]'],
  ["status=true", "true"],
  ["status=7", "7"],
  ["status=%7B%22a%22%3A1%7D", '{"a":1}'],
  ["status=null", "null"],
])("the filter %s of an address reaches the server, which rejects it", async (search, sent) => {
  const calls = serve(signedIn(everything, succeeding));
  await open(`/allocations?${search}`);
  await loaded();
  expect(calls.map(({ url }) => new URL(url).searchParams.get("status"))).toContain(sent);
});
