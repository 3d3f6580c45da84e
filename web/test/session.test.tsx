import { QueryClientProvider } from "@tanstack/react-query";
import { act } from "react";
import { expect, test, vi } from "vitest";
import { selectProject, selectedProject } from "../src/api/project";
import { newQueryClient } from "../src/query/client";
import { mayDo } from "../src/session/may";
import { SessionGate, useSession } from "../src/session/session";
import { forgetDrafts, useDraft } from "../src/session/draft";
import { signInPath } from "../src/session/signin";
import { load, store } from "../src/session/storage";
import { button, click, render, until } from "./render";
import { problem, serve } from "./server";

function Who() {
  const { me, may } = useSession();
  return <p>{`${me.user?.email} ${may("createAllocation")}`}</p>;
}

const member = (role: string) => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { email: "dev@x" }, tenant: { id: "t", name: "t", role: "member" } } }),
  "GET /api/v1/projects": () => ({ body: { items: [{ id: "p", name: "p", role }] } }),
});

test("a member of a project is offered what a viewer is not", async () => {
  serve(member("member"));
  await render(<SessionGate><Who /></SessionGate>);
  await until(() => document.body.textContent?.includes("dev@x true") === true);
  document.body.replaceChildren();
  serve(member("viewer"));
  await render(<SessionGate><Who /></SessionGate>);
  await until(() => document.body.textContent?.includes("dev@x false") === true);
});

test("without a session the browser goes to the sign-in, which comes back", async () => {
  const assign = vi.spyOn(location, "assign").mockImplementation(() => {});
  serve({ "GET /api/v1/users/me": () => problem(401, "token_missing"), "POST /api/v1/auth/token/refresh": () => problem(401, "token_missing") });
  await render(<SessionGate><Who /></SessionGate>);
  await until(() => assign.mock.calls.length > 0);
  expect(assign.mock.calls[0]?.[0]).toBe("/sign-in?return=%2Fportal%2F");
  expect(signInPath(true)).toContain("step_up=true");
});

test("a session that ends later leaves the screen, and offers the sign-in", async () => {
  let ended = false;
  serve({
    ...member("member"),
    "GET /api/v1/users/me": () => (ended ? problem(401, "token_expired") : member("member")["GET /api/v1/users/me"]()),
    "POST /api/v1/auth/token/refresh": () => problem(401, "token_missing"),
  });
  const client = newQueryClient();
  await render(<QueryClientProvider client={client}><SessionGate><Who /></SessionGate></QueryClientProvider>);
  await until(() => document.body.textContent?.includes("dev@x true") === true);
  ended = true;
  await act(() => client.refetchQueries());
  await until(() => document.querySelector("a[href^='/sign-in']") !== null);
  expect(document.body.textContent).toContain("dev@x true");
});

test("a stored project that no longer exists is forgotten", async () => {
  selectProject("deleted");
  serve(member("member"));
  await render(<SessionGate><Who /></SessionGate>);
  await until(() => document.body.textContent?.includes("dev@x true") === true);
  expect(selectedProject()).toBe("");
});

test("a role outside of the table may do nothing", () => {
  expect(mayDo("releaseAllocation", { tenant: "night-watch", projects: [""] })).toBe(false);
  expect(mayDo("releaseAllocation", { tenant: "owner", projects: [] })).toBe(true);
});

test("blocked storage loses the preference and nothing else", () => {
  const blocked = () => {
    throw new Error("blocked");
  };
  store("a", "b", blocked);
  expect(load("a", blocked)).toBe("");
});

function Creatable() {
  const { may, projectsWith } = useSession();
  return <p>{`${may("createAllocation")}: ${projectsWith("createAllocation").map(({ id }) => id)}`}</p>;
}

test("a right in one project is none in another", async () => {
  const items = [{ id: "read", name: "a", role: "viewer" }, { id: "write", name: "b", role: "member" }];
  serve({ ...member(""), "GET /api/v1/projects": () => ({ body: { items } }) });
  await render(<SessionGate><Creatable /></SessionGate>);
  await until(() => document.body.textContent?.includes("true: write") === true);
});

test("the sign-out forgets the input of all forms, and nothing else", () => {
  const place = () => sessionStorage;
  store("draft.launch", "{}", place);
  store("draft.other", "{}", place);
  store("kept", "x", place);
  forgetDrafts();
  expect([load("draft.launch", place), load("draft.other", place), load("kept", place)]).toEqual(["", "", "x"]);
});

// signedInAs shows the form to a user.
async function signedInAs(id: string) {
  document.body.replaceChildren();
  serve({ ...member(""), "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id, email: `${id}@x` }, tenant: { id: "t", name: "t", role: "member" } } }) });
  await render(<SessionGate><Form /></SessionGate>);
  await until(() => button("type") !== undefined);
}

function Form() {
  const [draft, change, done] = useDraft("form", { name: "" });
  return (
    <>
      <output>{draft.name}</output>
      <button onClick={() => change({ name: "kept" })}>type</button>
      <button onClick={done}>send</button>
    </>
  );
}

test("a form keeps its input over a sign-in, until it is sent", async () => {
  await signedInAs("ada");
  await click(button("type"));
  await signedInAs("ada");
  expect(document.querySelector("output")?.textContent).toBe("kept");
  await click(button("send"));
  await signedInAs("ada");
  expect(document.querySelector("output")?.textContent).toBe("");
});

test("the input of a form is not shown to another user who signs in", async () => {
  await signedInAs("ada");
  await click(button("type"));
  await signedInAs("bob");
  expect(document.querySelector("output")?.textContent).toBe("");
});

test("a tab in which another user is signed in loads again, and shows nothing of the user before", async () => {
  const reload = vi.spyOn(location, "reload").mockImplementation(() => {});
  let id = "ada";
  serve({ ...member("member"), "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id, email: "dev@x" }, tenant: { id: "t", name: "t", role: "member" } } }) });
  const client = newQueryClient();
  await render(<QueryClientProvider client={client}><SessionGate><Who /></SessionGate></QueryClientProvider>);
  await until(() => document.body.textContent?.includes("dev@x true") === true);
  expect(reload).not.toHaveBeenCalled();
  id = "bob";
  await act(() => client.refetchQueries());
  await until(() => reload.mock.calls.length === 1);
  expect(document.body.textContent).not.toContain("dev@x");
});
