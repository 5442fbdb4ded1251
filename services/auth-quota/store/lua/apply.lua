-- The operations, by name: how many arguments each takes and what it does. Each returns a verdict, a number, a text.
-- ARGV: relay session, default limits per minute of account and IP, process with its runs (see state.lua), then name and
-- arguments of each operation. The answer begins with the generation; "" when there is none, and nothing was done.

local operations = {}

operations.authorize = { 3, function(ip, keyId, accountId)
  local verdict, number = refuseByIp(ip)
  if not verdict then
    verdict, number = refuseByKey(keyId, accountId, false)
  end
  if verdict then
    return verdict, number
  end
  return verdicts.OK, 0, key(keyId).models
end }

operations.reserve = { 7, function(rid, ridMs, ip, keyId, accountId, model, estimateText)
  local estimate = tonumber(estimateText)
  local known = readCall(rid)
  if known then
    if keyId == '?' then
      return verdicts.NEED, needs.IDENTITY
    end
    return repeatReserve(known, keyId, model, estimate)
  end
  if math.abs(nowMs - tonumber(ridMs)) > ridWindowMs then
    return verdicts.CONFLICT
  end
  if service.gate then
    return verdicts.UNAVAILABLE
  end
  local verdict, number = refuseByIp(ip)
  if not verdict then
    verdict, number = refuseByKey(keyId, accountId, true)
  end
  if not verdict and not isModelAllowed(key(keyId), model) then
    verdict = verdicts.MODEL
  end
  verdict = verdict or (refuseByMoney(keyId, accountId, estimate)) or refuseByAccountRate(accountId)
  if verdict then
    return verdict, number
  end
  change(rid, newCall(), {
    state = 'held', account = accountId, key = keyId, session = session, model = model,
    estimate = estimate, held = estimate,
  })
  return verdicts.OK, estimate
end }

operations.extend = { 3, function(rid, totalText, leastText)
  local total, least = tonumber(totalText), tonumber(leastText)
  local call = readCall(rid)
  if not call or call.state ~= 'held' then
    return verdicts.NO_HOLD
  end
  if total <= call.held then
    return verdicts.OK, call.held
  end
  if service.gate then
    return verdicts.UNAVAILABLE, call.held
  end
  local missing = missingData(account(call.account), key(call.key), true)
  if missing > 0 then
    return verdicts.NEED, missing, call.account .. ' ' .. call.key
  end
  local refusal, room = refuseByMoney(call.key, call.account, total - call.held)
  if refusal then
    total = call.held + room
    if least == 0 or room <= 0 or total < least then
      return refusal, call.held
    end
  end
  change(rid, call, { held = total })
  return verdicts.OK, total
end }

operations.checkpoint = { 3, function(rid, costText, record)
  local cost = tonumber(costText)
  local call = readCall(rid)
  if not call or call.state ~= 'held' then
    return verdicts.NO_HOLD, call and call.amount
  end
  local isHigher = cost > call.checkpoint
  change(rid, call, isHigher and { checkpoint = cost, record = record } or {})
  return verdicts.OK, call.checkpoint
end }

-- A hold that was granted before Redis lost it is taken whatever money there is.
operations.restore = { 6, function(rid, accountId, keyId, heldText, costText, record)
  local held, cost = tonumber(heldText), tonumber(costText)
  local call = readCall(rid)
  if not call then
    change(rid, newCall(), {
      state = 'held', account = accountId, key = keyId, session = session,
      estimate = held, held = held, checkpoint = cost, record = record,
    })
    return verdicts.OK, held
  end
  if call.state ~= 'held' then
    return verdicts.NO_HOLD
  end
  if call.account ~= accountId or call.key ~= keyId then
    return verdicts.CONFLICT
  end
  local changes = { held = math.max(call.held, held) }
  if cost > call.checkpoint then
    changes.checkpoint, changes.record = cost, record
  end
  change(rid, call, changes)
  return verdicts.OK, call.held
end }

