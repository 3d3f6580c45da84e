// deliver completes web/dist: compressed copies for the server, and SOURCE, with which a Go test finds a stale bundle
// without Node. The test computes the same sums: web/source_test.go.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const sources = ["index.html", "package.json", "package-lock.json", "public", "scripts", "src", "tsconfig.json", "vite.config.ts"];

const files = (path) => (statSync(path).isDirectory() ? readdirSync(path).flatMap((name) => files(join(path, name))) : [path]);
const sum = (data) => createHash("sha256").update(data).digest("hex");
// The types leave no byte in the bundle.
const counts = (path) => !path.endsWith(".gen.ts") && path !== "dist/SOURCE";
const sumOf = (paths) =>
  sum(paths.flatMap(files).filter(counts).sort().map((path) => `${sum(readFileSync(path))}  ${path}\n`).join(""));

const brotli = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };
for (const file of files("dist").filter((path) => /\.(js|css)$/.test(path))) {
  const data = readFileSync(file);
  writeFileSync(`${file}.gz`, gzipSync(data, { level: 9 }));
  writeFileSync(`${file}.br`, brotliCompressSync(data, brotli));
}
writeFileSync("dist/SOURCE", `sources ${sumOf(sources)}\nbundle ${sumOf(["dist"])}\n`);
