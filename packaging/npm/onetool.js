#!/usr/bin/env node
// Starts the binary in this platform's package. If there is none, the error says what is missing.
"use strict";

const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const PACKAGES = {
  "linux-x64": "@onetool/linux-x64",
  "linux-arm64": "@onetool/linux-arm64",
  "darwin-x64": "@onetool/darwin-x64",
  "darwin-arm64": "@onetool/darwin-arm64",
  "win32-x64": "@onetool/win32-x64",
};

function fail(message, hint) {
  process.stderr.write(`error: ${message}\nhint: ${hint}\n`);
  process.exit(1);
}

function program() {
  const named = process.env.ONETOOL_BINARY;
  if (named) {
    if (!existsSync(named)) fail(`ONETOOL_BINARY names ${named}, which does not exist`, "correct it, or unset it");
    return named;
  }
  const platform = `${process.platform}-${process.arch}`;
  const name = PACKAGES[platform];
  if (!name) {
    fail(
      `there is no package for ${platform}`,
      `packages exist for ${Object.keys(PACKAGES).join(", ")}; elsewhere build it yourself and set ONETOOL_BINARY`,
    );
  }
  const file = process.platform === "win32" ? "onetool.exe" : "onetool";
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), "bin", file);
  } catch {
    const version = require("../package.json").version;
    fail(
      `the package ${name} is not installed`,
      `npm leaves it out with --no-optional, or when package-lock.json was written on another platform: ` +
        `run \`npm install ${name}@${version}\`, or delete node_modules and package-lock.json and install again`,
    );
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => fail(`onetool does not start: ${error.message}`, "ONETOOL_BINARY names another program"));
child.on("exit", (code, signal) => process.exit(signal ? 128 + (os.constants.signals[signal] ?? 0) : code));