-- A charge is taken also without a hold: Redis may have lost it, or the relay may have been taken for dead.
operations.settle = { 5, function(rid, accountId, keyId, costText, record)
  local cost = tonumber(costText)
  local call = readCall(rid) or newCall()
  if call.account and (call.account ~= accountId or call.key ~= keyId) then
    return verdicts.CONFLICT
  end
  if call.final >= 0 then
    return call.final == cost and verdicts.OK or verdicts.CONFLICT
  end
  if call.state == 'released' and not call.isExpired then
    return verdicts.CONFLICT
  end
  if call.state == 'posted' then
    if cost > call.booked then
      return verdicts.CONFLICT
    end
    change(rid, call, { final = cost })
    return verdicts.OK
  end
  if account(accountId).unposted + cost > maxExact then
    return verdicts.CONFLICT
  end
  local amount = math.max(call.amount, call.booked, cost)
  change(rid, call, {
    state = 'settled', account = accountId, key = keyId, amount = amount, final = cost, record = record,
  })
  return verdicts.OK
end }

-- A release may overtake its reserve on another stream: the id is remembered, so that no hold is made any more.
operations.release = { 1, function(rid)
  local call = readCall(rid)
  if not call then
    change(rid, newCall(), { state = 'released' })
    return verdicts.NO_HOLD
  end
  if call.state == 'released' and call.estimate >= 0 then
    return verdicts.OK
  end
  if call.state ~= 'held' then
    return verdicts.NO_HOLD
  end
  if call.checkpoint > 0 then
    return verdicts.CONFLICT
  end
  change(rid, call, { state = 'released' })
  return verdicts.OK
end }

local states = { held = 1, released = 2, expired = 3, settled = 4, posted = 5 }

operations.lookup = { 1, function(rid)
  local call = readCall(rid)
  return verdicts.OK, call and states[call.state] or 0
end }

operations['end-session'] = { 2, function(ended, most)
  if expireSome(ended, '+inf', most) == tonumber(most) then
    return verdicts.MORE
  end
  redis.call('ZREM', prefix .. ':sessions', ended)
  return verdicts.OK
end }

-- Ends some holds of the relay process that has been silent for longest, if it has been for long enough.
operations.sweep = { 2, function(silentMs, most)
  local silentSince = nowMs - tonumber(silentMs)
  if floorMs > silentSince then
    return verdicts.OK, 0
  end
  local silent = redis.call('ZRANGEBYSCORE', prefix .. ':sessions', '-inf', int(silentSince), 'LIMIT', 0, 1)[1]
  if not silent then
    return verdicts.OK, 0
  end
  local count = expireSome(silent, '+inf', most)
  if count < tonumber(most) then
    redis.call('ZREM', prefix .. ':sessions', silent)
  end
  return verdicts.MORE, count, silent
end }

-- Forgets processes of the service that have not run anything for a day.
local function forgetProcesses()
  for field, value in pairs(service) do
    local ranMs = string.match(field, '^seen:') and tonumber(string.match(value, ' (%d+)$'))
    if ranMs and nowMs - ranMs > 86400000 then
      redis.call('HDEL', prefix .. ':service', field)
    end
  end
end

-- Ends holds that their own relay seems to have forgotten: it lives, but the call gave no sign of life for very long.
operations['sweep-forgotten'] = { 2, function(silentMs, most)
  forgetProcesses()
  local silentSince = int(nowMs - tonumber(silentMs))
  local sessions = redis.call('ZRANGE', prefix .. ':sessions', 0, -1)
  for i = 1, #sessions do
    local count = expireSome(sessions[i], silentSince, most)
    if count > 0 then
      return verdicts.MORE, count, sessions[i]
    end
  end
  return verdicts.OK, 0
end }

-- Begins the first generation of a Redis that has none. Where there was one before, it has lost everything.
operations.establish = { 1, function(hadOne)
  if not service.generation then
    startGeneration(hadOne == '1')
  end
  return verdicts.OK
end }

-- How long the gate has been closed, and up to where the usage stream must be booked before it opens, once that is
-- known. NO_HOLD: it is open.
operations.gate = { 0, function()
  if not service.gate then
    return verdicts.NO_HOLD
  end
  return verdicts.OK, nowMs - tonumber(service.gate), service.gate_sequence
end }

operations['note-sequence'] = { 2, function(generation, sequence)
  if service.generation == generation and service.gate and not service.gate_sequence then
    redis.call('HSET', prefix .. ':service', 'gate_sequence', sequence)
  end
  return verdicts.OK
end }

operations['open-gate'] = { 1, function(generation)
  if service.generation == generation then
    redis.call('HDEL', prefix .. ':service', 'gate', 'gate_sequence')
    service.gate = nil
  end
  return verdicts.OK
end }

