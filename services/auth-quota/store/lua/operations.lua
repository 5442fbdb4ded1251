-- The operations, by name: how many arguments each takes and what it does. Each returns a verdict, a number, a text.
-- Those that come thousands of times a second are here, the others in upkeep.lua.

local operations = {}

-- Calls of which an operation lacked data: what comes after it in the same run must not overtake it.
local waiting = {}

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
  local call = newCall()
  change(rid, call)
  call.state, call.account, call.key, call.session, call.model = 'held', accountId, keyId, session, model
  call.estimate, call.held = estimate, estimate
  changed(call)
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
  change(rid, call)
  call.held = total
  changed(call)
  return verdicts.OK, total
end }

operations.checkpoint = { 3, function(rid, costText, record)
  local cost = tonumber(costText)
  local call = readCall(rid)
  if not call or call.state ~= 'held' then
    return verdicts.NO_HOLD, call and call.amount
  end
  change(rid, call)
  if cost > call.checkpoint then
    call.checkpoint, call.record = cost, record
  end
  changed(call)
  return verdicts.OK, call.checkpoint
end }

-- A hold that was granted before Redis lost it is taken whatever money there is.
operations.restore = { 6, function(rid, accountId, keyId, heldText, costText, record)
  local held, cost = tonumber(heldText), tonumber(costText)
  local call = readCall(rid)
  if not call then
    local restored = newCall()
    change(rid, restored)
    restored.state, restored.account, restored.key, restored.session = 'held', accountId, keyId, session
    restored.estimate, restored.held, restored.checkpoint, restored.record = held, held, cost, record
    changed(restored)
    return verdicts.OK, held
  end
  if call.state ~= 'held' then
    return verdicts.NO_HOLD
  end
  if call.account ~= accountId or call.key ~= keyId then
    return verdicts.CONFLICT
  end
  change(rid, call)
  call.held = math.max(call.held, held)
  if cost > call.checkpoint then
    call.checkpoint, call.record = cost, record
  end
  changed(call)
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
    change(rid, call)
    call.final = cost
    changed(call)
    return verdicts.OK
  end
  if account(accountId).unposted + cost > maxExact then
    return verdicts.CONFLICT
  end
  local amount = math.max(call.amount, call.booked, cost)
  change(rid, call)
  call.state, call.account, call.key = 'settled', accountId, keyId
  call.amount, call.final, call.record = amount, cost, record
  changed(call)
  return verdicts.OK
end }

-- A release may overtake its reserve on another stream: the id is remembered, so that no hold is made any more.
operations.release = { 1, function(rid)
  local call = readCall(rid)
  if not call then
    local mark = newCall()
    change(rid, mark)
    mark.state = 'released'
    changed(mark)
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
  change(rid, call)
  call.state = 'released'
  changed(call)
  return verdicts.OK
end }

local states = { held = 1, released = 2, expired = 3, settled = 4, posted = 5 }

operations.lookup = { 1, function(rid)
  local call = readCall(rid)
  return verdicts.OK, call and states[call.state] or 0
end }

-- The text of a call begins with its state, and no two states begin alike.
local stateOfLetter = {}
for name, number in pairs(states) do
  stateOfLetter[string.byte(name)] = number
end
local ridLength = 36

-- Many rids in one text, one behind the other; the answer has a digit for each.
operations['lookup-many'] = { 1, function(text)
  if next(waiting) then
    return verdicts.NEED, 0
  end
  local rids, digits = {}, {}
  for at = 1, #text, ridLength do
    rids[#rids + 1] = string.sub(text, at, at + ridLength - 1)
  end
  fetchCalls(rids)
  for i = 1, #rids do
    local rid = rids[i]
    local call, found = calls[rid], texts[rid]
    if call then
      digits[i] = states[call.state]
    else
      digits[i] = found and stateOfLetter[string.byte(found)] or 0
    end
  end
  return verdicts.OK, 0, table.concat(digits)
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
  change(rid, call)
  if isFinal then
    -- Booked before the relay's own word came: that word must then be the same.
    if call.state == 'held' and call.booked == 0 then
      call.final = booked
    end
    call.state = 'posted'
  elseif not call.state or (call.state == 'released' and call.isExpired) then
    call.state = 'expired'
  end
  call.booked = math.max(call.booked, booked)
  changed(call)
  return isStrange and verdicts.CONFLICT or verdicts.OK
end }
