import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { act } from "react";
import { expect } from "vitest";
import en from "../src/i18n/en";
import { newRouter } from "../src/routes/router";
import { failure, operationOf, success, violations } from "./contract";
import { change } from "./mutate";
import { pause, render, until } from "./render";
import { type Handler, type Reply, problem } from "./server";

export const pathOf = (request: Request) => new URL(request.url).pathname;

type Who = { platform: string; tenant: string; project: string };

// everything has the role in each of the three, so that no screen hides a section.
export const everything: Who = { platform: "admin", tenant: "owner", project: "admin" };
export const viewer: Who = { platform: "user", tenant: "viewer", project: "viewer" };

// signedIn answers what the session of every screen reads. Each other call, also for a page of projects, gets the reply.
export function signedIn({ platform, tenant, project }: Who, reply: Handler): Record<string, Handler> {
  const projects = { body: { items: [{ id: "p", urn: "u", name: "p", role: project }] } };
  return {
    "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "u", email: "dev@x", name: "Dev", role: platform }, tenant: { id: "t", name: "t", role: tenant } } }),
    "GET /api/v1/projects": (request) => (new URL(request.url).searchParams.get("limit") === "200" ? projects : reply(request)),
    "POST /api/v1/auth/token/refresh": () => problem(401, "token_missing"),
    "*": reply,
  };
}

// checked is a reply that fulfils the contract.
function checked(request: Request, reply: { status: number; body: unknown }): Reply {
  expect(violations(operationOf(request.method, pathOf(request)), reply.status, reply.body)).toEqual([]);
  return reply;
}

// succeeding has the example of the contract for each operation.
export const succeeding: Handler = (request) => checked(request, success(operationOf(request.method, pathOf(request))));

export const failing =
  (status: number): Handler =>
  (request) =>
    checked(request, failure(operationOf(request.method, pathOf(request)), status));

// changed has the example of the contract with a change, which the contract need not allow.
export const changed =
  (...to: Parameters<typeof change>[2][]): Handler =>
  (request) => {
    const { status, schema, body } = success(operationOf(request.method, pathOf(request)));
    return { status, body: to.reduce((now, each) => change(schema, now, each), body) };
  };

export const open = (path: string, messages: typeof en = en) =>
  render(<RouterProvider router={newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] })) as never} />, messages);

export const has = (selector: string) => document.querySelector(selector) !== null;

export const text = () => document.body.textContent ?? "";

// loaded waits for a screen that shows what it has read, and did not fail.
export async function loaded() {
  await until(() => has("h1") && !has('[data-state="loading"]'));
  expect(text()).not.toContain("This screen failed");
}

const clickAll = async (selector: string) => {
  for (const button of document.querySelectorAll<HTMLButtonElement>(selector)) {
    if (button.isConnected && !button.disabled && button.closest("header, footer") === null) await act(async () => button.click());
  }
};

// pressAll uses everything that the page offers: each button, each form, and the dialogs that open. No dialog is cancelled.
export async function pressAll() {
  await clickAll("button");
  for (const form of document.querySelectorAll<HTMLFormElement>("form:not([method=post])")) {
    await act(async () => form.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true })));
  }
  await pause(20);
  await clickAll('[role="dialog"] button[type="submit"]');
}