operations['account-settings'] = { 4, function(id, status, perMinute, version)
  local found = account(id)
  if found.version and found.version >= tonumber(version) then
    return verdicts.OK
  end
  redis.call('HSET', prefix .. ':account:' .. id, 'status', status, 'per_minute', perMinute, 'version', version)
  found.status, found.perMinute, found.version = status, tonumber(perMinute), tonumber(version)
  return verdicts.OK
end }

operations['key-settings'] = { 7, function(id, accountId, status, expiresMs, limit, models, version)
  local found = key(id)
  if found.version and found.version >= tonumber(version) then
    return verdicts.OK
  end
  redis.call('HSET', prefix .. ':key:' .. id, 'account', accountId, 'status', status, 'expires_ms', expiresMs,
    'limit', limit, 'models', models, 'version', version)
  found.status, found.models, found.version = status, models, tonumber(version)
  found.expiresMs, found.limit = tonumber(expiresMs), tonumber(limit)
  return verdicts.OK
end }

-- After a loss only what was asked for since counts as loaded: anything else may be overtaken by something newer that a
-- Redis which has lost it will never hear again.
local function isCurrent(askedIn)
  return service.lossless == '1' or askedIn == service.generation
end

operations.balance = { 4, function(accountId, posted, version, askedIn)
  local found = account(accountId)
  local name = prefix .. ':account:' .. accountId
  if not found.postedVersion or tonumber(version) > found.postedVersion then
    redis.call('HSET', name, 'posted', posted, 'posted_version', version)
    found.posted, found.postedVersion = tonumber(posted), tonumber(version)
  end
  if isCurrent(askedIn) and not found.isLoaded then
    redis.call('HSET', name, 'posted_in', service.generation)
    found.isLoaded = true
  end
  return verdicts.OK
end }

operations.spending = { 4, function(keyId, spent, version, askedIn)
  local found = key(keyId)
  local name = prefix .. ':key:' .. keyId
  if not found.spentVersion or tonumber(version) > found.spentVersion then
    redis.call('HSET', name, 'spent', spent, 'spent_version', version)
    found.spent, found.spentVersion = tonumber(spent), tonumber(version)
  end
  if isCurrent(askedIn) and not found.isLoaded then
    redis.call('HSET', name, 'spent_in', service.generation)
    found.isLoaded = true
  end
  return verdicts.OK
end }

-- What the ledger booked for a call contradicts what is known here: it is taken all the same, and reported.
local function isPostStrange(call, booked, isFinal)
  if call.state == 'released' and not call.isExpired then
    return booked > 0
  end
  return isFinal and call.final >= 0 and (booked < call.final or booked > math.max(call.amount, call.final))
end

operations.post = { 3, function(rid, bookedText, isFinalText)
  local booked, isFinal = tonumber(bookedText), isFinalText == '1'
  local call = readCall(rid) or newCall()
  local isStrange = isPostStrange(call, booked, isFinal)
  local changes = { booked = math.max(call.booked, booked) }
  if isFinal then
    changes.state = 'posted'
    -- Booked before the relay's own word came: that word must then be the same.
    if call.state == 'held' and call.booked == 0 then
      changes.final = booked
    end
  elseif not call.state or (call.state == 'released' and call.isExpired) then
    changes.state = 'expired'
  end
  change(rid, call, changes)
  return isStrange and verdicts.CONFLICT or verdicts.OK
end }

-- An operation on a call waits behind an earlier one on the same call that needs data first: their order is kept.
local ofCalls = {
  reserve = true, extend = true, checkpoint = true, restore = true, settle = true, release = true, lookup = true,
}
local waiting = {}

local function answer(name, first)
  local count, operation = operations[name][1], operations[name][2]
  local rid = ofCalls[name] and ARGV[first]
  if rid and waiting[rid] then
    return verdicts.NEED, 0, nil, count
  end
  local verdict, number, text = operation(unpack(ARGV, first, first + count - 1))
  if rid and verdict == verdicts.NEED then
    waiting[rid] = true
  end
  return verdict, number, text, count
end

-- Readers of replies sum up digits in doubles and go wrong just below 2^53; large amounts travel as text.
local function reply(number)
  return number < 1000000000000000 and number or int(number)
end

local answers = { '' }
local at = firstOperation
while at <= #ARGV do
  local verdict, number, text, count = answer(ARGV[at], at + 1)
  local last = #answers
  answers[last + 1], answers[last + 2], answers[last + 3] = verdict, reply(number or 0), text or ''
  at = at + 1 + count
end
flush()
answers[1] = service.generation
return answers
