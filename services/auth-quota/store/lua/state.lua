-- The hot money of all accounts: one script, run once per batch, atomic and alone while it runs.
--
-- Rules that hold before and after every run (all amounts are integer nano-USD):
--   M1  available(account) = posted - held - unposted, and remaining(key) = limit - spent - held - unposted. An account
--       with a limit has no more available than is remaining of that, by the same formula.
--   M2  held = sum of the holds of the calls in state held, and open = their number; unposted = sum of what ended calls
--       owe to the ledger.
--   M3  no grant (reserve, extend) is made while available or remaining is less than what it takes.
--   M4  a call is in exactly one state: held, released, expired, settled or posted. An expired call may be raised once
--       by its final charge, never lowered; nothing leaves posted.
--   M5  posted and spent are absolute and written only together with a newer version, never added to.
--   M6  balances are written before the calls they include are taken out of unposted, so that whatever order Posts and
--       Settles come in, available is understated for a moment at worst and never overstated.
--   M7  every operation is idempotent by the call's id; the same id with other content changes nothing.
--   M8  a Redis that has lost anything that it had acknowledged goes on under another generation, with its gate closed:
--       nothing is granted until the relays have restored their holds and the ledger holds what was on its way.
--   M9  a lease is money, and calls under way, that one relay process may give to calls of one key by itself. It is kept
--       like a call in state leased: held is what is left of it, and it counts for as many calls as it still admits.
--       What a call draws leaves the lease in the same step, so M2 and M3 hold with leases as without.
--   M10 a call that ended within a lease has no text of its own but stands in a book, which weighs what its calls owe, in
--       state summed. Its charge leaves the lease and enters the book in the same run, once; so does its booking.
--   M11 an account is in one shard. One that it has left is marked gone, and answers all that is asked about it with MOVED;
--       one that it is leaving grants nothing. No shard takes an account before all others are marked gone, which none
--       is while anything of it is held or owed there. Steps of moves are numbered: an older one changes nothing.
--
-- Keys, all in one slot by their common tag, named from KEYS[1]:
--   :account:<id>   hash  posted posted_version posted_in spent spent_version | held unposted open pending arrival |
--                         status per_minute max_concurrent limit version | leases: their rids, by spaces |
--                         moved: leaving or gone, move: number of the last step of a move of it (M11)
--                         posted_in: generation in which the balance was asked for; in another one it counts as not
--                         loaded. arrival: theoretical arrival time (us) of the account's rate limiter
--   :key:<id>       hash  spent spent_version spent_in | held unposted open arrival |
--                         account status expires_ms limit models max_concurrent per_minute addresses version |
--                         whole: the version of which all of these were written, not only those of an older process
--                         addresses: networks by spaces, each as 4 or 6, hexadecimal digits, a slash, bits
--   :call:<rid>     text: state account key session estimate held checkpoint amount final booked expired model, by
--                   spaces; a line break; the bytes of the usage record to book. Unknown: "-", or -1 for numbers.
--                   amount: charged as known here; final: cost of the final record; booked: in the ledger as told;
--                   expired: 1 when its relay went silent. A hold never expires by TTL. A call that is over and owes
--                   nothing keeps state estimate final booked expired only, and is forgotten after an hour. Of a
--                   lease the record is: calls that it still admits, step (us) of the account's rate, end (ms); and
--                   amount: the arrival of the account's rate when it was granted (us).
--                   Of a book, :call:<key>.<first ten signs of the rids>, the record is how many of its calls owe.
--   :costs:<book>   hash  charge of each call of a book by rid, behind s (owed), b (booked) or p (booked, not told yet)
--   :owed:<book>    hash  records of those that owe
--   :session:<id>   zset  rids of the open holds of a relay process by the last sign of life of the call (ms)
--   :sessions       zset  relay processes by the time they were last heard (ms)
--   :outbox         zset  rids of charges that the ledger has not confirmed, by the time of the charge (ms)
--   :changes        hash  settings of accounts and keys as they were last changed: version and the whole row, by kind and
--                         id; :changed-at, zset of these by the time of the change (ms), which forgets them
--   :leases         zset  rids of leases by their end (ms)
--   :listed         zset  rids handed out for publishing again, by the time they were (written outside of this script)
--   :rate:<ip>      theoretical arrival time (us) of the rate limiter of an address
--   :service        hash  beat (last run, ms) floor (nobody counts as silent from before it, ms) open (holds in all) |
--                         generation, lossless (1: nothing was lost before it), gate (since when it is closed, ms),
--                         gate_sequence (what the usage stream held then) |
--                         recall:<session>: rids of the leases that a relay process is to give back, by spaces |
--                         seen:<process>: number and time (ms) of the last run of a process of the service
--
-- Numbers are doubles here, exact up to 2^53 - 1. They are written with int() and read with toNumber() or tonumber();
-- `..` and tostring() round from 15 digits on and cjson from 14, so none of them ever touches an amount.
--
-- What a run costs is the number of redis.call and of tables it makes. So whatever is read or written for several
-- operations is read by one command before them and written by one after them: calls, indexes, accounts, keys, rates.

