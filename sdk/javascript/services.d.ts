// Types of services.js. The records are those of wit/v0.1, in camel case.

import type { Json, Outcome, Part } from "toolhost";

export interface FileObservation {
  path: string;
  sha256: string;
  lines: [number, number] | null;
}

export interface ProgramOptions {
  cwd?: string;
  environment?: Record<string, string>;
  stdin?: string | Uint8Array;
  timeoutMs?: number;
  inactivityTimeoutMs?: number;
  tty?: boolean;
  label?: string;
}

export interface ExitStatus {
  kind: string;
  code: number | null;
  signal: string | null;
  durationMs: number;
}

export interface RunOutput {
  stdout: Uint8Array;
  stderr: Uint8Array;
  combined: Uint8Array;
  stdoutTotal: number;
  stderrTotal: number;
  pid: number;
  exitStatus: ExitStatus;
  outputFile: string | null;
  hints: string[];
}

export interface Job {
  id: string;
  pid: number;
  label: string;
  state: "running" | "ended";
  startedMs: number;
  outputBytes: number;
  exitStatus: ExitStatus | null;
  outputFile: string | null;
  hints: string[];
}

export interface Chunk {
  bytes: Uint8Array;
  next: number;
  dropped: number;
  job: Job;
}

export interface ToolSummary {
  name: string;
  plugin: string;
  description: string;
  /** JSON text. */
  inputSchema: string;
  aliases: string[];
  tags: string[];
  canBackground: boolean;
}

export interface Background {
  id: string;
  tool: string;
  state: "running" | "ended";
  startedMs: number;
}

export function recall(key: string): any;
export function remember(key: string, value: Json): void;
export function forget(key: string): void;
export function recordObservation(path: string, sha256: string, lines?: [number, number] | null): void;
export function lastObservation(path: string): FileObservation | null;
export function runProgram(program: string, args?: string[], options?: ProgramOptions): RunOutput;
export function startProgram(program: string, args?: string[], options?: ProgramOptions): Job;
export function jobs(): Job[];
export function readJob(id: string, options?: { after?: number; max?: number; waitMs?: number }): Chunk;
export function writeJob(id: string, data: string | Uint8Array): void;
export function killJob(id: string, signal?: string): Job;
export function askUser(questions: Json): any[];
export function changeMode(to: string, reason: string): string;
export function requestPermissions(request: Json): any;
export function agents(): { name: string; description: string }[];
export function runAgent(task: Json): any;
export function tools(): ToolSummary[];
export function callTool(tool: string, input: Json): Outcome;
export function startTool(tool: string, input: Json, timeoutMs?: number | null): Background;
export function runningTools(): Background[];
export function waitTool(id: string, waitMs: number): Outcome | null;
export function stopTool(id: string): Background;
export function resources(server?: string | null): any[];
export function readResource(uri: string, server?: string | null): Part[];
