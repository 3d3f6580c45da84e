import { useQuery } from "@tanstack/react-query";
import { act } from "react";
import { afterEach, expect, test, vi } from "vitest";
import { api, unwrap } from "../src/api/client";
import { Section } from "../src/components/system/section";
import { Loading, RateLimited } from "../src/components/system/states";
import { render, until } from "./render";
import { problem, serve } from "./server";

function Skus() {
  const query = useQuery({ queryKey: ["skus"], queryFn: () => unwrap(api.GET("/api/v1/skus")) });
  return (
    <Section query={query} isEmpty={({ items }) => items.length === 0} empty={<p data-state="empty">nothing</p>}>
      {({ items }) => <p data-state="success">{items.length}</p>}
    </Section>
  );
}

const states: Record<string, Parameters<typeof serve>[0][string]> = {
  success: () => ({ body: { items: [{}] } }),
  empty: () => ({ body: { items: [] } }),
  loading: () => new Promise(() => {}),
  restricted: () => problem(403, "forbidden", { suggestion: "ask an admin" }),
  rate_limited: () => problem(429, "rate_limited", {}, { "Retry-After": "9" }),
};

for (const [state, handler] of Object.entries(states)) {
  test(`a section shows the state ${state}`, async () => {
    serve({ "GET /api/v1/skus": handler });
    await render(<Skus />);
    await until(() => document.querySelector(`[data-state="${state}"]`) !== null);
  });
}

for (const [status, code] of [[400, "bad_request"], [404, "not_found"], [409, "conflict"], [412, "version_conflict"], [500, "internal"]] as const) {
  test(`the error ${status} has sentence, code, correlation id and a link to its page`, async () => {
    serve({ "GET /api/v1/skus": () => problem(status, code, { suggestion: "the next step" }) });
    const page = await render(<Skus />);
    await until(() => document.querySelector('[data-state="error"]') !== null);
    for (const text of [`message of ${code}`, "the next step", "c-1", code]) expect(page.textContent).toContain(text);
    expect(page.querySelector("a")?.getAttribute("href")).toBe(`/docs/reference/errors#${code}`);
  });
}

for (const [status, code] of [[400, "validation_error"], [403, "forbidden"]] as const) {
  test(`the error ${code} names its field`, async () => {
    serve({ "GET /api/v1/skus": () => problem(status, code, { field: "mounts[0].at" }) });
    const page = await render(<Skus />);
    await until(() => page.textContent?.includes("Field: mounts[0].at") === true);
  });
}

test("a new sign-in is offered where the server requires one", async () => {
  serve({ "GET /api/v1/skus": () => problem(403, "step_up_required") });
  const page = await render(<Skus />);
  await until(() => page.querySelector("a[href^='/sign-in']") !== null);
  expect(page.querySelector("a[href^='/sign-in']")?.getAttribute("href")).toBe("/sign-in?return=%2Fportal%2F&step_up=true");
});

afterEach(() => void vi.useRealTimers());
const pauseTime = () => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
const after = (milliseconds: number) => act(async () => void vi.advanceTimersByTime(milliseconds));

test("a section says after some seconds that the server is slow", async () => {
  pauseTime();
  const page = await render(<Loading />);
  await after(1_000);
  expect(page.textContent).not.toContain("Still loading");
  await after(4_000);
  expect(page.textContent).toContain("Still loading");
});

test("a limited section counts down, and tries again at zero", async () => {
  pauseTime();
  const retry = vi.fn();
  const page = await render(<RateLimited seconds={2} retry={retry} />);
  for (const left of ["2 seconds", "1 second"]) {
    expect(page.textContent).toContain(`in ${left}.`);
    expect(retry).not.toHaveBeenCalled();
    await after(1_000);
  }
  expect(retry).toHaveBeenCalledTimes(1);
});