local prefix = KEYS[1]
local session = ARGV[1]
local defaultPerMinute = tonumber(ARGV[2])
local ipPerMinute = tonumber(ARGV[3])
local defaultConcurrent = tonumber(ARGV[4])
-- Which process of the service runs this, the number of this run there, and the highest number that it knows to have
-- been done, with the generation in which that was.
local process, run, done, doneIn = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]) or 0
local firstOperation = 9

local verdicts = {
  OK = 1, KEY_INVALID = 2, KEY_LIMIT = 3, BALANCE = 4, MODEL = 5, ACCOUNT_RATE = 6, IP_RATE = 7, UNAVAILABLE = 8,
  NO_HOLD = 9, CONFLICT = 10, RECALLED = 11,
  -- Answers to the service only. NEED: data to load first, as a sum of `needs`. MORE: ask again, there is more to do.
  -- SKEWED: nothing was decided, because the id's time is too far from now; the number is how many ms it is ahead.
  -- CONCURRENCY: too many calls under way; relays are told ACCOUNT_RATE.
  NEED = 100, MORE = 101, SKEWED = 102, CONCURRENCY = 103, ADDRESS = 104,
  -- The account has left this shard, or is leaving it and this would keep it here.
  MOVED = 105,
}
-- PROOF: a proof that the call was granted, because no hold of this session shows it.
local needs = { ACCOUNT = 1, BALANCE = 2, KEY = 4, SPENDING = 8, IDENTITY = 16, PROOF = 32 }

local tombstoneMs = '3600000'
local ridWindowMs = 600000
local pauseMs = 15000
local maxExact = 9007199254740991

local time = redis.call('TIME')
local nowUs = tonumber(time[1]) * 1000000 + tonumber(time[2])
local nowMs = math.floor(nowUs / 1000)

-- Most numbers of a run come more than once: a text is made, or read, once for each.
local textOf, numberOf = {}, {}

local function int(number)
  local text = textOf[number]
  if not text then
    text = string.format('%d', number)
    textOf[number] = text
  end
  return text
end

local function toNumber(text)
  local number = numberOf[text]
  if not number then
    number = tonumber(text)
    numberOf[text], textOf[number] = number, text
  end
  return number
end

-- The first write of the run is one that Redis refuses when its memory is full: the run then fails as a whole, before
-- anything is changed. Every later write would be refused too, but deletions would not.
--
-- Time in which nobody ran this script (Redis or all replicas of the service were down) is nobody's silence: relays
-- could not be heard, so the floor moves up and all of them get the full time again.
local serviceName = prefix .. ':service'
local seenField = 'seen:' .. process
local readService = redis.call('HMGET', serviceName, 'generation', 'floor', 'beat', 'gate', 'gate_sequence', 'lossless',
  seenField, 'recall:' .. session)
local service = {
  generation = readService[1] or nil, gate = readService[4] or nil, gate_sequence = readService[5] or nil,
  lossless = readService[6] or nil,
}
if not service.generation and ARGV[firstOperation] ~= 'establish' then
  return { '' }
end
local nowMsText = int(nowMs)
-- One from the future was written before the clock was set back.
local floorMs = math.min(tonumber(readService[2] or 0), nowMs)
if readService[3] and nowMs - tonumber(readService[3]) > pauseMs then
  floorMs = nowMs
end
local seen = tonumber(string.match(readService[7] or '0', '^%d+'))
redis.call('HSET', serviceName, 'beat', nowMsText, 'floor', int(floorMs), seenField,
  int(math.max(seen, run)) .. ' ' .. nowMsText)

-- Generations are named by time and only ever grow, whatever the clock does.
local generation = tonumber(service.generation or 0)

