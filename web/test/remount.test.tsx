import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { act } from "react";
import { test } from "vitest";
import { newRouter } from "../src/routes/router";
import { button, click, render, until } from "./render";
import { everything, loaded, signedIn, succeeding } from "./screen";
import { serve } from "./server";

// The second object is cached, so that its screen shows it at once.
test("a form that is open for one object is closed on the screen of the next one", async () => {
  serve(signedIn(everything, succeeding));
  const router = newRouter(createMemoryHistory({ initialEntries: ["/portal/allocations/b"] }));
  await render(<RouterProvider router={router as never} />);
  await loaded();
  const to = (id: string) => act(() => router.navigate({ to: "/allocations/$id", params: { id } }));
  await to("a");
  await until(() => button("Change name and labels") !== undefined);
  await click(button("Change name and labels"));
  const forms = () => document.querySelectorAll("textarea").length;
  await until(() => forms() === 1);
  await to("b");
  await until(() => forms() === 0);
});
