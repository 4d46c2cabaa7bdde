// Writes the types of what a page embeds, and dist, which lasthop embeds: the script of the plots under the licences of
// what is in it, the script of tables, the digests of both for the policy of the page, and one style sheet. With a folder
// as its argument, writes dist there.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { compileFromFile } from "json-schema-to-typescript";

writeFileSync("src/schema.ts", await compileFromFile("../docs/schema/page.json", { additionalProperties: false }));
const outdir = process.argv[2] ?? "dist";
const { metafile } = await build({
  entryPoints: ["src/page.ts", "src/tables.ts", "src/page.css"],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "none",
  metafile: true,
  outdir,
});

/** The licences of the packages in the bundle, each paragraph once. */
function licences() {
  const { inputs } = Object.values(metafile.outputs).find(({ entryPoint }) => entryPoint === "src/page.ts");
  const used = Object.keys(inputs).filter((path) => inputs[path].bytesInOutput > 0);
  const packages = new Set(used.flatMap((path) => path.match(/^node_modules\/(?:@[^/]+\/)?[^/]+/) ?? []));
  const paragraphs = [...packages].sort().flatMap((path) => readFileSync(join(path, "LICENSE"), "utf8").trim().split(/\n\s*\n/));
  return [...new Set(paragraphs)].join("\n\n").replaceAll("*/", "* /");
}

const plots = join(outdir, "page.js");
writeFileSync(plots, `/*! Observable Plot and D3:\n\n${licences()}\n*/\n${readFileSync(plots, "utf8")}`);
for (const name of ["page", "tables"]) {
  const script = readFileSync(join(outdir, `${name}.js`));
  writeFileSync(join(outdir, `${name}.sha256`), createHash("sha256").update(script).digest("base64"));
}
