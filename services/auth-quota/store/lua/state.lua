-- The hot money of all accounts: one script, run once per batch, atomic and alone while it runs.
--
-- Rules that hold before and after every run (all amounts are integer nano-USD):
--   M1  available(account) = posted - held - unposted, and remaining(key) = limit - spent - held - unposted.
--   M2  held = sum of the holds of the calls in state held; unposted = sum of what ended calls owe to the ledger.
--   M3  no grant (reserve, extend) is made while available or remaining is less than what it takes.
--   M4  a call is in exactly one state: held, released, expired, settled or posted. An expired call may be raised once
--       by its final charge, never lowered; nothing leaves posted.
--   M5  posted and spent are absolute and written only together with a newer version, never added to.
--   M6  balances are written before the calls they include are taken out of unposted, so that whatever order Posts and
--       Settles come in, available is understated for a moment at worst and never overstated.
--   M7  every operation is idempotent by the call's id; the same id with other content changes nothing.
--   M8  a Redis that has lost anything that it had acknowledged goes on under another generation, with its gate closed:
--       nothing is granted until the relays have restored their holds and the ledger holds what was on its way.
--
-- Keys, all in one slot by their common tag, named from KEYS[1]:
--   :account:<id>   hash  posted posted_version posted_in | held unposted open pending arrival |
--                         status per_minute version
--                         posted_in: generation in which the balance was asked for; in another one it counts as not
--                         loaded. arrival: theoretical arrival time (us) of the account's rate limiter
--   :key:<id>       hash  spent spent_version spent_in | held unposted | account status expires_ms limit models version
--   :call:<rid>     text: state account key session estimate held checkpoint amount final booked expired model, by
--                   spaces; a line break; the bytes of the usage record to book. Unknown: "-", or -1 for numbers.
--                   amount: charged as known here; final: cost of the final record; booked: in the ledger as told;
--                   expired: 1 when its relay went silent. A hold never expires by TTL. A call that is over and owes
--                   nothing keeps state estimate final booked expired only, and is forgotten after an hour.
--   :session:<id>   zset  rids of the open holds of a relay process by the last sign of life of the call (ms)
--   :sessions       zset  relay processes by the time they were last heard (ms)
--   :outbox         zset  rids of charges that the ledger has not confirmed, by the time of the charge (ms)
--   :listed         zset  rids handed out for publishing again, by the time they were (written outside of this script)
--   :rate:<ip>      theoretical arrival time (us) of the rate limiter of an address
--   :service        hash  beat (last run, ms) floor (nobody counts as silent from before it, ms) open (holds in all) |
--                         generation, lossless (1: nothing was lost before it), gate (since when it is closed, ms),
--                         gate_sequence (what the usage stream held then) |
--                         seen:<process>: number and time (ms) of the last run of a process of the service
--
-- Numbers are doubles here, exact up to 2^53 - 1. They are written with int() and read with tonumber(); `..` and
-- tostring() round from 15 digits on and cjson from 14, so none of them ever touches an amount.

local prefix = KEYS[1]
local session = ARGV[1]
local defaultPerMinute = tonumber(ARGV[2])
local ipPerMinute = tonumber(ARGV[3])
-- Which process of the service runs this, the number of this run there, and the highest number that it knows to have
-- been done, with the generation in which that was.
local process, run, done, doneIn = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]) or 0
local firstOperation = 8

local verdicts = {
  OK = 1, KEY_INVALID = 2, KEY_LIMIT = 3, BALANCE = 4, MODEL = 5, ACCOUNT_RATE = 6, IP_RATE = 7, UNAVAILABLE = 8,
  NO_HOLD = 9, CONFLICT = 10,
  -- Answers to the service only. NEED: data to load first, as a sum of `needs`. MORE: ask again, there is more to do.
  NEED = 100, MORE = 101,
}
local needs = { ACCOUNT = 1, BALANCE = 2, KEY = 4, SPENDING = 8, IDENTITY = 16 }

local tombstoneMs = '3600000'
local ridWindowMs = 600000
local pauseMs = 15000
local maxExact = 9007199254740991

local time = redis.call('TIME')
local nowUs = tonumber(time[1]) * 1000000 + tonumber(time[2])
local nowMs = math.floor(nowUs / 1000)

local function int(number)
  return string.format('%.0f', number)
end

