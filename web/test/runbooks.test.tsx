import { readFileSync, readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { blocksOf, inlineOf } from "../src/components/system/markdown";
import { open, shows, text } from "./operator";
import { problem, serve } from "./server";

const folder = "../docs/runbooks";
const pages = readdirSync(folder).filter((name) => name.endsWith(".md"));
const me = { body: { actor_type: "user", user: { id: "me", email: "op@x", name: "Op", role: "operator" } } };

// stand serves a page as the API does.
const stand = (text: string) => serve({ "GET /api/v1/users/me": () => me, "GET /api/v1/runbooks/node-silent": () => ({ body: { name: "node-silent", text } }) });

test("every runbook is shown without marks of Markdown", () => {
  expect(pages.length).toBeGreaterThan(20);
  for (const name of pages) {
    const blocks = blocksOf(readFileSync(`${folder}/${name}`, "utf8"));
    expect(blocks[0]).toMatchObject({ kind: "heading", level: 1 });
    for (const block of blocks) {
      const texts = block.kind === "paragraph" ? [block.text] : block.kind === "list" ? block.items : block.kind === "table" ? [...block.head, ...block.rows.flat()] : [];
      for (const part of texts.flatMap(inlineOf)) if (part.kind === "text") expect(`${name}: ${part.text}`).not.toMatch(/\*\*|```|\]\(|`/);
    }
  }
});

test("a runbook is a page, and links other runbooks", async () => {
  stand("# A node is silent\n\n**Meaning.** See [agent-silent](agent-silent.md) and [x](javascript:alert) <img src=x>\n\n```\ngpuaas doctor\n```\n\n- one\n  more\n- two\n\n| a | b |\n|---|---|\n| `x` | y |\n");
  await open("/runbooks/node-silent");
  await shows("gpuaas doctor");
  expect(document.querySelector("h1")?.textContent).toBe("A node is silent");
  expect(document.querySelector('a[href="/portal/runbooks/agent-silent"]')?.textContent).toBe("agent-silent");
  expect(document.querySelector('a[href^="javascript"], article img')).toBeNull();
  expect([...document.querySelectorAll("article li")].map(({ textContent }) => textContent)).toEqual(["one more", "two"]);
  expect(text()).toContain("<img src=x>");
});

test("a runbook that does not exist is an error", async () => {
  serve({ "GET /api/v1/users/me": () => me, "GET /api/v1/runbooks/nothing": () => problem(404, "not_found") });
  await open("/runbooks/nothing");
  await shows("message of not_found");
});
