-- Calls: reading them, the single place where a change of state moves money, and writing them back.

-- Commands take at most so many arguments at once: `unpack` puts them all on a stack.
local maxArguments = 1000
local callName = prefix .. ':call:'

-- Calls as this run knows them, by rid: each is read once, changed here and written back by flushCalls(). False: there
-- is none. `texts` are they as Redis had them.
local calls, texts = {}, {}

-- The calls that were changed, in lists side by side: rid, the session in whose index it stood, whether it stood in the
-- outbox.
local changedRids, indexedIn, wasInOutbox = {}, {}, {}

-- All fields are named where a table is made: it has its final size then, and does not grow. `record` nil: as in the
-- text, from `recordAt` on; most are never looked at.
local function newCall()
  return {
    state = nil, account = nil, key = nil, session = nil, estimate = -1, held = 0, checkpoint = 0, amount = 0, final = -1,
    booked = 0, isExpired = false, model = nil, recordAt = nil, record = '', isChanged = false,
  }
end

-- What a call weighs in the sums: money held, money owed to the ledger, calls under way, whether the ledger must still
-- confirm something. Four values rather than a table: this runs for every operation.
local function weigh(call)
  local state = call.state
  if state == 'held' then
    return call.held, 0, 1, false
  end
  if state == 'settled' or state == 'expired' then
    local owed = call.amount - call.booked
    if owed < 0 then
      owed = 0
    end
    return 0, owed, 0, state == 'settled' or owed > 0
  end
  if state == 'leased' then
    return call.held, 0, call.calls, false
  end
  if state == 'summed' then
    return 0, math.max(0, call.amount - call.booked), 0, call.count > 0
  end
  return 0, 0, 0, false
end

-- Whether a call stands in the index of its relay process.
local function isIndexed(state)
  return state == 'held' or state == 'leased'
end

local callPattern = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ([^\n]*)\n()'

local function parseCall(text)
  local state, accountId, keyId, owner, estimate, held, checkpoint, amount, final, booked, expired, model, at =
    string.match(text, callPattern)
  local call = {
    state = state,
    account = accountId ~= '-' and accountId or nil,
    key = keyId ~= '-' and keyId or nil,
    session = owner ~= '-' and owner or nil,
    estimate = toNumber(estimate),
    held = toNumber(held),
    checkpoint = toNumber(checkpoint),
    amount = toNumber(amount),
    final = toNumber(final),
    booked = toNumber(booked),
    isExpired = expired == '1',
    model = model ~= '-' and model or nil,
    recordAt = at,
    record = nil,
    isChanged = false,
  }
  if state == 'leased' then
    local left, stepUs, endsMs = string.match(text, '^(%d+) (%d+) (%d+)$', at)
    call.calls, call.stepUs, call.endsMs = toNumber(left), toNumber(stepUs), toNumber(endsMs)
  elseif state == 'summed' then
    call.count = tonumber(string.sub(text, at)) or 0
  end
  return call
end

