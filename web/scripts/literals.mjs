// literals rejects texts in components: every text is in the catalogue, src/i18n/en. It reads JSX text and the
// attributes that a user reads.
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

const read = new Set(["alt", "aria-label", "aria-description", "description", "label", "placeholder", "title", "error"]);
const words = /\p{L}{2}/u;
const files = (path) => (statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => files(join(path, name))) : [path]);

export const literals = (name, text) => {
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.TSX);
  const found = [];
  const at = (node) => found.push(`${name}:${source.getLineAndCharacterOfPosition(node.getStart()).line + 1}: ${node.getText().trim()}`);
  const isText = (node) => (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) && words.test(node.text);
  const visit = (node) => {
    if (ts.isJsxText(node) && words.test(node.text)) at(node);
    if (ts.isJsxAttribute(node) && read.has(node.name.getText()) && node.initializer && isText(node.initializer)) at(node);
    if (ts.isJsxExpression(node) && node.expression && isText(node.expression) && (!ts.isJsxAttribute(node.parent) || read.has(node.parent.name.getText()))) at(node);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
};

if (process.argv[1]?.endsWith("literals.mjs")) {
  const found = files("src").filter((path) => path.endsWith(".tsx")).flatMap((path) => literals(path, readFileSync(path, "utf8")));
  if (found.length > 0) {
    console.error(`texts outside of src/i18n/en:\n${found.join("\n")}`);
    process.exit(1);
  }
}
