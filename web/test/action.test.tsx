import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { expect, test } from "vitest";
import { api, unwrap } from "../src/api/client";
import { useToast } from "../src/components/system/toasts";
import { useAction } from "../src/query/action";
import { button, click, pause, render, until } from "./render";
import { problem, serve } from "./server";

function Create({ sku }: { sku: string }) {
  const action = useAction((body: { sku: string }, key) => unwrap(api.POST("/api/v1/allocations", { params: { header: { "X-Idempotency-Key": key } }, body })), []);
  return (
    <>
      <button onClick={() => action.start({ sku })}>create</button>
      <output>{String(action.error ?? "")}</output>
    </>
  );
}

const keyOf = ({ headers }: Request) => headers.get("X-Idempotency-Key");

test("a double click creates once", async () => {
  let respond = () => {};
  const responded = new Promise<void>((resolve) => (respond = resolve));
  const calls = serve({ "POST /api/v1/allocations": async () => (await responded, { status: 201, body: {} }) });
  await render(<Create sku="t4" />);
  await click(button("create"));
  await click(button("create"));
  respond();
  await pause(50);
  expect(calls).toHaveLength(1);
});

test("a repetition after a lost response has the same key, and a later action another one", async () => {
  let lost = true;
  const calls = serve({
    "POST /api/v1/allocations": () => {
      if (!lost) return { status: 201, body: {} };
      lost = false;
      throw new Error("connection lost");
    },
  });
  await render(<Create sku="t4" />);
  for (const count of [1, 2, 3]) {
    await click(button("create"));
    await until(() => calls.length === count && button("create") !== undefined);
    await pause(20);
  }
  const [first, second, third] = calls.map(keyOf);
  expect(first).toBe(second);
  expect(third).not.toBe(second);
});

test("a rejected action has a new key after the user has changed something", async () => {
  const calls = serve({ "POST /api/v1/allocations": () => problem(400, "bad_request") });
  await render(<Create sku="t4" />);
  await click(button("create"));
  await until(() => calls.length === 1);
  await pause(20);
  await click(button("create"));
  await until(() => calls.length === 2);
  expect(keyOf(calls[0]!)).not.toBe(keyOf(calls[1]!));
});

function Leaving() {
  const [left, leave] = useState(false);
  useQuery({ queryKey: ["slow"], queryFn: () => unwrap(api.GET("/api/v1/skus")) });
  return left ? null : <Leaver leave={() => leave(true)} />;
}

function Leaver({ leave }: { leave: () => void }) {
  const toast = useToast();
  const action = useAction((_: null, key) => unwrap(api.POST("/api/v1/allocations", { params: { header: { "X-Idempotency-Key": key } }, body: { sku: "t4" } })), [["slow"]]);
  return (
    <>
      <button onClick={() => action.start(null, (_, shown) => toast(shown ? "done here" : "done elsewhere"))}>create</button>
      <button onClick={leave}>leave</button>
      <output>{action.pending ? "pending" : "idle"}</output>
    </>
  );
}

test("the outcome is shown to a user who has left the screen", async () => {
  let respond = () => {};
  const responded = new Promise<void>((resolve) => (respond = resolve));
  const calls = serve({ "GET /api/v1/skus": () => ({ body: {} }), "POST /api/v1/allocations": async () => (await responded, { status: 201, body: {} }) });
  const page = await render(<Leaving />);
  await click(button("create"));
  await until(() => calls.some(({ method }) => method === "POST"));
  await click(button("leave"));
  respond();
  await until(() => page.textContent?.includes("done elsewhere") === true);
});

test("an action is done before the queries that it invalidates", async () => {
  let reads = 0;
  serve({ "GET /api/v1/skus": () => (reads++ === 0 ? { body: {} } : new Promise<never>(() => {})), "POST /api/v1/allocations": () => ({ status: 201, body: {} }) });
  const page = await render(<Leaving />);
  await until(() => reads === 1);
  await click(button("create"));
  await until(() => reads === 2 && page.textContent?.includes("done here") === true && page.textContent.includes("idle"));
});
