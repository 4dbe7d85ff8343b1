#!/usr/bin/env node
// The command `toolhost-build MODULE`: bundles a module with esbuild and builds its component with componentize-qjs and the
// WIT of this package.

import { mkdir, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { componentize } from "componentize-qjs";
import { build } from "esbuild";

const WORLDS = {
  plugin: "toolhost:plugin/plugin@0.1.0",
  "plugin-with-services": "toolhost:plugin/plugin-with-services@0.1.0",
  "plugin-with-preview": "toolhost:plugin/plugin-with-preview@0.1.0",
  "plugin-with-hooks": "toolhost:plugin/plugin-with-hooks@0.1.0",
  complete: "toolhost:sdk/complete@0.1.0",
};

const USAGE = `usage: toolhost-build MODULE [--output FILE] [--world ${Object.keys(WORLDS).join("|")}]`;

function refuse(message) {
  console.error(message);
  process.exit(2);
}

function readArguments() {
  const options = {
    output: { type: "string", short: "o" },
    world: { type: "string", short: "w", default: "plugin" },
  };
  try {
    const { values, positionals } = parseArgs({ options, allowPositionals: true });
    if (positionals.length !== 1 || !Object.hasOwn(WORLDS, values.world)) refuse(USAGE);
    const [module] = positionals;
    return { module, output: values.output ?? `${path.parse(module).name}.wasm`, world: WORLDS[values.world] };
  } catch (error) {
    return refuse(`${error.message}\n${USAGE}`);
  }
}

const { module, output, world } = readArguments();
// One module for the engine. Imports of the world stay external.
const bundled = await build({
  entryPoints: [module],
  bundle: true,
  write: false,
  format: "esm",
  target: "es2022",
  logLevel: "warning",
  external: ["toolhost:*", "wasi:*"],
  nodePaths: process.env.NODE_PATH?.split(path.delimiter), // which the API of esbuild ignores otherwise
}).catch(() => process.exit(1)); // esbuild has printed the errors
try {
  const { component } = await componentize({
    witPath: fileURLToPath(new URL("wit", import.meta.url)),
    jsSource: bundled.outputFiles[0].text,
    world,
    optSize: true,
    sync: true,
  });
  await mkdir(path.dirname(output), { recursive: true });
  // A failed build must not leave half a component.
  await writeFile(`${output}.new`, component);
  await rename(`${output}.new`, output);
} catch (error) {
  console.error(`${module}: ${error.message}`);
  process.exit(1);
}