local function readHash(key)
  local flat = redis.call('HGETALL', key)
  local hash = {}
  for i = 1, #flat, 2 do
    hash[flat[i]] = flat[i + 1]
  end
  return hash, #flat > 0
end

-- The first write of the run is one that Redis refuses when its memory is full: the run then fails as a whole, before
-- anything is changed. Every later write would be refused too, but deletions would not.
--
-- Time in which nobody ran this script (Redis or all replicas of the service were down) is nobody's silence: relays
-- could not be heard, so the floor moves up and all of them get the full time again.
local service = readHash(prefix .. ':service')
if not service.generation and ARGV[firstOperation] ~= 'establish' then
  return { '' }
end
local floorMs = tonumber(service.floor or 0)
if service.beat and nowMs - tonumber(service.beat) > pauseMs then
  floorMs = nowMs
end
local seen = tonumber(string.match(service['seen:' .. process] or '0', '^%d+'))
redis.call('HSET', prefix .. ':service', 'beat', int(nowMs), 'floor', int(floorMs),
  'seen:' .. process, int(math.max(seen, run)) .. ' ' .. int(nowMs))

-- Generations are named by time and only ever grow, whatever the clock does.
local generation = tonumber(service.generation or 0)

local function startGeneration(isGateClosed)
  service.generation = int(math.max(nowUs, generation + 1, doneIn + 1))
  redis.call('HSET', prefix .. ':service', 'generation', service.generation)
  redis.call('HDEL', prefix .. ':service', 'gate', 'gate_sequence', 'lossless')
  service.gate, service.lossless = nil, nil
  local field, value = 'lossless', '1'
  if isGateClosed then
    field, value = 'gate', int(nowMs)
  end
  redis.call('HSET', prefix .. ':service', field, value)
  service[field] = value
end

-- A run that was answered and is not remembered: Redis came back without its last moments, or as it was before a loss.
if service.generation and (generation < doneIn or (generation == doneIn and seen < done)) then
  startGeneration(true)
end
if session ~= '' then
  redis.call('ZADD', prefix .. ':sessions', int(nowMs), session)
end

-- Accounts and keys are read once per run, changed here and written back by flush() at its end.
local accounts, keys = {}, {}
local openHolds = 0

local function account(id)
  local found = accounts[id]
  if found then
    return found
  end
  local hash = readHash(prefix .. ':account:' .. id)
  found = {
    posted = tonumber(hash.posted or 0),
    postedVersion = tonumber(hash.posted_version),
    isLoaded = hash.posted_in == service.generation,
    held = tonumber(hash.held or 0),
    unposted = tonumber(hash.unposted or 0),
    open = tonumber(hash.open or 0),
    pending = tonumber(hash.pending or 0),
    arrivalUs = tonumber(hash.arrival or 0),
    status = hash.status,
    perMinute = tonumber(hash.per_minute or 0),
    version = tonumber(hash.version),
  }
  accounts[id] = found
  return found
end

local function key(id)
  local found = keys[id]
  if found then
    return found
  end
  local hash = readHash(prefix .. ':key:' .. id)
  found = {
    spent = tonumber(hash.spent or 0),
    spentVersion = tonumber(hash.spent_version),
    isLoaded = hash.spent_in == service.generation,
    held = tonumber(hash.held or 0),
    unposted = tonumber(hash.unposted or 0),
    status = hash.status,
    expiresMs = tonumber(hash.expires_ms),
    limit = tonumber(hash.limit),
    models = hash.models or '',
    version = tonumber(hash.version),
  }
  keys[id] = found
  return found
end

local function available(accountId)
  local found = account(accountId)
  return found.posted - found.held - found.unposted
end

local function flush()
  for id, changed in pairs(accounts) do
    if changed.isDirty then
      redis.call('HSET', prefix .. ':account:' .. id, 'held', int(changed.held), 'unposted', int(changed.unposted),
        'open', int(changed.open), 'pending', int(changed.pending), 'arrival', int(changed.arrivalUs))
    end
  end
  for id, changed in pairs(keys) do
    if changed.isDirty then
      redis.call('HSET', prefix .. ':key:' .. id, 'held', int(changed.held), 'unposted', int(changed.unposted))
    end
  end
  if openHolds ~= 0 then
    redis.call('HINCRBY', prefix .. ':service', 'open', int(openHolds))
  end
end