local function startGeneration(isGateClosed)
  service.generation = int(math.max(nowUs, generation + 1, doneIn + 1))
  redis.call('HSET', serviceName, 'generation', service.generation)
  redis.call('HDEL', serviceName, 'gate', 'gate_sequence', 'lossless')
  service.gate, service.lossless = nil, nil
  local field, value = 'lossless', '1'
  if isGateClosed then
    field, value = 'gate', nowMsText
  end
  redis.call('HSET', serviceName, field, value)
  service[field] = value
end

-- A run that was answered and is not remembered: Redis came back without its last moments, or as it was before a loss.
if service.generation and (generation < doneIn or (generation == doneIn and seen < done)) then
  startGeneration(true)
end
if session ~= '' then
  redis.call('ZADD', prefix .. ':sessions', nowMsText, session)
end

-- Accounts and keys are read once per run, changed here and written back by flushSums() at its end.
local accounts, keys = {}, {}
local openHolds = 0

local function account(id)
  local found = accounts[id]
  if found then
    return found
  end
  local posted, postedVersion, postedIn, spent, spentVersion, held, unposted, open, pending, arrival, status, perMinute,
    maxConcurrent, limit, version, leases, moved = unpack(redis.call('HMGET', prefix .. ':account:' .. id, 'posted',
      'posted_version', 'posted_in', 'spent', 'spent_version', 'held', 'unposted', 'open', 'pending', 'arrival', 'status',
      'per_minute', 'max_concurrent', 'limit', 'version', 'leases', 'moved'))
  found = {
    posted = tonumber(posted or 0),
    postedVersion = postedVersion and tonumber(postedVersion),
    isLoaded = postedIn == service.generation,
    spent = tonumber(spent or 0),
    spentVersion = spentVersion and tonumber(spentVersion),
    held = tonumber(held or 0),
    unposted = tonumber(unposted or 0),
    open = tonumber(open or 0),
    pending = tonumber(pending or 0),
    arrivalUs = tonumber(arrival or 0),
    status = status,
    perMinute = tonumber(perMinute or 0),
    maxConcurrent = tonumber(maxConcurrent or 0),
    limit = tonumber(limit or ''),
    version = version and tonumber(version),
    leases = leases or '',
    moved = moved,
  }
  accounts[id] = found
  return found
end

local function key(id)
  local found = keys[id]
  if found then
    return found
  end
  local spent, spentVersion, spentIn, held, unposted, open, arrival, status, expiresMs, limit, models, maxConcurrent,
    perMinute, addresses, version = unpack(redis.call('HMGET', prefix .. ':key:' .. id, 'spent', 'spent_version',
      'spent_in', 'held', 'unposted', 'open', 'arrival', 'status', 'expires_ms', 'limit', 'models', 'max_concurrent',
      'per_minute', 'addresses', 'version'))
  found = {
    spent = tonumber(spent or 0),
    spentVersion = spentVersion and tonumber(spentVersion),
    isLoaded = spentIn == service.generation,
    held = tonumber(held or 0),
    unposted = tonumber(unposted or 0),
    open = tonumber(open or 0),
    arrivalUs = tonumber(arrival or 0),
    status = status,
    expiresMs = tonumber(expiresMs or ''),
    limit = tonumber(limit or ''),
    models = models or '',
    maxConcurrent = tonumber(maxConcurrent or 0),
    perMinute = tonumber(perMinute or 0),
    addresses = addresses or '',
    version = version and tonumber(version),
  }
  keys[id] = found
  return found
end

local function available(accountId)
  local found = account(accountId)
  local most = found.limit and math.min(found.posted, found.limit - found.spent) or found.posted
  return most - found.held - found.unposted
end

local function flushSums()
  for id, changed in pairs(accounts) do
    if changed.isDirty then
      redis.call('HSET', prefix .. ':account:' .. id, 'held', int(changed.held), 'unposted', int(changed.unposted),
        'open', int(changed.open), 'pending', int(changed.pending), 'arrival', int(changed.arrivalUs))
    end
    if changed.areLeasesChanged then
      redis.call('HSET', prefix .. ':account:' .. id, 'leases', changed.leases)
    end
  end
  for id, changed in pairs(keys) do
    if changed.isDirty then
      redis.call('HSET', prefix .. ':key:' .. id, 'held', int(changed.held), 'unposted', int(changed.unposted),
        'open', int(changed.open))
    end
    if changed.isCounted then
      redis.call('HSET', prefix .. ':key:' .. id, 'arrival', int(changed.arrivalUs))
    end
  end
  if openHolds ~= 0 then
    redis.call('HINCRBY', serviceName, 'open', int(openHolds))
  end
end
