import { LuaFactory } from "wasmoon";

/** What a script gets and gives: bytes as text of one character per byte, numbers, and lists of both. */
export type LuaValue = string | number | null | LuaValue[];

/** Answers `redis.call`. */
export type Command = (parts: string[]) => LuaValue;

/** A script that is loaded once and run often. */
export type LuaScript = { run: (keys: string[], values: string[], command: Command) => LuaValue };

// The parts of the WebAssembly module that are used, as Lua's C API names them. The package's own calls turn strings
// into Unicode, which records are not, and take a hundred times as long.
type Machine = {
  HEAPU8: Uint8Array;
  HEAPU32: Uint32Array;
  _malloc: (bytes: number) => number;
  _free: (address: number) => void;
  addFunction: (work: (state: number) => number, signature: string) => number;
  _lua_gettop: (state: number) => number;
  _lua_type: (state: number, index: number) => number;
  _lua_tonumberx: (state: number, index: number, isNumber: number) => number;
  _lua_tolstring: (state: number, index: number, length: number) => number;
  _lua_rawlen: (state: number, index: number) => number;
  _lua_rawgeti: (state: number, index: number, at: bigint) => number;
  _lua_rawseti: (state: number, index: number, at: bigint) => void;
  _lua_settop: (state: number, index: number) => void;
  _lua_createtable: (state: number, items: number, fields: number) => void;
  _lua_pushlstring: (state: number, address: number, length: number) => void;
  _lua_pushinteger: (state: number, value: bigint) => void;
  _lua_pushnumber: (state: number, value: number) => void;
  _lua_pushboolean: (state: number, value: number) => void;
  _lua_pushvalue: (state: number, index: number) => void;
  _lua_pcallk: (state: number, ...counts: number[]) => number;
};

const luaType = { boolean: 1, number: 3, string: 4, table: 5 } as const;
const scratchBytes = 1 << 20;

// Redis runs Lua 5.1: `unpack` is global there. Its whole numbers are doubles that print as whole numbers, which those
// of Lua 5.4 do too as long as nothing divides them; the contract test compares the two.
const prelude = `
collectgarbage("incremental", 1000, 400)
unpack = table.unpack
redis = { pcall = redis_call, call = redis_call }
`;

/** Makes a Lua machine with one script in it. */
export async function loadScript(source: string): Promise<LuaScript> {
  const lua = await new LuaFactory().getLuaModule();
  const machine = lua.module as unknown as Machine;
  const state = lua.luaL_newstate();
  lua.luaL_openlibs(state);
  const values = createValues(machine);
  let answer: Command = () => null;
  const callback = machine.addFunction((calling) => {
    const parts: string[] = [];
    const count = machine._lua_gettop(calling);
    for (let index = 1; index <= count; index += 1) {
      parts.push(String(values.read(calling, index)));
    }
    values.push(calling, answer(parts));
    return 1;
  }, "ii");
  lua.lua_pushcclosure(state, callback, 0);
  lua.lua_setglobal(state, "redis_call");
  const check = (status: number): void => {
    if (status !== 0) throw new Error(`lua: ${lua.lua_tolstring(state, -1, null)}`);
  };
  check(lua.luaL_loadstring(state, prelude));
  check(machine._lua_pcallk(state, 0, 0, 0, 0, 0));
  check(lua.luaL_loadstring(state, source));
  return {
    run: (keys, given, command) => {
      answer = command;
      machine._lua_settop(state, 1);
      values.push(state, keys);
      lua.lua_setglobal(state, "KEYS");
      values.push(state, given);
      lua.lua_setglobal(state, "ARGV");
      machine._lua_pushvalue(state, 1);
      check(machine._lua_pcallk(state, 0, 1, 0, 0, 0));
      return values.read(state, -1);
    },
  };
}

// What Node's own decoding of short texts rests on; going through an encoding's name takes several times as long.
type Memory = Buffer & {
  latin1Slice: (from: number, to: number) => string;
  latin1Write: (text: string, at: number) => number;
};

type Values = { read: (state: number, index: number) => LuaValue; push: (state: number, value: LuaValue) => void };

function createValues(machine: Machine): Values {
  const scratch = machine._malloc(scratchBytes);
  const length = machine._malloc(8);
  // The machine's memory moves when it grows.
  let seen = machine.HEAPU8;
  let view = Buffer.from(seen.buffer) as Memory;
  const memory = (): Memory => {
    if (seen !== machine.HEAPU8) {
      seen = machine.HEAPU8;
      view = Buffer.from(seen.buffer) as Memory;
    }
    return view;
  };
  const readText = (state: number, index: number): string => {
    const address = machine._lua_tolstring(state, index, length);
    return memory().latin1Slice(address, address + (machine.HEAPU32[length >> 2] ?? 0));
  };
  const read = (state: number, index: number): LuaValue => {
    const type = machine._lua_type(state, index);
    if (type === luaType.number) return Math.trunc(machine._lua_tonumberx(state, index, 0));
    if (type === luaType.string) return readText(state, index);
    if (type !== luaType.table) return null;
    const list: LuaValue[] = [];
    const items = BigInt(machine._lua_rawlen(state, index));
    for (let at = 1n; at <= items; at += 1n) {
      machine._lua_rawgeti(state, index, at);
      list.push(read(state, -1));
      machine._lua_settop(state, -2);
    }
    return list;
  };
  const push = (state: number, value: LuaValue): void => {
    if (value === null) machine._lua_pushboolean(state, 0);
    else if (typeof value === "number") machine._lua_pushinteger(state, BigInt(value));
    else if (typeof value === "string") pushText(state, value);
    else {
      machine._lua_createtable(state, value.length, 0);
      value.forEach((item, index) => {
        push(state, item);
        machine._lua_rawseti(state, -2, BigInt(index + 1));
      });
    }
  };
  const pushText = (state: number, text: string): void => {
    if (text.length > scratchBytes) throw new Error("the text is too long");
    memory().latin1Write(text, scratch);
    machine._lua_pushlstring(state, scratch, text.length);
  };
  return { read, push };
}
