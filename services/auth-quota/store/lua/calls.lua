-- Calls: reading one, and the single place where a change of state moves money.

local function newCall()
  return { estimate = -1, held = 0, checkpoint = 0, amount = 0, final = -1, booked = 0, record = '' }
end

local function known(text)
  return text ~= '-' and text or nil
end

local callPattern = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) ([^\n]*)\n()'

local function readCall(rid)
  local text = redis.call('GET', prefix .. ':call:' .. rid)
  if not text then
    return nil
  end
  local state, accountId, keyId, owner, estimate, held, checkpoint, amount, final, booked, expired, model, at =
    string.match(text, callPattern)
  return {
    state = state,
    account = known(accountId),
    key = known(keyId),
    session = known(owner),
    estimate = tonumber(estimate),
    held = tonumber(held),
    checkpoint = tonumber(checkpoint),
    amount = tonumber(amount),
    final = tonumber(final),
    booked = tonumber(booked),
    isExpired = expired == '1',
    model = known(model),
    record = string.sub(text, at),
  }
end

local function writeCall(rid, call, isEnded)
  local text = string.format('%s %s %s %s %.0f %.0f %.0f %.0f %.0f %.0f %s %s\n', call.state, call.account or '-',
    call.key or '-', call.session or '-', call.estimate, call.held, call.checkpoint, call.amount, call.final,
    call.booked, call.isExpired and '1' or '0', call.model or '-')
  if isEnded then
    redis.call('SET', prefix .. ':call:' .. rid, text, 'PX', tombstoneMs)
  else
    redis.call('SET', prefix .. ':call:' .. rid, text .. call.record)
  end
end

-- What a call weighs in the sums: money held, money owed to the ledger, whether its hold is open, whether the ledger
-- must still confirm something. Four values rather than a table: this runs twice for every operation.
local function weigh(call)
  local state = call.state
  if state == 'held' then
    return call.held, 0, true, false
  end
  if state == 'settled' or state == 'expired' then
    local owed = math.max(0, call.amount - call.booked)
    return 0, owed, false, state == 'settled' or owed > 0
  end
  return 0, 0, false, false
end

local function step(before, after)
  return (after and 1 or 0) - (before and 1 or 0)
end

local function moveSums(call, held, owed, open, pending)
  if held == 0 and owed == 0 and open == 0 and pending == 0 then
    return
  end
  local payer, used = account(call.account), key(call.key)
  payer.held, payer.unposted = payer.held + held, payer.unposted + owed
  payer.open, payer.pending = payer.open + open, payer.pending + pending
  used.held, used.unposted = used.held + held, used.unposted + owed
  payer.isDirty, used.isDirty = true, true
  openHolds = openHolds + open
end

-- Changes a call: sums, indexes and its life time follow from what it weighs before and after.
local function change(rid, call, changes)
  local heldBefore, owedBefore, wasOpen, wasPending = weigh(call)
  for name, value in pairs(changes) do
    call[name] = value
  end
  local held, owed, isOpen, isPending = weigh(call)
  moveSums(call, held - heldBefore, owed - owedBefore, step(wasOpen, isOpen), step(wasPending, isPending))
  if isOpen then
    redis.call('ZADD', prefix .. ':session:' .. call.session, int(nowMs), rid)
  elseif wasOpen then
    redis.call('ZREM', prefix .. ':session:' .. call.session, rid)
  end
  if isPending and not wasPending then
    redis.call('ZADD', prefix .. ':outbox', int(nowMs), rid)
  elseif wasPending and not isPending then
    redis.call('ZREM', prefix .. ':outbox', rid)
  end
  local isEnded = not isOpen and not isPending
  if isEnded then
    call.account, call.key, call.session, call.model = nil, nil, nil, nil
    call.held, call.checkpoint, call.amount = 0, 0, call.booked
  end
  writeCall(rid, call, isEnded)
end

-- Ends the hold of a silent relay in one step: charged at its last checkpoint, the rest freed.
local function expire(rid)
  local call = readCall(rid)
  if not call or call.state ~= 'held' then
    return
  end
  local amount = math.max(call.checkpoint, call.booked)
  change(rid, call, { state = amount > 0 and 'expired' or 'released', amount = amount, isExpired = true })
end

-- Ends holds of a relay process whose calls gave their last sign of life up to a time; at most so many.
local function expireSome(silent, untilMs, most)
  local name = prefix .. ':session:' .. silent
  local rids = redis.call('ZRANGEBYSCORE', name, '-inf', untilMs, 'LIMIT', 0, most)
  if #rids > 0 then
    redis.call('ZREM', name, unpack(rids))
  end
  for i = 1, #rids do
    expire(rids[i])
  end
  return #rids
end