-- Reads calls by one command. Those that were read before stay as they are: they may have been changed since.
local function fetchCalls(rids)
  local missing, names, at = {}, {}, 0
  for i = 1, #rids do
    local rid = rids[i]
    if texts[rid] == nil and calls[rid] == nil then
      at = at + 1
      missing[at], names[at] = rid, callName .. rid
    end
  end
  for from = 1, #missing, maxArguments do
    local found = redis.call('MGET', unpack(names, from, math.min(#names, from + maxArguments - 1)))
    for i = 1, #found do
      texts[missing[from + i - 1]] = found[i]
    end
  end
end

local function readCall(rid)
  local call = calls[rid]
  if call == nil then
    local text = texts[rid]
    if text == nil then
      text = redis.call('GET', callName .. rid)
      texts[rid] = text
    end
    call = text and parseCall(text)
    calls[rid] = call
  end
  return call or nil
end

local function moveSums(call, held, owed, open, pending)
  local payer, used = account(call.account), key(call.key)
  payer.held, payer.unposted = payer.held + held, payer.unposted + owed
  payer.open, payer.pending = payer.open + open, payer.pending + pending
  used.held, used.unposted = used.held + held, used.unposted + owed
  -- A process of the version before this count may have ended calls, or begun them: no key has more than its account.
  used.open = math.max(0, math.min(used.open + open, payer.open))
  payer.isDirty, used.isDirty = true, true
  openHolds = openHolds + open
end

local function step(before, after)
  if before == after then
    return 0
  end
  return after and 1 or -1
end

-- What the call that is about to be changed weighs; see change().
local heldBefore, owedBefore, openBefore, wasPending

-- A change of a call is enclosed by change() and changed(): sums, indexes and its life time follow from what it weighs
-- before and after.
local function change(rid, call)
  heldBefore, owedBefore, openBefore, wasPending = weigh(call)
  if not call.isChanged then
    call.isChanged = true
    calls[rid] = call
    local at = #changedRids + 1
    changedRids[at], indexedIn[at], wasInOutbox[at] = rid, isIndexed(call.state) and call.session, wasPending
  end
end

local function changed(call)
  local held, owed, open, isPending = weigh(call)
  if held ~= heldBefore or owed ~= owedBefore or open ~= openBefore or isPending ~= wasPending then
    moveSums(call, held - heldBefore, owed - owedBefore, open - openBefore, step(wasPending, isPending))
  end
  if not isPending and not isIndexed(call.state) then
    call.account, call.key, call.session, call.model = nil, nil, nil, nil
    call.held, call.checkpoint, call.amount, call.record = 0, 0, call.booked, ''
  end
end

-- One text out of all its deps: Redis' Lua reads each text that it makes through once more, byte by byte.
local function writeText(call, record)
  return call.state .. ' ' .. (call.account or '-') .. ' ' .. (call.key or '-') .. ' ' .. (call.session or '-') .. ' '
    .. int(call.estimate) .. ' ' .. int(call.held) .. ' ' .. int(call.checkpoint) .. ' ' .. int(call.amount) .. ' '
    .. int(call.final) .. ' ' .. int(call.booked) .. (call.isExpired and ' 1 ' or ' 0 ') .. (call.model or '-') .. '\n'
    .. record
end

-- Runs a command on a name with many arguments, a bounded number at a time.
local function callInParts(command, name, arguments)
  for from = 1, #arguments, maxArguments do
    redis.call(command, name, unpack(arguments, from, math.min(#arguments, from + maxArguments - 1)))
  end
end

local function listOf(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end

local function callForEach(command, beginning, lists)
  for name, list in pairs(lists) do
    callInParts(command, beginning .. name, list)
  end
end

-- Writes the calls that were changed, and their indexes: once each, however often it was.
local function flushCalls()
  local opened, closed, owing, paid = {}, {}, {}, {}
  local kept, keptCount = {}, 0
  for i = 1, #changedRids do
    local rid, indexed = changedRids[i], indexedIn[i]
    local call = calls[rid]
    local _, _, _, isPending = weigh(call)
    local isKept = isIndexed(call.state)
    call.isChanged = false
    if isKept then
      local list = listOf(opened, call.session)
      local at = #list
      list[at + 1], list[at + 2] = nowMsText, rid
    elseif indexed then
      local list = listOf(closed, indexed)
      list[#list + 1] = rid
    end
    if isPending and not wasInOutbox[i] then
      local at = #owing
      owing[at + 1], owing[at + 2] = nowMsText, rid
    elseif wasInOutbox[i] and not isPending then
      paid[#paid + 1] = rid
    end
    if isKept or isPending then
      kept[keptCount + 1] = callName .. rid
      keptCount = keptCount + 2
      kept[keptCount] = writeText(call, call.record or string.sub(texts[rid], call.recordAt))
    else
      redis.call('SET', callName .. rid, writeText(call, ''), 'PX', tombstoneMs)
    end
  end
  for from = 1, #kept, maxArguments do
    redis.call('MSET', unpack(kept, from, math.min(#kept, from + maxArguments - 1)))
  end
  callInParts('ZADD', prefix .. ':outbox', owing)
  callInParts('ZREM', prefix .. ':outbox', paid)
  callForEach('ZADD', prefix .. ':session:', opened)
  callForEach('ZREM', prefix .. ':session:', closed)
  changedRids, indexedIn, wasInOutbox = {}, {}, {}
end

-- A call with its hold; changed() is still to follow.
local function beginHold(rid, accountId, keyId, held)
  local call = newCall()
  change(rid, call)
  call.state, call.account, call.key, call.session = 'held', accountId, keyId, session
  call.estimate, call.held = held, held
  return call
end

-- Ends a lease: what is left of it is free again, but for its rate where its relay is lost, which may have begun calls
-- that it has not told of. In leases.lua, which is read after this.
local endLease

-- Ends the hold of a silent relay in one step: charged at its last checkpoint, the rest freed.
local function expire(rid)
  local call = readCall(rid)
  if call and call.state == 'leased' then
    return endLease(rid, call, true)
  end
  if not call or call.state ~= 'held' then
    return
  end
  local amount = math.max(call.checkpoint, call.booked)
  change(rid, call)
  call.state, call.amount, call.isExpired = amount > 0 and 'expired' or 'released', amount, true
  changed(call)
end
